"""run.py on a real network: a run that is right, mistakes, and every way in which a run can end."""

from __future__ import annotations

import contextlib
import functools
import os
import pty
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from p4engine_testing.leftovers import children_of
from p4fabric.emulate import run_records
from p4fabric_testing.matrix import first_of

from testbed import results
from tests.support.ina import ina
from tests.support.paths import ROOT
from tests.support.runs import PYTHON, run

# Seconds long, and small: what ends it is what these tests are about.
SMALL = """
name: small
topology: {kind: star, hosts: 6}
links: {bandwidth: 50 Mbit/s}
system: {name: esa, window: 32}
memory: {aggregators: 16}
jobs:
  - {name: a, model: resnet50, workers: 2, iterations: 2, scale: 0.001, compute_scale: 0}
  - {name: b, model: resnet18, workers: 2, iterations: 2, scale: 0.001, compute_scale: 0}
"""
# Goes on for minutes.
LONG = SMALL.replace("iterations: 2", "iterations: 1000").replace("name: small", "name: long")


@pytest.fixture
def experiment(tmp_path):
    """Writes an experiment file; returns its path."""

    def write(text: str) -> Path:
        path = tmp_path / "experiment.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def start():
    """Starts a run and returns without waiting; a test that fails leaves none running."""
    started = []

    def start(path: Path, folder: Path) -> subprocess.Popen:
        command = [PYTHON, str(ROOT / "run.py"), str(path), "--results", str(folder)]
        command.append("--no-report")
        pipe = subprocess.PIPE
        # Tests in the background of a shell inherit an ignored SIGINT, and Python leaves it so.
        heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        started.append(
            subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed)
        )
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate()


