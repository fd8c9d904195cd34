"""The key `scale_windows`: what becomes smaller with the models."""

from __future__ import annotations

import pytest

from testbed.schemes import set_up
from tests.support.experiments import experiment, message, setup_of

TEXT = """
name: small
runtime: virtual
topology: {kind: star, hosts: 10}
links: {bandwidth: 100 Gbit/s, delay: 2 us, jitter: 400 ns, queue: 1001 packets}
system: {name: %(system)s}
memory: {aggregators: 256}
values_per_packet: 256
virtual: {worker_delay: 2 us, worker_jitter: 1 us, worker_packet_time: 24 ns}
timers: {burst: 800 ns}
scale_windows: %(along)s
jobs:
  - &job {model: resnet50, workers: 4, iterations: 1, scale: %(scale)s}
  - *job
"""


def setup(scale=1.0, along="yes", system="esa"):
    return setup_of(TEXT % {"scale": scale, "along": along, "system": system})


def test_at_full_size_nothing_changes():
    with_key, without = setup(), setup(along="no")
    assert with_key.platform.directions == without.platform.directions
    assert with_key.platform.virtual == without.platform.virtual
    assert with_key.jobs[0].timers == without.jobs[0].timers
    assert with_key.jobs[0].window == without.jobs[0].window
    assert with_key.platform.aggregators == without.platform.aggregators


def test_without_it_a_scale_leaves_the_network_as_it_is():
    small, large = setup(0.125, "no"), setup(1, "no")
    assert small.platform.directions == large.platform.directions
    assert small.jobs[0].window == large.jobs[0].window


def test_packets_and_times_are_scaled():
    small, large = setup(0.125), setup()
    assert small.platform.aggregators == 32
    (there, _), (whole, _) = small.platform.directions[0], large.platform.directions[0]
    assert (there.queue_packets, there.jitter_ns) == (126, 50)
    assert there.ecn_threshold_packets == whole.ecn_threshold_packets // 8
    # With its time on the link, a frame is there after an eighth of the time.
    frame_ns = large.platform.frame_bits // 100
    assert there.delay_ns == round((2000 + frame_ns) / 8) - frame_ns
    assert small.jobs[0].window == large.jobs[0].window // 8
    before, after = large.jobs[0].timers, small.jobs[0].timers
    assert after.min_timeout_ns == pytest.approx(before.min_timeout_ns / 8, abs=1)
    assert after.burst_ns == 100
    virtual = small.platform.virtual
    assert (virtual.worker_delay_ns, virtual.worker_jitter_ns) == (250, 125)
    assert virtual.worker_packet_time_ns == 24
    assert small.platform.scheme.common_options(small, small.jobs[0]).window_step == 32


@pytest.mark.parametrize(
    "system, window",
    [("esa, window: 64", 8), ("switchml", 8), ("switchml, window: 48", 6), ("esa, window: 3", 1)],
)
def test_windows_of_the_file_and_parts_of_memory_are_scaled(system, window):
    assert setup(0.125, system=system).jobs[0].window == window


def test_times_of_a_system_are_scaled():
    options = "esa, timeout: 80 us, reminder_delay: 8 us, max_age: none"
    scaled = setup(0.125, system=options).platform.options
    assert (scaled.timeout_ns, scaled.reminder_delay_ns, scaled.max_age_ns) == (10_000, 1000, 0)


def test_a_loaded_experiment_says_what_the_file_says():
    """So what it prints can be loaded again."""
    loaded = experiment(TEXT % {"scale": 0.125, "along": "yes", "system": "esa"})
    again = experiment(loaded.resolved_yaml())
    assert again.aggregators == 256
    assert set_up(again).platform.aggregators == 32
    assert set_up(again).jobs[0].timers == set_up(loaded).jobs[0].timers


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  - *job", "  - {model: vgg16, workers: 4, iterations: 1, scale: 0.5}",
         "scale_windows: found jobs with a scale of 0.125 and of 0.5; allowed: one scale"),
        ("scale: 0.125", "scale: 2", "scale of 2; allowed: at most 1"),
        ("runtime: virtual", "runtime: mininet", "scale_windows: is for runtime virtual"),
        ("256}", "24}", "found 3 aggregators at a scale of 0.125; SwitchML divides them"),
        ("queue: 1001 packets", "reorder: 1 %, reorder_delay: 500 ns",
         "makes the reorder_delay from h1 to s1 62 ns at a scale of 0.125"),
    ],
)  # fmt: skip
def test_what_cannot_be_scaled_is_refused(old, new, said):
    text = TEXT % {"scale": 0.125, "along": "yes", "system": "switchml"}
    assert text.count(old) == 1
    assert said in message(text.replace(old, new))
