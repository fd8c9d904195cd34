"""Common code of systems in which hosts add up: switches only forward (p4/forward.p4), and an
algorithm says who gives what to whom (testbed/algorithms)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from testbed.algorithms.bounds import cost
from testbed.algorithms.by_name import ROOTED, SUMS, USES, chunks_of
from testbed.algorithms.chunk import NOBODY, Chunk, Group
from testbed.dataplane.table_calls import forward_only
from testbed.protocols.host_spec import ChunksPart, HostSpec, HostSumsSpec
from testbed.setup import Communicator, JobSetup, Scheme, Setup

Paces = dict[tuple[int, int], int]  # by pair of ranks


class HostSums(Scheme):
    """A system with one algorithm, whose facts name it."""

    def host_options(self, setup: Setup, job: JobSetup) -> HostSumsSpec:
        """Specification with the time that an acknowledgement waits."""
        return HostSumsSpec.of(
            self.common_options(setup, job), ack_delay_ns=job.timers.ack_delay_ns
        )

    def worker_part(self, setup: Setup, job: JobSetup, worker: int) -> ChunksPart:
        """The worker's places in the algorithm's chunks."""
        return _parts(job.group.algorithm, job.group.ranks)[worker]

    def peers(self, group: Communicator, worker: int) -> tuple[str, ...]:
        """The workers that it gives to or gets from."""
        part = _parts(group.algorithm, group.ranks)[worker]
        return tuple(group.workers[partner] for partner in part.partners)

    def machine(self, spec: HostSpec) -> tuple:
        from testbed.protocols import host_sums
        from testbed.workload import gradients, worker

        return worker.worker_machine(host_sums.new_member(spec, gradients.of_worker(spec)), spec)

    def tables(self, setup: Setup, switch: str, calls: list[tuple]) -> None:
        forward_only(setup, switch, calls)


@lru_cache(maxsize=256)
def _parts(algorithm: str, group: Group) -> tuple[ChunksPart, ...]:
    """The parts of all workers."""
    chunks: list[Chunk] = []
    paces: list[Paces] = []  # of each chunk
    table, known = [], {}
    for use in USES:
        found = chunks_of(algorithm, use, group)
        count = len(found) // (1 if use == SUMS else group.size)
        if found not in known:
            known[found] = len(chunks)
            chunks += found
            roots = [number // count for number in range(len(found))]
            paces += [_paces(algorithm, group, root) if use == ROOTED else {} for root in roots]
        table.append((known[found], count))
    steps = cost(algorithm, "all_reduce", group).steps
    made = tuple(zip(chunks, paces, strict=True))
    return tuple(_part(rank, made, steps, tuple(table)) for rank in range(group.size))


def _part(rank: int, chunks: Sequence[tuple[Chunk, Paces]], steps: int, table: tuple) -> ChunksPart:
    others: dict[int, int] = {NOBODY: NOBODY}
    partners: list[int] = []

    def place(partner: int) -> int:
        if partner not in others:
            others[partner] = len(partners)
            partners.append(partner)
        return others[partner]

    made = []
    for chunk, paces in chunks:
        below, after = (tuple(map(place, of[rank])) for of in (chunk.below, chunk.after))
        up, pace = chunk.up[rank], paces.get((rank, chunk.up[rank]), 0)
        made.append((place(up), place(chunk.down[rank]), below, after, pace))
    return ChunksPart(tuple(partners), tuple(made), steps, table)


@lru_cache(maxsize=256)
def _paces(algorithm: str, group: Group, root: int) -> Paces:
    """Factor by which a packet of a reduce may take longer than on a link of its own from one rank
    to another, in 1/256, so that all are done when the busiest link is."""
    found = cost(algorithm, "reduce", group, root)
    busiest = max(map(found.received, range(group.size)), default=Fraction(0))
    return {pair: int(256 * busiest / share) for pair, share in found.shares.items()}


SCHEME = HostSums()
