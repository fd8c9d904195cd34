"""Packets without zeros and with values of 16 bits: which are shorter, and programs' sums in them.

That such packets are as docs/wire.md says, and all values exact, is a part of every history
(test_any_history.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from p4fabric_testing.matrix import first_of

from testbed.protocols import sizes, wire
from tests.support.experiments import memory_line
from tests.support.fabric import perfect, run_exact
from tests.support.recordings import sparse, write_recording

SYSTEMS = ["esa", "atp", "switchml", "ps", "grid"]
OF_HOSTS = ["ring", "double_tree", "colocated_ps", "halving_doubling", "hierarchical"]
CASES = [
    *(("esa", "both"), ("switchml", "both"), ("ring", "zeros"), ("ps", "both")),
    *((system, form) for form in ("zeros", "short") for system in ("esa", "switchml", "ps")),
    *((system, "zeros") for system in OF_HOSTS[1:]),
]
KINDS_OF_ZEROS = (wire.GRADIENT_ZEROS, wire.RESULT_ZEROS, wire.RESULT_ONE_ZEROS)
FAULTS = dict(loss=0.03, duplicate=0.03, reorder=0.05)
VALUES = 4  # per packet
TEXT = """
name: small-packets
topology: {kind: star, hosts: 8}
links: {bandwidth: 1 Gbit/s}
system: {name: %(system)s, zeros: %(zeros)s}
%(memory)s
values_per_packet: 4
value_bits: %(bits)d
jobs:
  - {model: %(model)s, workers: 3, iterations: 3, compute_scale: 0}
  - {model: %(model)s, workers: 3, iterations: 3, compute_scale: 0, start: 20 us}
"""


def settings(form: str) -> dict[str, object]:
    return {
        "zeros": "sent" if form in ("short", "full") else "header_only",
        "bits": 32 if form in ("zeros", "full") else 16,
    }


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Path:
    return write_recording(tmp_path_factory.mktemp("sparse") / "sparse.npz", 3, values=sparse)


class Watch:
    """A schedule that counts what passes: packets by kind, short ones, and bytes."""

    def __init__(self, schedule) -> None:
        self.schedule = schedule
        self.kinds: dict[int, int] = {}
        self.short = 0
        self.bytes = 0

    def __call__(self, now, node, frame):
        kind = frame[sizes.FRAME_OVERHEAD] & 0xF
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self.short += frame[sizes.FRAME_OVERHEAD + 2] & wire.SHORT >> 8
        self.bytes += len(frame)
        return self.schedule(now, node, frame)

    @property
    def zeros(self) -> int:
        return sum(self.kinds.get(kind, 0) for kind in KINDS_OF_ZEROS)


def passing(model: Path, system: str, form: str) -> Watch:
    """What passes on wires that lose nothing, without collisions."""
    parts = {"system": system, "memory": memory_line(system, 512), "model": model, **settings(form)}
    watch = Watch(perfect)
    run_exact(TEXT, watch, **parts)
    return watch


@pytest.mark.parametrize("system, form", first_of(CASES, 3))
def test_the_same_packets_pass_and_some_are_shorter(recording, system, form):
    """Of hosts that add up, all are of kind `control`; a sum of nothing but zeros is a header."""
    full, small = passing(recording, system, "full"), passing(recording, system, form)
    if system in OF_HOSTS:
        assert set(full.kinds) == set(small.kinds) == {wire.CONTROL}
        assert small.bytes < full.bytes - 4 * VALUES * 100
        return
    assert (small.zeros > 100) == (form != "short") and (small.short > 100) == (form != "zeros")
    assert sum(full.kinds.values()) == sum(small.kinds.values())
    assert full.bytes - small.bytes == 4 * VALUES * small.zeros + 2 * VALUES * small.short
