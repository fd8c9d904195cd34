"""Records of runs, what can be asked of the run in progress, and words about processes that end."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from p4fabric.base.errors import RunError, UserError
from p4fabric.base.linux.processes import Identity
from p4fabric.emulate import capture, live_runs, run_records
from p4fabric.emulate.run_records import Record
from p4fabric.emulate.spawner import Process


@pytest.fixture
def folder(tmp_path, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("needs root: the folder of runs is root's")
    monkeypatch.setattr(run_records, "DIRECTORY", tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def process():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield child
    child.kill()
    child.wait()


def record(title="first (results/first)", **processes):
    made = Record.new(title)
    for name, pid in processes.items():
        made.add(name.replace("_", "-"), pid)
    made.nodes = {"h1": "host", "h2": "host", "s1": "switch"}
    made.register()
    return made


def dead(made):
    """The record, of a runner that does not live."""
    made.runner = Identity(made.runner.pid, made.runner.start + 1)
    made.save()
    return made


# ---- records ----


def test_a_record_is_read_as_it_was_written(folder, process, tmp_path):
    made = record(h1_net=process.pid, gone=2**22 - 1)
    made.logs = tmp_path / "logs"
    made.save()
    assert set(made.processes) == {"h1-net"} and made.folder.is_dir()
    assert Record.read(made.path) == made and run_records.live_runs() == [made]
    assert folder.stat().st_mode & 0o777 == 0o700
    made.remove()
    assert list(folder.iterdir()) == [] and Record.read(made.path) is None


def test_a_record_of_an_earlier_boot_is_none(folder, monkeypatch):
    made = record()
    monkeypatch.setattr(run_records, "boot_id", lambda: "another")
    assert Record.read(made.path) is None and run_records.live_runs() == []


def test_a_folder_that_others_may_write_to_is_refused(folder):
    folder.mkdir(mode=0o755)
    with pytest.raises(UserError, match="must belong to root with mode 0700"):
        record()
    folder.rmdir()
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")
    with pytest.raises(UserError, match="must belong to root"):
        record()


def test_what_dead_runs_left_is_removed_and_what_lives_stays(folder, process):
    """A process that got a dead one's id is a stranger, which stays; here it is this one."""
    lives, left = record(), record("left", h1_net=process.pid)
    left.processes["stranger"] = Identity(os.getpid(), Identity.of(os.getpid()).start - 1)
    dead(left)
    (folder / "1-broken.json").write_text('{"run": ')
    (folder / "5-abc").mkdir()
    (folder / f"{2**22 - 1}-abc.new").touch()
    (folder / f"{os.getpid()}-abc.new").touch()
    assert run_records.clean() == [
        "record and folder of run 1-broken",
        f"process {process.pid} (h1-net) of run {left.run}",
        f"record and folder of run {left.run} (left)",
        str(folder / f"{2**22 - 1}-abc.new"),
        str(folder / "5-abc"),
    ]
    assert process.wait(10) == -signal.SIGKILL
    assert {path.name for path in folder.iterdir()} == {
        *(lives.run, f"{lives.run}.json", f"{os.getpid()}-abc.new")
    }
    assert run_records.clean() == []


# ---- the run in progress ----


def test_a_run_is_chosen_by_its_name(folder, monkeypatch):
    with pytest.raises(UserError, match="no run on Mininet is in progress"):
        live_runs.choose(None)
    first = record()
    assert live_runs.choose(None) == first
    second = record("second (results/second)")
    assert live_runs.choose(second.run) == second and live_runs.choose("fir") == first
    with pytest.raises(UserError, match="(?s)several runs go on; name one.*results"):
        live_runs.choose(None)
    with pytest.raises(UserError, match="several runs go on"):
        live_runs.choose(str(os.getpid()))
    with pytest.raises(UserError, match="(?s)no run is called 'third'; there are.*first"):
        live_runs.choose("third")


@pytest.mark.parametrize(
    "node, kind, told",
    [
        ("s2", None, "has no host or switch 's2'.*there are h1, h2, s1"),
        ("h3", "switch", "has no switch 'h3'.*there are s1"),
        ("h9", "host", "has no host 'h9'.*there are h1, h2"),
    ],
)
def test_a_node_that_there_is_not_is_told(folder, node, kind, told):
    made = record()
    live_runs.check_node(made, "s1")
    live_runs.check_node(made, "s1", "switch")
    with pytest.raises(UserError, match=told):
        live_runs.check_node(made, node, kind)


def test_of_many_nodes_some_are_named():
    assert live_runs._few([f"h{n}" for n in range(12)]).endswith("h10, h11")
    assert live_runs._few([f"h{n}" for n in range(14)]).endswith("h11 and 2 more")


