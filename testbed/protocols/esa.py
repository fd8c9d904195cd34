"""ESA's hosts: the pool systems' worker and server with ESA's priorities and index.

Which aggregator a fragment asks for is the packet's 32-bit index. All workers of a job and its
server compute the same number, below the size of the pool. `consecutive`: neighbouring fragments
have neighbouring aggregators, and each job starts at a place of its own, so a job never collides
with itself while its fragments in flight fit into the pool. `hash`: every fragment anywhere, as if
drawn; collides within a single job, too. Both depend on a salt that the run's seed draws for each
job: which jobs meet in which aggregators is chance, of which every repetition is another sample.
"""

from __future__ import annotations

from p4fabric.simulate.jit import njit
from p4fabric.simulate.mixing import mix2

from testbed.protocols import pool_worker, priority, server_store
from testbed.protocols.host_spec import HostSpec, PoolSpec

CONSECUTIVE = 0
HASH = 1
MODES = {"consecutive": CONSECUTIVE, "hash": HASH}


def salt_of(seed: int, job: int) -> int:
    """Salt of a job's places in the pool in a run with this seed; 32 bits."""
    return int(mix2(mix2(seed, 0x1DE), job))


def start_of(mode: int, salt: int, aggregators: int, whole: int = 0) -> int:
    """The place in the pool where a job starts, or the salt of its hash. `whole`: the size of the
    pool if it was not scaled along with the model (0: `aggregators`); jobs then lie to each other
    as in that one."""
    if mode == HASH:
        return salt
    whole = whole or aggregators
    return salt % whole * aggregators // whole


@njit(cache=True)
def index_of(mode, aggregators, start, fragment):
    """Index of a fragment, 0 .. aggregators - 1, of a job with this `start_of`."""
    if mode == HASH:
        return mix2(start, fragment) % aggregators
    return (start + fragment) % aggregators


def places_of(spec: HostSpec) -> dict[str, int]:
    """Places of a job's fragments in the pool, as fields of its hosts' configurations."""
    options, job = spec.options_of(PoolSpec), spec.job
    # Tokens have no window positions, which give other systems' fragments their places.
    mode, aggregators = MODES.get(options.index, HASH), options.aggregators
    start = start_of(mode, salt_of(job.seed, job.number), aggregators, options.whole_pool)
    return {"index_mode": mode, "aggregators": aggregators, "index_start": start}


class WorkerRules(pool_worker.Stateless, pool_worker.Rules):
    """A fragment's number gives its index."""

    @staticmethod
    @njit(cache=True)
    def index_for(worker, scoreboard, fragment):
        config, state = worker.config, scoreboard.state
        whole = state.iteration * state.fragments + fragment
        return index_of(config.index_mode, config.aggregators, config.index_start, whole)


class ServerRules(pool_worker.Stateless, server_store.Rules):
    """A fragment's number gives its index."""

    @staticmethod
    @njit(cache=True)
    def index_for(server, iteration, fragment):
        config = server.config
        whole = iteration * config.fragments + fragment
        return index_of(config.index_mode, config.aggregators, config.index_start, whole), 0


def new_worker(
    spec: HostSpec,
    gradients: pool_worker.Gradients | None = None,
    rules: type[WorkerRules] = WorkerRules,
) -> pool_worker.Worker:
    """A worker machine; `gradients` as in pool_worker.new_worker."""
    policy = priority.POLICIES[spec.options_of(PoolSpec).priority]
    return pool_worker.new_worker(spec, rules(), gradients, **places_of(spec), policy=policy)


def new_server(spec: HostSpec) -> server_store.Server:
    """A parameter server machine."""
    return server_store.new_server(spec, ServerRules(), **places_of(spec))
