"""From an experiment to one specification per host: who it is, what it computes, whom it talks to.

A specification is a plain dict that survives JSON, since it crosses to another process. All hosts
of a job get the same numbers where they must agree (pool, index, quantisation, priorities).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from testbed.derived import plan_entries as ways
from testbed.derived.bounds import communication_bound_ns
from testbed.derived.timers import NOMINAL_RATE_BPS, timers_of, uplink_rate
from testbed.derived.windows import window_of
from testbed.errors import UserError
from testbed.experiment.memory_shares import window_of_slots
from testbed.experiment.planned_faults import slow_windows
from testbed.protocols.sizes import MAX_FRAGMENTS, fragments_of, frame_bytes
from testbed.routing.tree import job_tree, root_switch, switch_of
from testbed.systems import SYSTEMS
from testbed.topology import host_ip, switch_ip

if TYPE_CHECKING:
    from testbed.experiment import Experiment

MILLION = 1_000_000
# A fragment is later than one sent after it by a reminder's delay where its remainder has to be
# pulled out of a switch. So many of the shortest are waited for before it counts as lost.
REMINDERS_OF_PATIENCE = 5


def plan(experiment: Experiment, repetition: int = 0) -> list[dict]:
    """The specifications of all hosts: of each job the workers in order, then its servers.

    Raises UserError when a job has more fragments than the packet's 32-bit number can name, or when
    a worker has no path to its server."""
    specs = []
    for number, _ in experiment.placed_jobs:
        specs += plan_job(experiment, number, repetition)
    return specs


def plan_job(experiment: Experiment, number: int, repetition: int = 0) -> list[dict]:
    """The specifications of one job's hosts; see `plan`."""
    topology = experiment.topology_object()
    job, options = experiment.jobs[number], experiment.system
    placement = job.fixed_placement
    trees = [job_tree(topology, placement.workers, server) for server in placement.servers]
    trace = job.trace()
    values, width = experiment.values_per_packet, experiment.bitmap_bits
    fragments = int(fragments_of([layer.values for layer in trace.layers], values)[-1])
    if fragments * job.iterations > MAX_FRAGMENTS:
        raise UserError(
            f"job {job.name}: {fragments} fragments x {job.iterations} iterations do not fit the "
            "packet's 32-bit fragment number; take fewer iterations "
            f"(at most {MAX_FRAGMENTS // fragments})"
        )
    reference = min(
        (uplink_rate(experiment, worker) or NOMINAL_RATE_BPS) for worker in placement.workers
    )
    gradients = None
    if trace.gradients is not None:
        gradients = {"trace": str(trace.path), "scale": job.scale}
    timers = timers_of(experiment, number)
    host_part = experiment.system_entry.hook("host_part")
    common = {
        "system": options.name,
        "job": number,
        "job_name": job.name,
        "seed": experiment.repetition_seed(repetition),
        "workers": job.workers,
        "iterations": job.iterations,
        "submitted_ns": job.submitted_ns,
        "start_ns": job.start_ns,
        "tensors": [
            {
                "name": layer.name,
                "values": layer.values,
                "forward_ns": layer.forward_ns,
                "backward_ns": layer.backward_ns,
            }
            for layer in trace.layers
        ],
        "fragments": fragments,
        "values": values,
        "bitmap_width": width,
        "gradients": gradients,
        "communication_ns": fragments * frame_bytes(values, width) * 8 * 10**9 // reference,
        "bound_ns": communication_bound_ns(experiment, number),
        "computation_ns": trace.forward_ns + trace.backward_ns,
        "burst_ns": timers.burst_ns,
        "switches": [
            (topology.number(name), switch_ip(topology.number(name)))
            for name in (trees[0].switches if trees else ())
        ],
        **host_part(experiment, number),
    }
    peers_of = experiment.system_entry.hook("peers") or servers_of
    own_part = experiment.system_entry.hook("worker_part")

    def address(node: str) -> str:
        number = topology.number(node)
        return host_ip(number) if node in topology.hosts else switch_ip(number)

    specs = []
    for worker, host in enumerate(placement.workers):
        specs.append(
            {
                **common,
                "role": "worker",
                "host": host,
                "worker": worker,
                "slow": slow_windows(experiment, number, worker),
                "speed_spread": round(MILLION * job.speed_spread),
                "compute_jitter": round(MILLION * job.compute_jitter),
                "address": address(host),
                "peers": [address(peer) for peer in peers_of(experiment, number, worker)],
                "rate_bps": uplink_rate(experiment, host),
                **(own_part(experiment, number, worker) if own_part else {}),
            }
        )
    for server, host in enumerate(placement.servers):
        gateway = switch_ip(topology.number(switch_of(topology, host)))
        specs.append(
            {
                **common,
                "role": "ps",
                "host": host,
                "worker": None,
                "server": server,
                "address": address(host),
                "peers": [
                    gateway,
                    *(address(worker) for worker in placement.workers),
                    *(ip for _, ip in common["switches"]),
                ],
                "rate_bps": uplink_rate(experiment, host),
            }
        )
    return specs


