"""Losses of links by job, and the retransmissions that follow from them.

A link's counters say how many packets it has lost. The switch also notes each of them by its header
(p4engine's tm.h), and each gradient packet that a host has sent again. So losses are told apart by
jobs, and a retransmission *follows from* the last loss of a packet of its fragment before it: of a
gradient, a sum or a result, or, where hosts add up, of the same packet. There is room for a million
notes in each switch. Of what goes beyond that, and of BMv2, this is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from testbed.protocols.sizes import FRAME_OVERHEAD
from testbed.results.counters import LOSSES

if TYPE_CHECKING:
    from testbed.setup.job_setups import Control, Platform

# As protocols/wire.py has them, which loads a compiler; a test compares the two.
PORT, SERVER = 18766, 0x4000
RESEND, REMINDED = 0x0004, 0x0020
GRADIENT, CONTROL, GRADIENT_ZEROS = 1, 7, 9

UDP_TARGET = FRAME_OVERHEAD - 6
CAUSES = (*LOSSES,)  # in the order of their numbers in tm.h
AGAIN = 3
_FIELDS = tuple(FRAME_OVERHEAD + offset for offset in (0, 4, 8, 16))  # kind, job, fragment, extra
_DIRECTIONS = ("ingress", "egress")

Lost = Counter[tuple[int, str, int | None, str]]  # packets by port, direction, job and cause


def note_calls(platform: Platform, switch: str) -> list[tuple]:
    """The control calls that have a switch take notes; none on BMv2."""
    if platform.switch == "bmv2":
        return []
    topology = platform.topology
    ports = [port for port, found in topology.ports(switch).items() if topology.is_host(found[0])]
    # With both flags it is sent for the first time, to take along a sum that was asked for.
    again = FRAME_OVERHEAD, RESEND | REMINDED, RESEND
    return [("notes_set", (UDP_TARGET, PORT), _FIELDS, again, ports)]


class Notes:
    """The notes of one switch, or of several, in arrays with a place for each note. `missed`: for
    how many there was no room."""

    def __init__(self, words: Sequence[int]) -> None:
        """words: as a switch returns them."""
        self.missed = int(words[-1])
        found = np.asarray(words[:-1], np.uint64).reshape(-1, 3)
        self.time_ns, packet, more = found.T
        self.unit = packet & np.uint64(0xFFFFFFFFFFFF)  # with the number of the communicator
        self.number = (packet >> np.uint64(32) & np.uint64(0xFFFF)).astype(np.int64)
        place = (packet >> np.uint64(48)).astype(np.int64)
        self.kind, self.what = place >> 12, place >> 10 & 3
        self.direction, self.port = place >> 9 & 1, place & 511
        self.more = more
        self.sender = (more >> np.uint64(16) & np.uint64(0xFFFF)).astype(np.int64)


def read_notes(platform: Platform, client: Control) -> Notes | None:
    """Notes of a switch; None on BMv2."""
    return None if platform.switch == "bmv2" else Notes(client.batch([("notes",)])[0])


def _jobs(platform: Platform, notes: Notes) -> np.ndarray:
    """The job of each note, -1: none."""
    known = np.minimum(notes.number, platform.numbers - 1)
    return np.where(notes.number < platform.numbers, platform.owners[known], -1)


def lost(platform: Platform, notes: Notes) -> Lost:
    """The packets of jobs that a switch has noted as lost."""
    columns = notes.port, notes.direction, _jobs(platform, notes), notes.what
    rows, counts = np.unique(np.stack(columns)[:, notes.what != AGAIN], axis=1, return_counts=True)
    found: Lost = Counter()
    for (port, direction, job, what), count in zip(rows.T.tolist(), counts.tolist(), strict=True):
        found[port, _DIRECTIONS[direction], None if job < 0 else job, CAUSES[what]] += count
    return found


def resent(platform: Platform, every: Sequence[Notes]) -> Counter[tuple[int, str]]:
    """Noted retransmissions of all switches by job and the cause of the loss that they follow from;
    `no_loss`: no packet of the fragment had been lost on a link."""
    if not every:
        return Counter()

    def whole(name: str) -> np.ndarray:
        return np.concatenate([getattr(notes, name) for notes in every])

    kind, what = whole("kind"), whole("what")
    is_gradient = np.isin(kind, (GRADIENT, GRADIENT_ZEROS, CONTROL))
    again = (what == AGAIN) & is_gradient & (whole("sender") < SERVER)
    kept = again | (what != AGAIN)
    # A packet between two hosts is that of its sender alone, and says in `extra` which step it is.
    step = whole("more") >> np.uint64(16) | np.uint64(1 << 63)
    alone = np.where(kind == CONTROL, step, np.uint64(0))[kept]
    unit, time_ns = whole("unit")[kept], whole("time_ns")[kept]
    jobs = np.concatenate([_jobs(platform, notes) for notes in every])[kept]
    what, again = what[kept], again[kept]
    order = np.lexsort((~again, time_ns, alone, unit))  # what is sent now may be lost at once
    unit, alone, what, again, jobs = (each[order] for each in (unit, alone, what, again, jobs))
    places = np.arange(len(order))
    first = np.ones(len(order), bool)
    first[1:] = (unit[1:] != unit[:-1]) | (alone[1:] != alone[:-1])
    begin = np.maximum.accumulate(np.where(first, places, 0))
    loss = np.maximum.accumulate(np.where(again, -1, places))
    cause = np.where(loss >= begin, what[loss], len(CAUSES))
    words = (*CAUSES, "no_loss")
    pairs, counts = np.unique(np.stack([jobs, cause])[:, again], axis=1, return_counts=True)
    return Counter(
        {
            (job, words[each]): count
            for (job, each), count in zip(pairs.T.tolist(), counts.tolist(), strict=True)
            if job >= 0
        }
    )
