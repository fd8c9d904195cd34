"""Admission of submitted jobs: their starts and hosts."""

from __future__ import annotations

from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.simulate.admission import Admission

TEXT = """
runtime: virtual
topology: {kind: two_level, tors: 2, hosts: 4, servers: 2}
system: ps
arrivals:
  submissions: [%(listed)s]
  at_once: %(at_once)s
  queue: %(queue)s
"""


def admission(at_once="all", queue="fifo"):
    shape = "model: resnet18, iterations: 1, scale: 0.001"
    listed = ", ".join(
        f"{{name: {name}, workers: {workers}, submit: {submit} ms, {shape}}}"
        for name, workers, submit in (("c", 2, 2), ("a", 6, 0), ("b", 6, 1))
    )
    text = TEXT % {"listed": listed, "at_once": at_once, "queue": queue}
    return Admission(set_up(load_text(text)))


def begin(queue, now_ns):
    begun = queue.begin(now_ns)
    return begun and begun.number


def test_first_come_first_served():
    queue = admission()
    assert queue.next_ns() == 0
    assert begin(queue, 0) == 1 and begin(queue, 0) is None
    assert queue.next_ns() == 10**6
    # b needs seven hosts of which three are free, and c, which would fit, does not overtake it.
    assert begin(queue, 2 * 10**6) is None
    queue.end(1)
    assert 1 not in queue.running and queue.ended == 1
    assert [begin(queue, 3 * 10**6) for _ in range(3)] == [2, 0, None]
    job = queue.running[2]
    assert (job.job.submitted_ns, job.job.start_ns) == (10**6, 3 * 10**6)
    assert job.group.workers == tuple(f"h{n}" for n in range(1, 7))
    assert queue.running[0].group.servers == ("h10",)
    assert set(queue.running) == {0, 2} and queue.next_ns() is None


def test_at_once_limits_the_running_jobs():
    queue = admission(at_once=1)
    assert begin(queue, 10**9) == 1 and begin(queue, 10**9) is None
    queue.end(1)
    assert begin(queue, 10**9) == 2 and begin(queue, 10**9) is None


def test_first_fit_lets_jobs_that_fit_overtake():
    queue = admission(queue="first_fit")
    assert begin(queue, 0) == 1 and begin(queue, 0) is None
    # b was submitted and waits, so the next to begin may be c, at its submission.
    assert queue.next_ns(after_ns=10**6) == 2 * 10**6
    assert begin(queue, 10**6) is None
    assert begin(queue, 2 * 10**6) == 0 and begin(queue, 2 * 10**6) is None
    assert queue.next_ns(after_ns=2 * 10**6) is None
    queue.end(1)
    assert begin(queue, 3 * 10**6) == 2