def servers_of(experiment: Experiment, number: int, worker: int) -> tuple[str, ...]:
    return experiment.jobs[number].fixed_placement.servers


def worker_part(experiment: Experiment, number: int) -> dict:
    """What the workers of every system need."""
    options = experiment.system
    timers = timers_of(experiment, number)
    return {
        "order": options.order,
        "window": window_of(experiment, number),
        "timeout_ns": options.timeout_ns or 0,
        "least_timeout_ns": timers.least_timeout_ns,
        "most_timeout_ns": timers.most_timeout_ns,
        "least_patience_ns": REMINDERS_OF_PATIENCE * timers.least_reminder_delay_ns,
    }


def server_part(experiment: Experiment, number: int) -> dict:
    """What the hosts of a system with a parameter server need; 0: adaptive."""
    timers = timers_of(experiment, number)
    return {
        **worker_part(experiment, number),
        "reminder": True,  # without a switch to remind, of the workers that a fragment lacks
        "reminder_delay_ns": 0,
        "least_reminder_delay_ns": timers.least_reminder_delay_ns,
        "most_reminder_delay_ns": timers.most_reminder_delay_ns,
    }


def pool_part(experiment: Experiment, number: int) -> dict:
    """What the hosts of a system with a shared pool and a parameter server need."""
    options = experiment.system
    return {
        **server_part(experiment, number),
        "pool": experiment.memory.aggregators,
        "reminder": options.reminder,
        "reminder_delay_ns": options.reminder_delay_ns or 0,
    }


def esa_part(experiment: Experiment, number: int) -> dict:
    options = experiment.system
    part = pool_part(experiment, number)
    return {**part, "index": options.index, "priority": options.priority}


def atp_part(experiment: Experiment, number: int) -> dict:
    options = experiment.system
    return {
        **pool_part(experiment, number),
        "index": "position",
        "position_index": options.index,
        "rehash": options.rehash,
        "priority": "constant",
        "gap": options.gap,
        "fixed_point_scale": options.fixed_point_scale,
    }


def grid_part(experiment: Experiment, number: int) -> dict:
    """GRID's hosts are those of its memory's system; its switches, the plan's."""
    options, topology = experiment.system, experiment.topology_object()
    job = ways.plan_of(experiment).jobs[number]
    part = {
        **pool_part(experiment, number),
        "memory": options.memory,
        "index": options.index,
        "priority": "esa" if options.memory == "esa" else "constant",
        "stripes": ways.server_stripes(job, experiment.fragments(number)),
        "switches": [
            (topology.number(name), switch_ip(topology.number(name)))
            for name in ways.aggregating(job)
        ],
    }
    if options.memory == "atp":
        defaults = SYSTEMS["atp"].options.model_fields
        part |= {name: defaults[name].default for name in ("rehash", "gap", "fixed_point_scale")}
        part |= {"index": "position", "position_index": options.index}
        if any(len(worker.assignments) > 1 for worker in job.workers):
            part["gap"] = 0  # over several ways, what comes early says nothing of what is lost
    return part


def grid_worker_part(experiment: Experiment, number: int, worker: int) -> dict:
    """What the plan has for a worker: its ways, and its pace."""
    mine = ways.plan_of(experiment).jobs[number].workers[worker]
    bits = 8 * frame_bytes(experiment.values_per_packet, experiment.bitmap_bits)
    fragments = experiment.fragments(number)
    return {
        "stripes": ways.worker_stripes(mine, experiment.topology_object(), fragments),
        "rate_bps": int(mine.rate_bps),
        "pace_ps": ceil(bits * 10**12 / mine.rate_bps),  # never more than the plan has
    }


def switchml_part(experiment: Experiment, number: int) -> dict:
    window = window_of_slots(experiment, number)
    sets = experiment.system.sets
    return {**worker_part(experiment, number), "window": window, "sets": sets}


def ring_part(experiment: Experiment, number: int) -> dict:
    return {
        **worker_part(experiment, number),
        "ack_delay_ns": timers_of(experiment, number).ack_delay_ns,
    }


def ring_neighbours(experiment: Experiment, number: int, worker: int) -> tuple[str, ...]:
    """The next worker and the one before."""
    workers = experiment.jobs[number].fixed_placement.workers
    return workers[(worker + 1) % len(workers)], workers[worker - 1]


def root_of(experiment: Experiment, number: int, worker: int) -> tuple[str, ...]:
    """The switch where a job's sums come together."""
    workers = experiment.jobs[number].fixed_placement.workers
    return (root_switch(experiment.topology_object(), workers),)
