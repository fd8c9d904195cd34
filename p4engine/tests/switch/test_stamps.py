"""The kernel's receive stamps, by the wall clock, as times of the switch's own clock (stamps.h): a
step of the wall clock moves no packet."""

from __future__ import annotations

import ctypes
import random
import subprocess
from collections import deque

import pytest
from p4engine.backend.c_build import RUNTIME, find_c_compiler

MS = 1_000_000
CALLS = """
#include "stamps.h"
int stale(const stamps *s, uint64_t stamp) { return stamps_stale(s, stamp); }
void read_clocks(stamps *s, uint64_t now, uint64_t real) { stamps_read(s, now, real); }
void empty(stamps *s) { stamps_empty(s); }
uint64_t convert(stamps *s, uint64_t stamp) { return stamps_convert(s, stamp); }
"""


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stamps")
    (folder / "calls.c").write_text(CALLS)
    target = folder / "calls.so"
    command = [find_c_compiler(), "-shared", "-fPIC", "-I", RUNTIME, "-o", target]
    subprocess.run([*command, folder / "calls.c"], check=True)
    lib = ctypes.CDLL(str(target))
    state, time = ctypes.c_void_p, ctypes.c_uint64
    lib.stale.argtypes, lib.empty.argtypes = [state, time], [state]
    lib.read_clocks.argtypes, lib.convert.argtypes = [state, time, time], [state, time]
    lib.convert.restype = time
    return lib


class Ring:
    """A receive ring and its reader under a clock of their own. `wall` is the wall clock's distance
    from it, and `errors` are what converted times were off by."""

    def __init__(self, lib: ctypes.CDLL) -> None:
        self.lib = lib
        self.state = ctypes.create_string_buffer(64)
        self.now = 5_000_000 * MS
        self.wall = 1_800_000_000_000 * MS
        self.waiting: deque[tuple[int, int]] = deque()
        self.errors: list[int] = []

    def packet(self) -> None:
        self.waiting.append((self.now, self.now + self.wall))

    def read(self, most: int = 64, meanwhile: tuple = ()) -> None:
        """As io.c does it. meanwhile: what happens after each packet."""
        lib, state = self.lib, self.state
        events = iter(meanwhile)
        while self.waiting and most:
            most -= 1
            came, stamp = self.waiting.popleft()
            if lib.stale(state, stamp):
                lib.read_clocks(state, self.now, self.now + self.wall)
            self.errors.append(lib.convert(state, stamp) - came)
            for event in next(events, ()):
                event()
        if not self.waiting:
            lib.empty(state)

    def step(self, by: int) -> None:
        self.wall += by

    def wait(self, ns: int) -> None:
        self.now += ns


@pytest.mark.parametrize("step", [500 * MS, -500 * MS, 3 * MS, -3 * MS, 7_200_000 * MS])
def test_a_step_of_the_wall_clock_moves_no_packet(lib, step):
    """Before a packet, between two that wait, after both, and while packets are read."""
    ring = Ring(lib)
    steps = [lambda: ring.step(step)]
    for where in range(4):
        for _ in range(3):  # the ring is read, and empty, before the step
            ring.packet()
            ring.wait(20_000)
            ring.read()
        for place in range(3):
            if place == where:
                ring.step(step)
            if place < 2:
                ring.packet()
            ring.wait(30_000)
        later = [*steps, lambda: ring.wait(10_000), ring.packet, lambda: ring.wait(10_000)]
        ring.read(meanwhile=(later,) if where == 3 else ())
        assert not any(ring.errors), where
        ring.step(-step)
        ring.wait(10 * MS)
        ring.packet()
        ring.read()
    assert not any(ring.errors) and len(ring.errors) == 4 * (3 + 2 + 1) + 1


def test_steps_at_any_time(lib):
    """All times are exact as long as no packet waits for as long as the smallest step, and the
    clock is set once between two readings of it."""
    rng = random.Random(1)
    ring = Ring(lib)
    for _ in range(20_000):
        for _ in range(rng.choice([1, 1, 2, 70])):
            ring.packet()
            ring.wait(rng.randrange(2_000))
        if rng.random() < 0.2:
            ring.step(rng.choice([-1, 1]) * rng.randrange(2 * MS, 1000 * MS))
        for _ in range(rng.choice([0, 1, 2])):
            ring.packet()
            ring.wait(rng.randrange(2_000))
        while ring.waiting:
            ring.read()
        ring.wait(rng.choice([1_000, 50_000, 100 * MS]))
    assert len(ring.errors) > 100_000 and not any(ring.errors)


def test_a_held_up_packet_is_off_by_no_more_than_it_waited(lib):
    rng = random.Random(2)
    ring = Ring(lib)
    for _ in range(2_000):
        begin = ring.now
        ring.packet()
        ring.wait(rng.randrange(2_000 * MS))
        ring.step(rng.choice([-1, 1]) * rng.randrange(1000 * MS))
        ring.packet()
        ring.read()
        assert all(abs(error) <= ring.now - begin for error in ring.errors[-2:])


def test_a_pause_between_the_readings_of_both_clocks_moves_no_packet(lib):
    ring = Ring(lib)
    for pause in (0, 20 * MS, 0, 0):
        ring.packet()
        came, stamp = ring.waiting.popleft()
        ring.wait(30_000)
        assert lib.stale(ring.state, stamp)
        lib.read_clocks(ring.state, ring.now, ring.now + pause + ring.wall)
        assert lib.convert(ring.state, stamp) == came
        lib.empty(ring.state)
        ring.wait(pause + MS)
    assert lib.convert(ring.state, ring.now + ring.wall + MS) < ring.now  # no time in the future
