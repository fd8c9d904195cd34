"""Whole runs on BMv2: every value, every system, faults, and every way in which a run can end."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from p4engine_testing.leftovers import children_of

from testbed import results
from testbed.machine import kernel_probe
from tests.support.bmv2.simple_switch import why_not
from tests.support.experiments import memory_line
from tests.support.paths import ROOT

pytestmark = [pytest.mark.bmv2, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

# Small, since simple_switch forwards some thousand packets/s of a whole machine.
SMALL = """
name: small
switch: bmv2
topology: {kind: star, hosts: 6}
links: {bandwidth: 1 Mbit/s}
system: {name: esa, window: 16}
memory: {aggregators: 16}
timers: {min_timeout: 500 ms, min_reminder_delay: 20 ms}
jobs:
  - {name: a, model: resnet50, workers: 2, iterations: 2, scale: 0.0004, compute_scale: 0}
  - {name: b, model: resnet18, workers: 2, iterations: 2, scale: 0.0004, compute_scale: 0}
"""


def command(path: Path, folder: Path) -> list[str]:
    return ["/usr/bin/python3", str(ROOT / "run.py"), str(path), "--results", str(folder)]


def start(text: str, folder: Path) -> subprocess.Popen:
    folder.mkdir()
    path = folder / "experiment.yaml"
    path.write_text(text)
    pipe = subprocess.PIPE
    # Tests in the background of a shell inherit an ignored SIGINT, and Python leaves it so.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    words = command(path, folder / "results")
    return subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed)


def ended(process: subprocess.Popen) -> tuple[int, str]:
    """Exit code and standard error; a run that takes too long is ended."""
    try:
        said = process.communicate()[1]
        return process.returncode, said
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate()


def finished(text: str, folder: Path) -> results.Results:
    """Run an experiment that must end well; returns its results after checking every value."""
    code, said = ended(start(text, folder))
    assert code == 0, said
    (made,) = (folder / "results").iterdir()
    read = results.read(made)
    jobs = read.jobs
    assert read.state == "finished" and jobs.exact.all()
    assert (jobs.values_checked == jobs["values"] * jobs.iterations * jobs.workers).all()
    return read


def switch_process(process: subprocess.Popen) -> int:
    """The process of a run's only switch, once it is simple_switch and hosts have begun."""
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        switches, names = [], []
        for pid in children_of(process.pid):
            try:
                names.append(Path(f"/proc/{pid}/comm").read_text())
                if b"--thrift-port" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    switches.append(pid)  # before, `simple_switch --help` is asked for its options
            except OSError:
                continue
        if switches and any(name.startswith("ina-h1-") for name in names):
            return switches[0]
        time.sleep(0.05)
    raise AssertionError("no simple_switch in this run")


def test_a_run_is_exact_and_fills_the_tables(tmp_path):
    read = finished(SMALL, tmp_path / "run")
    counters = read.switch_counters.groupby("counter").value.sum()
    assert counters["completions"] > 0 and counters["filling_completed_ns"] > 0
    links = read.links.set_index(["port", "direction"])
    hosts = read.hosts.set_index("host")
    for port in range(1, 7):
        # What a host has sent is what came in there, in packets and in bytes from Ethernet on.
        ingress, egress = links.loc[port, "ingress"], links.loc[port, "egress"]
        lost = ingress.unmodelled_drops + ingress.queue_drops
        assert hosts.packets_sent[f"h{port}"] == ingress.packets + lost
        if not lost:
            assert hosts.bytes_sent[f"h{port}"] == ingress.bytes
        # What comes when its host is done nobody takes in.
        assert 0 < hosts.packets_received[f"h{port}"] <= egress.packets
    switch = read.switches.iloc[0]
    assert switch.packets_received == read.links.query("direction == 'ingress'").packets.sum()
    assert switch.packets_sent == read.links.query("direction == 'egress'").packets.sum()
    assert switch.cpu_ns > 0 and switch.unmodelled_drops >= 0
    assert read.links.max_queue.isna().all() and read.links.losses.isna().all()
    assert read.links.query("direction == 'egress'").queue_drops.isna().all()
    assert (read.memory.occupied + read.memory.held <= 16).all()
    # No link can have carried more than its rate.
    assert (read.links.mean_bps > 0).all() and (read.links.mean_bps < read.links.rate_bps).all()
    assert (read.jobs.jct_ns > read.jobs.communication_bound_ns).all()
    assert read.environment["simple_switch"] and read.environment["p4c"]
    shares = read.table("fidelity").query("scope == 'switch'")
    assert set(shares.measure) == {"cpu peak share", "waited for a processor"}
    assert (shares.value > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "system",
    [
        "atp",
        "{name: atp, release: on_completion}",
        "grid",
        "switchml",
        "{name: tree, mode: quotas}",
        "ps",
        "ring",
    ],
)
def test_every_system_is_exact(tmp_path, system):
    text = SMALL.replace("system: {name: esa, window: 16}", f"system: {system}")
    text = text.replace("memory: {aggregators: 16}", memory_line(system, 16))
    finished(text, tmp_path / "run")