def only_results(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def wait_for_run(process: subprocess.Popen) -> Path:
    """The log folder of a run whose hosts have begun."""
    while line := process.stdout.readline():
        if line.startswith("results: "):  # before it, what takes long is named
            break
    else:
        raise AssertionError(process.stderr.read())
    folder = Path(line.split(": ", 1)[1].strip())
    deadline = time.monotonic() + 60
    while not list(folder.glob("logs/h*.log")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return folder


def wait_for_progress(process: subprocess.Popen) -> None:
    """Until the run prints how far its jobs are, which it does only once they run."""
    while line := process.stdout.readline():
        if re.match(r" +[\d.]+ s  ", line):
            return
    raise AssertionError(process.stderr.read())


def host_processes(process: subprocess.Popen) -> dict[str, int]:
    """Process ids of a run's hosts, switches and spawners, by the name that ps shows. A child that
    has its parent's name has only just been forked, and will get one of its own."""
    names, parents = {}, {}
    for pid in children_of(process.pid):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        name, _, others = stat.partition("(")[2].rpartition(")")
        names[pid], parents[pid] = name, int(others.split()[1])
    return {name: pid for pid, name in names.items() if names.get(parents[pid]) != name}


def command_line_of(pid: int) -> str:
    """Command line of a process, as ps shows it; "" if the process is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def wait_for_processes(process: subprocess.Popen, *names: str) -> dict[str, int]:
    deadline = time.monotonic() + 60
    while not set(names) <= set(found := host_processes(process)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def gone(pids: set[int]) -> bool:
    """True if the processes end within seconds: a killed process needs a moment to be reaped."""
    deadline = time.monotonic() + 3
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def end(process: subprocess.Popen) -> tuple[int, str]:
    """Exit code and standard error of a run that ends by itself."""
    _, err = process.communicate()
    return process.returncode, err


def test_a_run_leaves_complete_results(experiment, tmp_path):
    text = SMALL + "background: [{kind: udp, from: h1, to: h4, rate: 2 Mbit/s}]\n"
    done = run(experiment(text), tmp_path / "results")
    assert done.returncode == 0, done.stderr
    folder = only_results(tmp_path / "results")
    read = results.read(folder)
    assert read.state == "finished"
    jobs = read.jobs.set_index("name")
    assert jobs.exact.all() and set(jobs.index) == {"a", "b"}
    assert (jobs.values_checked == jobs["values"] * jobs.iterations * jobs.workers).all()
    assert (jobs.jct_ns > 0).all() and (jobs.ps_link_bytes_in > 0).all()
    assert len(read.hosts) == 6 and read.hosts.cpu_peak_share.notna().all()
    assert len(read.iterations) == 2 * 2 * 2 and read.iterations.end_ns.notna().all()
    assert read.tensors.done_ns.notna().all()
    assert (read.links[read.links.direction == "egress"].packets > 0).all()
    assert set(read.memory.capacity) == {16}
    counters = read.switch_counters.groupby("counter").value.sum()
    assert counters["completions"] > 0
    # What the workers sent is what the switch has seen: nothing was lost on these links.
    assert read.links.losses.sum() == 0
    taken_ns = jobs.end_ns.max() - jobs.start_ns.min()
    assert (read.links.mean_bps == read.links.bytes * 8 * 10**9 // taken_ns).all()
    (flow,) = read.flows.itertuples()
    assert flow.bytes > 0 and flow.packets_received > 0
    trusted = read.table("fidelity").groupby("scope").name.apply(set)
    assert trusted["switch"] == {"s1"} and "runner" in trusted["run"]
    assert trusted["host"] == {f"h{number}" for number in range(1, 7)}
    assert not len(read.faults)
    assert (folder / "report.txt").exists() and list((folder / "figures").iterdir())


@pytest.mark.slow
def test_repetitions_start_from_zero(experiment, tmp_path):
    done = run(experiment(SMALL + "repetitions: 2\n"), tmp_path / "results", "--no-report")
    assert done.returncode == 0, done.stderr
    read = results.read(only_results(tmp_path / "results"))
    assert list(read.jobs.repetition) == [0, 0, 1, 1]
    completed = read.switch_counters.query("counter == 'completions'")
    fragments = read.jobs.set_index(["repetition", "job"]).eval("fragments * iterations")
    for row in completed.itertuples():
        assert row.value <= fragments[row.repetition, row.job]


def test_no_c_compiler_is_named(experiment, tmp_path, monkeypatch):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("ip", "mnexec", "ifconfig"):
        (tools / name).symlink_to(f"/usr/bin/{name}" if name == "mnexec" else f"/usr/sbin/{name}")
    monkeypatch.setenv("PATH", str(tools))
    done = run(experiment(SMALL), tmp_path / "results")
    assert done.returncode == 2
    assert "no C compiler" in done.stderr and "./demo`, which installs it" in done.stderr


@pytest.mark.parametrize("victim", ["h2", pytest.param("s1", marks=pytest.mark.slow)])
def test_a_process_that_dies_ends_the_run_with_its_name(experiment, start, tmp_path, victim):
    process = start(experiment(LONG), tmp_path / "results")
    folder = wait_for_run(process)
    os.kill(wait_for_processes(process, f"ina-{victim}-r0")[f"ina-{victim}-r0"], signal.SIGKILL)
    code, err = end(process)
    assert code == 1, err
    assert victim in err and "signal 9" in err and "Traceback" not in err
    assert results.read(folder).state == "failed"


@pytest.mark.parametrize("pool", ["ina-switch pool", "ina-host pool"])
def test_a_spawner_that_dies_is_named_and_not_its_children(experiment, start, tmp_path, pool):
    process = start(experiment(LONG), tmp_path / "results")
    wait_for_run(process)
    # The name is as long as the kernel keeps it.
    os.kill(wait_for_processes(process, pool[:15])[pool[:15]], signal.SIGKILL)
    code, err = end(process)
    assert code == 1, err
    named = rf"the {pool.removeprefix('ina-')} \(process \d+\) was killed by signal 9$"
    assert re.search(named, err, re.MULTILINE) and "Traceback" not in err


def test_a_namespace_that_ends_is_named_and_not_the_switch(experiment, start, tmp_path):
    process = start(experiment(LONG), tmp_path / "results")
    wait_for_run(process)
    wait_for_processes(process, "ina-s1-r0")
    titles = {pid: command_line_of(pid) for pid in children_of(process.pid)}
    (holder,) = [pid for pid, title in titles.items() if title.startswith("ina namespace h2")]
    os.kill(holder, signal.SIGKILL)
    code, err = end(process)
    assert code == 1, err
    assert "that holds the namespace of h2 was killed by signal 9" in err


@pytest.mark.slow
def test_a_process_that_hangs_ends_the_run_with_its_name(experiment, start, tmp_path):
    process = start(experiment(LONG + "timeout: 1 s\n"), tmp_path / "results")
    folder = wait_for_run(process)
    wait_for_progress(process)  # before, a stopped process is one that does not get ready
    os.kill(wait_for_processes(process, "ina-h2-r0")["ina-h2-r0"], signal.SIGSTOP)
    code, err = end(process)
    assert code == 1, err
    assert "h2 (worker 1 of job a)" in err and "no sign of life" in err
    assert results.read(folder).state == "failed"


@pytest.mark.parametrize("victims", first_of(["some", "all", "runner"], 1))
def test_a_run_that_stood_still_is_marked(experiment, start, tmp_path, victims):
    """All its processes, as on a suspended machine or in a paused container; a switch, a worker and
    a server; or the runner. The jobs do not compute, so their senders have no schedule."""
    process = start(experiment(LONG.replace("1000", "150")), tmp_path / "results")
    wait_for_run(process)
    wait_for_progress(process)
    some = ["ina-s1-r0", "ina-h1-r0", "ina-h3-r0"]  # the last one is the server of the longer job
    stopped = [process.pid] if victims in ("all", "runner") else []
    if victims == "all":
        stopped += children_of(process.pid)
    elif victims == "some":
        found = wait_for_processes(process, *some)
        stopped += [found[name] for name in some]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGSTOP:
            time.sleep(3)
    code, err = end(process)
    assert code == 0, err
    found = results.read(only_results(tmp_path / "results"))
    assert found.jobs.exact.all() and found.fidelity == "degraded"
    assert any("seconds of standstill" in reason for reason in found.reasons), found.reasons
    table = found.table("fidelity").query("measure == 'seconds of standstill'").set_index("name")
    names = {
        "all": ["h1", "s1", "runner"],
        "some": [name.removeprefix("ina-").split("-")[0] for name in some],
        "runner": ["runner"],
    }
    for name in names[victims]:
        assert table.value[name] > 2.5 and not table.ok[name], table


# The last moment of SIGINT is drawn anew in each run; not here, since all test processes must agree
# on the names of tests.
MOMENTS = [0.1, 0.4, 0.8, 1.2, 2.0, None]
INTERRUPTS = [(signal.SIGINT, moment) for moment in MOMENTS] + [(signal.SIGTERM, 1.5)]
ALWAYS = [(signal.SIGINT, None), (signal.SIGTERM, 1.5)]


def before_it_listens(err: str) -> bool:
    """True if a traceback is of run.py alone, from a line before Python's own handler is gone."""
    lines = (ROOT / "run.py").read_text().splitlines()
    listens = next(n for n, line in enumerate(lines, 1) if "SIG_DFL" in line)
    reached = [int(each) for each in re.findall(r'File ".*", line (\d+)', err)]
    return len(reached) == 1 and reached[0] <= listens


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        pytest.param(
            *each,
            id=f"{each[0].name}-{each[1] or 'any'}",
            marks=() if each in ALWAYS else pytest.mark.slow,
        )
        for each in INTERRUPTS
    ],
)
def test_an_interrupt_at_any_moment_leaves_nothing(experiment, start, tmp_path, number, moment):
    moment = moment or random.uniform(0.2, 3)
    print(f"interrupted after {moment:.3f} s")  # shown if the test fails
    process = start(experiment(LONG), tmp_path / "results")
    time.sleep(moment)
    started = children_of(process.pid)
    process.send_signal(number)
    code, err = end(process)
    # The others are for a moment so early that Python itself was starting, or its module `site`.
    in_site = err.split() == ["KeyboardInterrupt"] or "init_import_site" in err
    assert code in (128 + number, -number) or (code == 1 and in_site and not started), (code, err)
    assert "Traceback" not in err or "run.py" not in err or before_it_listens(err), err
    assert gone(started)
    assert not list(run_records.DIRECTORY.glob(f"{process.pid}-*"))
    if (tmp_path / "results").exists():
        for folder in (tmp_path / "results").iterdir():
            assert results.read(folder).state == "interrupted"


