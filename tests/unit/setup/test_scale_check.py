"""Warnings about a scale that makes long tensors short."""

from __future__ import annotations

from testbed.setup import scale_check
from tests.support.experiments import setup_of

EXPERIMENT = """
name: scales
topology: {kind: star, hosts: 3}
system: {name: esa, window: 64}
memory: {aggregators: 256}
jobs:
  - {name: job, model: vgg11, workers: 2, iterations: 1, scale: %s}
"""


def test_a_scale_that_makes_long_tensors_short_is_told():
    """VGG-11 has eleven tensors of 1,792 to 102,764,544 values; four windows are 16,384 values."""
    (text,) = scale_check.warnings(setup_of(EXPERIMENT % 0.01))
    # The first one is that short at full size. Those of 73,856, 295,168, 590,080 and 1,180,160
    # values become so, 1.6 % of all. The others have at least 23,598 values left.
    assert text.startswith(
        "job job: scale 0.01 makes 4 of 11 tensors, with 2 % of the values, shorter than 4 windows"
        " of 64 fragments"
    )


def test_jobs_alike_have_one_warning():
    hosts = EXPERIMENT.replace("hosts: 3", "hosts: 18") % 0.01
    job = hosts.splitlines()[-1]
    (text,) = scale_check.warnings(setup_of(f"{hosts}{job}\n".replace("name: job, ", "")))
    assert text.startswith("jobs vgg11-0, vgg11-1: scale 0.01 makes")
    (text,) = scale_check.warnings(setup_of((hosts + 5 * f"{job}\n").replace("name: job, ", "")))
    assert text.startswith("6 jobs from vgg11-0 on: scale 0.01 makes")


def test_full_size_and_larger_scales_need_no_warning():
    for scale in (1, 0.5, 2):
        assert scale_check.warnings(setup_of(EXPERIMENT % scale)) == []


VIRTUAL = EXPERIMENT + "runtime: virtual\nlinks: {bandwidth: 100 Gbit/s}\n"


def test_in_virtual_time_the_network_can_be_scaled_along():
    (text,) = scale_check.warnings(setup_of(VIRTUAL % 0.01))
    assert "take a larger scale, or scale_windows: yes" in text
    (text,) = scale_check.warnings(setup_of(EXPERIMENT % 0.01))
    assert "take a larger scale, or a smaller window" in text
    assert scale_check.warnings(setup_of(VIRTUAL % 0.5 + "scale_windows: yes\n")) == []


def test_a_window_of_few_packets_is_told():
    (text,) = scale_check.warnings(setup_of(VIRTUAL % 0.125 + "scale_windows: yes\n"))
    assert "makes a window of 8 fragments" in text and "a scale of at least 0.25" in text