@pytest.mark.slow
def test_a_link_that_is_down_is_no_port(tmp_path):
    text = SMALL.replace("{kind: star, hosts: 6}", "{kind: triangle, bandwidth: 1 Mbit/s}")
    down = "links: {each: [{between: [s1, s2], failed: true}]}"
    text = text.replace("links: {bandwidth: 1 Mbit/s}", down)
    read = finished(text.replace("{name: esa, window: 16}", "grid"), tmp_path / "run")
    between = read.links.query("node == 's1' and neighbour.str.startswith('s')", engine="python")
    assert set(between.neighbour) == {"s3"}


def test_a_switch_that_is_paused_and_restarted(tmp_path):
    faults = (
        "faults:\n"
        "  - {at: 300 ms, fault: pause, switch: s1, for: 300 ms}\n"
        "  - {at: 1 s, fault: restart, switch: s1}\n"
    )
    read = finished(SMALL + faults, tmp_path / "run")
    assert read.faults.begun_ns.notna().all()


def test_a_switch_that_dies_ends_the_run_with_its_name(tmp_path):
    process = start(SMALL.replace("iterations: 2", "iterations: 1000"), tmp_path / "run")
    os.kill(switch_process(process), signal.SIGKILL)
    code, said = ended(process)
    assert code == 1
    assert "the process of switch s1 was killed by signal 9" in said


@pytest.mark.slow
def test_a_switch_that_stands_still_ends_the_run_with_its_name(tmp_path):
    process = start(SMALL.replace("iterations: 2", "iterations: 1000"), tmp_path / "run")
    os.kill(switch_process(process), signal.SIGSTOP)
    code, said = ended(process)
    assert code == 1
    when = r" is not up after 30 s|: \w+: no answer for 10 s"  # it starts, or runs
    assert re.search(rf"switch s1 \(simple_switch\)({when})", said), said


def test_nothing_outlives_a_killed_runner(tmp_path):
    process = start(SMALL.replace("iterations: 2", "iterations: 1000"), tmp_path / "run")
    switch = switch_process(process)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{switch}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{switch}").exists()
    subprocess.run(["/usr/bin/python3", str(ROOT / "run.py"), "clean"], check=True)


def test_p4c_s_error_is_the_message(tmp_path):
    broken = tmp_path / "broken.p4"
    broken.write_text((ROOT / "p4" / "esa.p4").read_text().replace("apply {", "aply {", 1))
    text = SMALL.replace("name: esa,", f"name: esa, program: {broken},")
    code, said = ended(start(text, tmp_path / "run"))
    assert code == 2
    assert re.search(r"p4c\S* refuses .*broken\.p4:\n.*broken\.p4\(\d+\)", said), said
    assert "Traceback" not in said
    assert not (tmp_path / "run" / "results").exists()


def test_a_program_that_lacks_a_table_is_found_before_anything_is_built(tmp_path):
    forward = ROOT / "p4" / "forward.p4"
    text = SMALL.replace("name: esa,", f"name: esa, program: {forward},")
    code, said = ended(start(text, tmp_path / "run"))
    assert code == 2
    assert "does not have what ESA needs" in said and "forward.p4" in said


def test_delay_needs_netem_and_says_so(tmp_path):
    text = SMALL.replace("bandwidth: 1 Mbit/s", "bandwidth: 1 Mbit/s, delay: 1 ms")
    process = start(text, tmp_path / "run")
    code, said = ended(process)
    if code == 0:
        pytest.skip("this kernel has netem")
    assert code == 2
    assert f"kernel: {kernel_probe.NETEM}: " in said and "modprobe sch_netem" in said
    assert "`switch: embedded` needs none of it" in said