@pytest.mark.parametrize("moment", [pytest.param(0.8, marks=pytest.mark.slow), 2.5])
def test_a_killed_run_leaves_an_unfinished_folder_and_nothing_that_clean_misses(
    experiment, start, tmp_path, moment
):
    process = start(experiment(LONG), tmp_path / "results")
    time.sleep(moment)
    started = children_of(process.pid)
    process.kill()
    process.communicate()
    assert gone(started), "processes outlive their killed runner"
    assert ina("clean").returncode == 0
    assert not list(run_records.DIRECTORY.glob(f"{process.pid}-*"))
    if (tmp_path / "results").exists():
        state = results.read(only_results(tmp_path / "results")).state
        assert state not in ("finished", "failed")


@pytest.mark.slow
def test_two_runs_at_once_both_end_well(experiment, start, tmp_path):
    path = experiment(SMALL)
    processes = [start(path, tmp_path / name) for name in ("one", "two")]
    for process in processes:
        code, err = end(process)
        assert code == 0, err
    for name in ("one", "two"):
        assert results.read(only_results(tmp_path / name)).jobs.exact.all()


def test_a_closed_terminal_ends_the_run_like_an_interrupt(experiment, tmp_path):
    """The run's own terminal goes away: no error about writing to it, nothing left behind."""
    command = [PYTHON, str(ROOT / "run.py"), str(experiment(LONG))]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command[0], [*command, "--results", str(tmp_path / "results")])
    said = b""
    while b"results: " not in said:
        said += os.read(terminal, 4096)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("results/*/logs/h*.log")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    started = children_of(pid)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP
    assert gone(started)
    assert not list(run_records.DIRECTORY.glob(f"{pid}-*"))
    assert results.read(only_results(tmp_path / "results")).state == "interrupted"
