"""SwitchML on Mininet: two jobs, with and without loss, every value exact."""

from __future__ import annotations

from tests.support.runs import finished

TEXT = """
name: slots
topology: {kind: star, hosts: 8}
links: {bandwidth: 20 Mbit/s, loss: 0.3 %}
system: switchml
memory: {aggregators: 256}
jobs:
  - {name: a, model: resnet50, workers: 4, iterations: 2, scale: 0.003, compute_scale: 0}
  - {name: floats, model: smallcnn, workers: 4, iterations: 2}
"""


def test_a_lossy_run_of_two_jobs_without_servers_is_exact(tmp_path):
    path = tmp_path / "slots.yaml"
    path.write_text(TEXT)
    read = finished(path, tmp_path / "results")
    assert (read.jobs.saturated == 0).all()
    assert (read.jobs.retransmissions > 0).all()
    assert read.jobs.ps_packets.isna().all() and set(read.hosts.role) == {"worker"}
    counted = read.switch_counters.groupby("counter").value.sum()
    assert counted["re_emissions"] > 0 and counted["held_ns"] > 0
    assert "stale_chunks" in counted and "preemptions" not in counted


def test_a_run_with_one_set_per_slot_is_exact(tmp_path):
    text = TEXT.replace(", loss: 0.3 %", "").replace("switchml", "{name: switchml, sets: 1}")
    path = tmp_path / "one.yaml"
    path.write_text(text.replace("aggregators: 256", "aggregators: 64"))
    read = finished(path, tmp_path / "results")
    counted = read.switch_counters.groupby("counter").value.sum()
    assert counted["completions"] > 0 and counted["held_ns"] == counted["re_emissions"] == 0
