"""A lost packet is sent again as soon as later results show the loss, not when a timer ends.

The clock is the test's: nothing is ever late here, and the first timeouts are 400 ms.
"""

from __future__ import annotations

import random

import pytest
from p4fabric_testing.matrix import first_of

from tests.support.experiments import memory_line, setup_of
from tests.support.fabric import MS, Fabric
from tests.support.switches import start_switches

TEXT = """
name: test
topology: {kind: star, hosts: 4}
system: {name: %s, window: 64}
%s
jobs:
  - {model: vgg11, workers: 3, iterations: 1, scale: 0.0006, compute_scale: 0}
"""
FRAGMENT = slice(50, 54)  # in a frame
FIRST_HOST = bytes((10, 0, 0, 1))
WITH_VALUES = 200  # bytes; prompts and answers without values are shorter


def losing(number: int, is_it):
    """A schedule that loses one frame: the `number`-th with values for which `is_it` holds."""
    seen = 0

    def schedule(now: int, node: str, frame: bytes) -> tuple[int, ...]:
        nonlocal seen
        seen += len(frame) > WITH_VALUES and is_it(node, frame)
        if seen == number:
            seen += 1
            return ()
        return (0,)

    return schedule


def a_result(node: str, frame: bytes) -> bool:
    return node == "s1" and frame[30:34] == FIRST_HOST


def a_gradient(node: str, frame: bytes) -> bool:
    return node == "h1"


def losing_again(number: int, times: int):
    """A schedule that loses the `number`-th gradient of a worker, and what the worker sends again
    of that fragment, until it has lost it so many times."""
    seen, fragment, lost = 0, None, 0

    def schedule(now: int, node: str, frame: bytes) -> tuple[int, ...]:
        nonlocal seen, fragment, lost
        if not a_gradient(node, frame) or len(frame) < WITH_VALUES:
            return (0,)
        seen += 1
        if seen == number:
            fragment = frame[FRAGMENT]
        if frame[FRAGMENT] != fragment or lost == times:
            return (0,)
        lost += 1
        return ()

    return schedule


@pytest.mark.parametrize("lost", [a_result, a_gradient], ids=["result", "gradient"])
@pytest.mark.parametrize("system", ["esa", "atp", "switchml", "ps"])
def test_a_single_loss_is_repaired_before_any_timer_ends(system, lost):
    memory = "" if system == "ps" else "memory: {aggregators: 128}"
    setup = setup_of(TEXT % (system, memory))
    fabric = Fabric(setup, start_switches(setup), losing(700, lost), delay_ns=MS)
    fabric.run()
    assert fabric.now < 300 * MS
    counted = [worker.counters() for worker in fabric.workers()]
    assert sum(each["retransmissions"] for each in counted) >= 1
    assert sum(each["duplicate_results"] for each in counted) <= 3


@pytest.mark.parametrize("system", first_of(["esa", "switchml", "atp", "ps"], 2))
def test_a_lost_retransmission_is_repaired_before_a_timeout(system):
    memory = "" if system == "ps" else "memory: {aggregators: 128}"
    setup = setup_of(TEXT % (system, memory) + "timers: {min_timeout: 400 ms}\n")
    fabric = Fabric(setup, start_switches(setup), losing_again(700, 3), delay_ns=MS)
    fabric.run()
    counted = [worker.counters() for worker in fabric.workers()]
    assert sum(each["retransmissions"] for each in counted) >= 3
    assert fabric.now < 300 * MS


FLOOD = """
name: flood
topology: {kind: star, hosts: 4}
links: {bandwidth: 10 Mbit/s, delay: 1 ms}
system: {name: %s, window: 64}
%s
jobs:
  - {model: resnet18, workers: 3, iterations: 1, scale: 0.05, compute_scale: 0}
"""
UNDISTURBED_NS = 2400 * MS  # less than this of the job is left after the flood
RECOVERY_NS = 1500 * MS  # a few of the longest timers


@pytest.mark.parametrize(
    ("system", "queue_ms"),
    first_of(
        [
            *(("switchml", queue_ms) for queue_ms in (300, 100, 1000)),
            *((system, 300) for system in ("ring", "tree", "esa", "atp")),
        ],
        1,
    ),
)
def test_after_a_flood_a_job_goes_on_at_once(system, queue_ms):
    """Queues grow, so that round trips are long; then nearly all is lost, for as long as timers
    take to back off as far as they can."""
    begin, end = 200 * MS, 10_200 * MS
    draw = random.Random(system)

    def schedule(now: int, node: str, frame: bytes) -> tuple[int, ...]:
        if not begin <= now < end:
            return (0,)
        if now > begin + 3000 * MS and draw.random() < 0.9:
            return ()
        return (queue_ms * MS * min(now - begin, 1000 * MS) // (1000 * MS),)

    setup = setup_of(FLOOD % (system, memory_line(system, 128)))
    fabric = Fabric(setup, start_switches(setup), schedule, delay_ns=MS)
    fabric.run()
    assert fabric.now > end  # the flood has hit it
    assert fabric.now < end + UNDISTURBED_NS + RECOVERY_NS