def test_processes_and_sockets_of_a_node(folder, process):
    made = record(h1_net=process.pid, h1_worker=os.getpid(), h2_net=os.getpid())
    found = live_runs.processes(made, "h1")
    assert {kind: each.pid for kind, each in found.items()} == {
        "namespace": process.pid, "process": os.getpid()
    }  # fmt: skip
    process.kill()
    process.wait()
    assert set(live_runs.processes(made, "h1")) == {"process"}
    with pytest.raises(UserError, match="h1 of first .* is not up"):
        live_runs.run_in_node(made, "h1", ["true"])
    with pytest.raises(UserError, match="switch s1 of .* has no control socket"):
        live_runs.control_socket(made, "s1")
    (made.folder / "s1.sock").touch()
    assert live_runs.control_socket(made, "s1") == made.folder / "s1.sock"


@pytest.mark.parametrize(
    "command, code", [(["true"], 0), (["sh", "-c", "exit 3"], 3), (["sh", "-c", "kill -9 $$"], 137)]
)
def test_a_command_in_a_node_gives_its_exit_code(folder, process, monkeypatch, command, code):
    monkeypatch.setattr(live_runs.kernel, "enter_node", lambda pid: None)
    made = record(h1_net=process.pid)
    assert live_runs.run_in_node(made, "h1", command) == code
    with pytest.raises(UserError, match="there is no command 'no-such-command'"):
        live_runs.run_in_node(made, "h1", ["no-such-command"])


def test_a_command_ends_with_its_run(folder, process, monkeypatch):
    monkeypatch.setattr(live_runs.kernel, "enter_node", lambda pid: None)
    made = record(h1_net=os.getpid())
    made.runner = Identity.of(process.pid)
    process.stdin.close()  # the runner ends
    with pytest.raises(RunError, match="has ended, and with it h1"):
        live_runs.run_in_node(made, "h1", ["sleep", "60"])


def test_a_command_in_a_node_ends_with_who_has_called_it(folder, tmp_path, monkeypatch):
    """Also where that is killed."""
    monkeypatch.setattr(live_runs.kernel, "enter_node", lambda pid: None)
    made, told = record(h1_net=os.getpid()), tmp_path / "told"
    caller = os.fork()
    if caller == 0:
        try:
            command = f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 600"
            live_runs.run_in_node(made, "h1", ["sh", "-c", command])
        finally:
            os._exit(1)
    while not told.exists():
        time.sleep(0.001)
    command = Identity.of(int(told.read_text()))
    assert command.alive()
    os.kill(caller, signal.SIGKILL)
    os.waitpid(caller, 0)
    deadline = time.monotonic() + 20
    while command.alive() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not command.kill(), "it goes on"


def test_logs_come_in_the_order_of_repetitions(folder, tmp_path):
    made = record()
    made.logs = tmp_path / "logs"
    made.logs.mkdir()
    for number, name in enumerate(("h1.log", "h1-r1.log", "h1-r2.log", "h11.log")):
        (made.logs / name).touch()
        os.utime(made.logs / name, (number, number))
    names = [path.name for path in live_runs.log_files(made, "h1")]
    assert names == ["h1.log", "h1-r1.log", "h1-r2.log"]


# ---- processes that end, and packets that are captured ----


@pytest.mark.parametrize(
    "code, log, told",
    [
        (-9, "", "was killed by signal 9"),
        (3, "it did not work", "ended with exit code 3"),
        (1, f"first\n{os.strerror(errno.ENOSPC)}", "could not write: the file system of"),
        (1, f"{os.strerror(errno.EDQUOT)}", "could not write: the file system of"),
        (1, f"{os.strerror(errno.ENOSPC)}\nand more", "ended with exit code 1"),
        (1, None, "ended with exit code 1"),
    ],
)
def test_the_end_of_a_process_in_words(tmp_path, code, log, told):
    child = Process("key", tmp_path / "child.log", 5, code)
    if log is not None:
        child.log.write_text(log)
    assert child.how_it_ended.startswith(told)
    assert (child.last_words == "") == (told.startswith("could") or not log)


def test_a_log_is_told_from_its_end(tmp_path):
    child = Process("key", tmp_path / "child.log", 5, 1)
    child.log.write_text("".join(f"line {n}\n" for n in range(20)))
    assert child.log_tail() == "\n".join(f"line {n}" for n in range(8, 20))
    assert child.log_tail(1) == "line 19"


def test_captured_packets_are_in_order_of_time(monkeypatch):
    class Interface:
        def __init__(self, *waiting):
            self.waiting = list(waiting)

        def recvmsg(self, size, more):
            if not self.waiting:
                raise BlockingIOError
            time_s, data = self.waiting.pop(0)
            stamp = capture.TIMESPEC.pack(time_s, 7)
            told = [(socket.SOL_SOCKET, capture.SO_TIMESTAMPNS, stamp), (1, 2, b"")]
            return bytes(capture.OFFLOAD.size) + data, told, 0, None

    written = []
    file = SimpleNamespace(writelines=lambda packets: written.extend(packets))
    monkeypatch.setattr(capture, "packet", lambda *each: each)
    ends = (Interface((1, b"a"), (4, b"d")), 1), (Interface((2, b"b"), (3, b"c")), 2)
    assert capture._take(ends, file, None) == 4
    assert written == [
        (1_000_000_007, 1, b"a"), (2_000_000_007, 2, b"b"),
        (3_000_000_007, 2, b"c"), (4_000_000_007, 1, b"d"),
    ]  # fmt: skip
