"""How long a job must communicate at least, from the rates of its links.

M is the gradient in bytes on the wire (fragments x frame length), R a link's rate:

    aggregation in the switch   M / R             each worker's link, and the server's
    parameter server            W M / R           the server's link; a k-th of it with k servers
    ring all-reduce             2 (W - 1) M / (W R)   each worker's link

The bound is the largest over all links and both directions. Acknowledgements, requests and
reminders are not in it, nor is what the switches between share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.protocols.sizes import frame_bytes

if TYPE_CHECKING:
    from testbed.experiment import Experiment


def communication_bound_ns(experiment: Experiment, number: int) -> int | None:
    """Least time of one iteration's communication of a job in ns; None where no link that counts
    is limited."""
    job, entry = experiment.jobs[number], experiment.system_entry
    placement = job.fixed_placement
    fragments = experiment.fragments(number)
    packets = dict.fromkeys(placement.workers, fragments)
    if entry.memory:
        packets |= dict.fromkeys(placement.servers, fragments)
    elif placement.servers:
        largest = -(-fragments // len(placement.servers))
        packets |= dict.fromkeys(placement.servers, largest * job.workers)
    else:
        packets = {
            host: 2 * (job.workers - 1) * fragments // job.workers for host in placement.workers
        }
    bits = 8 * frame_bytes(experiment.packet_words, experiment.bitmap_bits)
    bounds = [
        count * bits * 10**9 // rate
        for host, count in packets.items()
        if (rate := _slower_rate(experiment, host)) is not None
    ]
    return max(bounds, default=None)


def _slower_rate(experiment: Experiment, host: str) -> int | None:
    """Rate in bit/s of the slower direction of a host's link; None if both are unlimited."""
    _, link, _ = experiment.topology_object().ports(host)[1]
    rates = [each.bandwidth_bps for each in experiment.link(link) if each.bandwidth_bps]
    return min(rates, default=None)
