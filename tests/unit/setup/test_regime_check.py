"""Warnings about what decides a comparison beside its question: each appears, and does not."""

from __future__ import annotations

import pytest

from testbed.cli.main import main
from testbed.setup import regime_check
from tests.support.experiments import setup_of

LOOP = """
name: loop
runtime: virtual
topology: {kind: star, hosts: 12}
links: {bandwidth: 100 Gbit/s, delay: 1 us}
system: {name: esa, window: 512}
memory: {aggregators: 4096}
jobs:
  - {model: vgg11, workers: 4, iterations: 1, scale: 0.1}
"""
LLM = """
name: llm
runtime: virtual
topology: {kind: star, hosts: 9}
links: {bandwidth: 100 Gbit/s, delay: 1 us}
system: {name: ring, window: 512}
jobs:
  - model: {transformer: llama2-7b, layers: 1, sequence: 4096, global_batch: 4, gpu: h100}
    parallel: {tp: 4}
    workers: 4
    iterations: 1
    scale: %s
"""


def warned(text: str, words: str, tuned: bool = False) -> list[str]:
    return [each for each in regime_check.warnings(setup_of(text), tuned) if words in each]


def test_a_sound_setting_needs_no_warning():
    assert regime_check.warnings(setup_of(LOOP)) == []


@pytest.mark.parametrize(("window", "warns"), [(16, True), (300, True), (320, False)])
def test_a_window_below_the_product(window, warns):
    """The round trip takes 8.3 us, in which 100 Gbit/s carry 319 packets of 326 B."""
    text = LOOP.replace("512", str(window))
    found = warned(text, "below the bandwidth-delay product, 319 fragments (8.30 us)")
    assert bool(found) == warns
    assert not warned(text, "below the bandwidth", tuned=True)


@pytest.mark.parametrize(("scale", "warns"), [(0.001, True), (0.1, False), (1, False)])
def test_a_scale_that_changes_the_regime_prints_both_bounds(scale, warns):
    """VGG-11's 133 million values take 54 ms, and eleven round trips 0.1 ms."""
    (text,) = warned(LOOP.replace("0.1}", f"{scale}}}"), "changes what decides") or [""]
    assert bool(text) == warns
    if warns:
        assert "a round trip for each of 11 tensors 6" in text and "at full size bytes" in text
        scaled = LOOP.replace("0.1}", f"{scale}}}") + "scale_windows: yes\n"
        assert not warned(scaled, "changes what decides")


@pytest.mark.parametrize(("servers", "rate", "warns"), [(1, 100, True), (4, 100, False)])
def test_a_busiest_link_of_a_server(servers, rate, warns):
    system = f"{{name: ps, servers: {servers}, window: 512}}"
    text = LOOP.replace("{name: esa, window: 512}", system)
    text = text.replace("memory: {aggregators: 4096}\n", "")
    (found,) = warned(text, "the busiest link is that of h") or [""]
    assert bool(found) == warns
    assert ("4.000 times as long as any other link" in found) == warns


def test_a_server_on_a_slow_link_is_the_busiest_with_switches_too():
    slow = "delay: 1 us, each: [{between: [h5, s1], bandwidth: 40 Gbit/s}]"
    (text,) = warned(LOOP.replace("delay: 1 us", slow), "the busiest link is that of h5")
    assert "2.500 times" in text
    alone = "bandwidth: unlimited, " + slow
    assert not warned(LOOP.replace("bandwidth: 100 Gbit/s, delay: 1 us", alone), "the busiest")


@pytest.mark.parametrize(("scale", "warns"), [(0.001, True), (1, False)])
def test_calls_of_few_round_trips(scale, warns):
    assert bool(warned(LLM % scale, "latency decides:")) == warns


def test_a_remedy_for_transformers_is_to_sample_layers():
    (text,) = warned(LLM % 0.001, "changes what decides")
    assert "or scale 1 with layers: sampled" in text


@pytest.mark.parametrize(
    ("sweep", "names"),
    [
        ("system: [esa, {name: atp, window: 7}]", "esa (auto), atp (7)"),
        ("system: [{name: esa, window: best}, {name: atp, window: 7}]", "known of atp (7);"),
        ("system: [{name: esa, window: best}, {name: atp, window: best}]", ""),
        ("{system: [esa, atp], system.window: [8, 16]}", ""),
        ("system: [{name: esa, window: 7}, {name: esa, window: 8}]", ""),
        ("memory.aggregators: [64, 128]", ""),
    ],
)
def test_a_comparison_whose_best_windows_nobody_knows(sweep, names, tmp_path, capsys):
    file = tmp_path / "swept.yaml"
    file.write_text(LOOP + (f"sweep: {sweep}\n" if "{system:" in sweep else f"sweep:\n  {sweep}\n"))
    assert main(["check", str(file)]) == 0
    printed = capsys.readouterr().out
    assert ("the best window is not known of" in printed) == bool(names)
    assert names in printed
