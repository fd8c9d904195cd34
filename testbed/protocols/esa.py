"""ESA's hosts: the pool systems' worker and server with ESA's priorities and index.

Which aggregator a fragment asks for is the packet's 32-bit index. All workers of a job and its
server compute the same number, below the size of the pool. `consecutive`: neighbouring fragments
have neighbouring aggregators, and each job starts at a place of its own, so a job never collides
with itself while its fragments in flight fit into the pool. `hash`: every fragment anywhere, as if
drawn; collides within a single job, too.
"""

from __future__ import annotations

from testbed.protocols import pool_worker, priority, server_store
from testbed.protocols.host_spec import HostSpec, PoolSpec
from testbed.protocols.jit import njit
from testbed.protocols.values import mix2

CONSECUTIVE = 0
HASH = 1
MODES = {"consecutive": CONSECUTIVE, "hash": HASH}


def start_of(job: int, aggregators: int, whole: int = 0) -> int:
    """The place in the pool where a job starts. `whole`: the size of the pool if it was not scaled
    along with the model (0: `aggregators`); jobs then lie to each other as in that one."""
    whole = whole or aggregators
    return int(mix2(job, 0x1DE)) % whole * aggregators // whole


@njit(cache=True)
def index_of(mode, aggregators, start, job, fragment):
    """Index of a fragment, 0 .. aggregators - 1, of a job that starts at `start`."""
    if mode == HASH:
        return mix2(job, fragment) % aggregators
    return (start + fragment) % aggregators


class WorkerRules(pool_worker.Stateless, pool_worker.Rules):
    """A fragment's number gives its index."""

    @staticmethod
    @njit(cache=True)
    def index_for(worker, scoreboard, fragment):
        config, state = worker.config, scoreboard.state
        whole = state.iteration * state.fragments + fragment
        return index_of(
            config.index_mode, config.aggregators, config.index_start, config.job, whole
        )


class ServerRules(pool_worker.Stateless, server_store.Rules):
    """A fragment's number gives its index."""

    @staticmethod
    @njit(cache=True)
    def index_for(server, iteration, fragment):
        config = server.config
        whole = iteration * config.fragments + fragment
        return (
            index_of(config.index_mode, config.aggregators, config.index_start, config.job, whole),
            0,
        )


def new_worker(
    spec: HostSpec,
    gradients: pool_worker.Gradients | None = None,
    rules: type[WorkerRules] = WorkerRules,
) -> pool_worker.Worker:
    """A worker machine; `gradients` as in pool_worker.new_worker."""
    options = spec.options_of(PoolSpec)
    return pool_worker.new_worker(
        spec,
        rules(),
        gradients,
        index_mode=MODES[options.index],
        aggregators=options.aggregators,
        index_start=start_of(spec.job.number, options.aggregators, options.whole_pool),
        policy=priority.POLICIES[options.priority],
    )


def new_server(spec: HostSpec) -> server_store.Server:
    """A parameter server machine."""
    options = spec.options_of(PoolSpec)
    return server_store.new_server(
        spec,
        ServerRules(),
        index_mode=MODES[options.index],
        aggregators=options.aggregators,
        index_start=start_of(spec.job.number, options.aggregators, options.whole_pool),
    )
