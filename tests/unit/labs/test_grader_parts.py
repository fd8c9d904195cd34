"""Parts of the grader by themselves: what failures tell, tests draw, and sandboxes get."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from testbed.errors import UserError
from testbed.labs.grader import bench, jobs, sandbox
from testbed.labs.grader import grade as grading
from testbed.labs.grader.bench import NotJudged
from testbed.labs.grader.box import SIGNALLED, Box, BoxDied
from testbed.labs.grader.failure import MAX_DIFFERENCES, MAX_HISTORY, Failure
from testbed.labs.grader.lab import find_lab
from testbed.labs.grader.packets import Difference, agg, dissect, layers
from testbed.labs.grader.seeds import Stream
from testbed.labs.grader.trace import fold

FRAME = bytes(agg(1, "switch", job=2, kind=1, bitmap=1, values=list(range(8))))
DIFFERENCES = [Difference("Agg.values[0]", "1", "2"), Difference("Agg.values[1]", "3", None)]


@pytest.mark.parametrize(
    "failure, told",
    [
        (Failure("m"), "a case of this test fails"),
        (Failure("m", case="late"), "late"),
        (Failure("m", differences=DIFFERENCES), "a packet that leaves differs in Agg.values"),
        (Failure("m", expected=[(1, FRAME)], got=[]), "nothing leaves the switch"),
        (Failure("m", expected=[], got=[(1, FRAME)]), "a packet leaves that should not"),
        (Failure("m", expected=[], got=[(1, FRAME)], case="late"), "late"),
    ],
)
def test_a_hidden_failure_tells_its_kind(failure, told):
    assert failure.hidden_lines("") == [told]
    if told != "a case of this test fails":
        assert failure.hidden_lines("loss") == [f"loss: {told}"]


def test_a_failure_shows_its_evidence_and_no_more_than_can_be_read():
    many = [(1, FRAME)] * (MAX_HISTORY + 2)
    differences = [Difference(f"field{n}", "1", None) for n in range(MAX_DIFFERENCES + 3)]
    lines = Failure(
        "It is wrong.", (3, FRAME), [(1, FRAME), (2, FRAME)], [], differences, "the first", many
    ).lines()
    assert lines[:2] == ["It is wrong.", "before it (and 2 packets earlier)"]
    shown = lines[2 + MAX_HISTORY :]
    assert shown[0].startswith("sent      port 3: ")
    assert shown[1].startswith("expected  ports 1, 2: ") and shown[2] == "got       nothing"
    assert shown[3] == "the first" and shown[4].endswith("expected 1, got no such field")
    assert shown[-1] == "    and 3 fields more" and len(shown) == 4 + MAX_DIFFERENCES + 1


@pytest.mark.parametrize("more, told", [(0, ""), (1, " (and 1 packets earlier)")])
def test_a_failure_says_how_many_packets_it_leaves_out(more, told):
    lines = Failure("m", history=[(1, FRAME)] * (MAX_HISTORY + more)).lines()
    assert lines[1] == f"before it{told}" and len(lines) == 2 + MAX_HISTORY


def test_a_number_of_packets_is_said():
    assert [bench._count(n) for n in (0, 1, 2)] == ["no packet", "1 packet", "2 packets"]


class Wires:
    """Ports of a switch in a network; what is captured is what the switch has counted."""

    interfaces: ClassVar = {1: "s1-eth1", 2: "s1-eth2"}

    def __init__(self):
        self.sent, self.asked, self.lost = [], [], 0

    def forget(self):
        self.asked.clear()

    def send(self, port, data):
        self.sent.append((port, data))

    def capture(self, counts):
        self.asked.append(dict(counts))
        return [(0, port, b"") for port, n in counts.items() for _ in range(n - self.lost)]


def test_a_switch_in_a_network_is_judged_by_what_arrives(monkeypatch):
    """Of what it has counted since the last time; port 3 belongs to nobody."""
    settled = []

    def call(box, what, number, received, *_, limit_s):
        assert (box, what, number) == ("box", "settle", 7)
        return settled.pop(0)(received)

    wires, carried = Wires(), [0, 0]
    made = SimpleNamespace(call=call, carried=carried)
    made.wired = switch = bench.WiredSwitch(made, "box", 7, False, wires)
    settled += [
        lambda received: (received == 2, {1: (2, 5), 2: (0, 0), 3: (9, 9)}, ["log"]),
        lambda received: (received == 3, {1: (2, 6), 2: (1, 1), 3: (9, 9)}, []),
        lambda received: (received == 4, {1: (3, 8), 2: (1, 1), 3: (9, 9)}, []),
        lambda received: (False, {1: (3, 8), 2: (1, 1), 3: (9, 9)}, []),
    ]
    outputs, count, log = switch.send([[1, b"a", 0], [1, b"b", 0]], None)
    assert (len(outputs), count, log, wires.asked) == (5, 5, ["log"], [{1: 5, 2: 0}])
    outputs, count, log = switch.send([[2, b"c", 0]], None)
    assert (len(outputs), count, log, wires.asked) == (2, 2, [], [{1: 1, 2: 1}])
    assert wires.sent == [(1, b"a"), (1, b"b"), (2, b"c")] and carried == [3, 7]
    wires.lost = 1
    with pytest.raises(NotJudged, match="of 2 packets that left the switch 1 have arrived"):
        switch.send([[1, b"d", 0]], None)
    with pytest.raises(NotJudged, match="not done with a packet after"):
        switch.send([[1, b"d", 0]], None)


@pytest.mark.parametrize(
    "code, printed, told",
    [
        (SIGNALLED + signal.SIGXCPU, b"x", "was stopped: it used up its CPU time or memory"),
        (SIGNALLED + signal.SIGKILL, b"", "was stopped: it used up its CPU time or memory"),
        (-signal.SIGKILL, b"", "was stopped: it used up its CPU time or memory"),
        (SIGNALLED + signal.SIGSEGV, b"x", "crashed (SIGSEGV)"),
        (SIGNALLED, b"", "ended with exit code 128"),
        (3, b"", "ended with exit code 3"),
        (3, b" no module \n", "ended: no module"),
        (None, b"", "closed its connection to the grader"),
    ],
)
def test_how_a_submission_ended(code, printed, told):
    def wait(_):
        if code is None:
            raise subprocess.TimeoutExpired("box", 1)
        return code

    box = SimpleNamespace(
        _process=SimpleNamespace(wait=wait), _hear=lambda: None, printed=bytearray(printed)
    )
    assert Box._end(box) == told


def test_jobs_that_are_drawn_share_nothing():
    for number in range(50):
        first, second = made = jobs.draw_jobs(SimpleNamespace(random=Stream(f"jobs {number}")))
        assert 0 in (first.number, second.number) and first.number != second.number
        ports = [port for job in made for port in (*job.ports, job.server)]
        assert len(set(ports)) == len(ports) and set(ports) <= set(jobs.PORTS)
        assert all(3 <= len(job.workers) == len(job.ports) <= 5 for job in made)
        assert first.group != second.group


def test_a_fragments_number_is_never_0():
    drawn = SimpleNamespace(random=SimpleNamespace(randrange=lambda *bounds: bounds))
    assert jobs.draw_number(drawn) == (1, 1 << 31)


def test_a_frame_that_is_too_short_has_an_empty_header():
    assert jobs.header(FRAME)[:1] + jobs.header(FRAME)[2:3] == (1, 2)
    assert jobs.header(FRAME[:50]) == (0, 0, 0, 0, 0)


def test_a_frame_has_its_layers_and_no_empty_one():
    names = [type(layer).__name__ for layer in layers(dissect(FRAME))]
    assert names[:3] == ["Ether", "IP", "UDP"] and "NoPayload" not in names
    assert [type(layer).__name__ for layer in layers(dissect(FRAME[:14]))] == ["Ether"]


def test_a_trace_may_end_with_its_parser():
    headers = [f"  hdr.h{n}, bytes {n} to {n}" for n in range(12)]
    (line,) = fold(["parser P: 12 bytes on port 1", *headers])
    assert line.startswith("parser P: 12 bytes on port 1: h0, h1,")
    assert line.endswith(" h11 (12 lines folded)")


@pytest.mark.parametrize(
    "kind, pid, state, asleep",
    [
        ("python", 5, "S", True), ("switch", 5, "S", True), ("python", 5, "R", False),
        ("python", 5, None, False), ("compile", 5, "S", False), ("python", 0, "S", False),
    ],
)  # fmt: skip
def test_only_a_submissions_process_can_be_asleep(kind, pid, state, asleep):
    def stat():
        if state is None:
            raise ProcessLookupError
        return [state]

    assert Box._asleep(SimpleNamespace(_kind=kind, pid=pid, _stat=stat)) == asleep


@pytest.mark.parametrize("kind", ["compile", "python", "switch", "network"])
def test_a_sandbox_has_what_its_kind_needs(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: "bwrap")
    words = " ".join(sandbox.command(kind, tmp_path, (), 3))
    for device in ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"):
        assert f" --dev-bind {device} {device} " in words
    assert (" --proc /proc " in words) == (kind == "network")
    assert (" --unshare-net " in words) == (kind != "network")
    assert (f" {tmp_path}/source " in words) == (kind in ("compile", "python"))
    assert (f" --bind {tmp_path}/cache " in words) == (kind == "compile")
    assert (f" --ro-bind {tmp_path}/cache " in words) == (kind in ("switch", "network"))
    assert f" --ro-bind {sandbox.INSIDE} " in words and " --remount-ro / --clearenv " in words


def test_packages_that_are_not_there_are_left_out():
    found = dict(map(reversed, sandbox._packages(("no_such_package", "this", "numpy"))))
    assert set(found) <= {"numpy", "numpy.libs"}
    assert (Path(found["numpy"]) / "__init__.py").exists()


def test_folders_that_may_hold_labs_are_emptied_where_the_compiler_sees_them(monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "INSIDE", tmp_path / "labs" / "grader" / "inside")
    assert tmp_path not in list(sandbox._installed())
    monkeypatch.setattr(sandbox, "TOOLS", (*sandbox.TOOLS, str(tmp_path)))
    assert tmp_path in list(sandbox._installed())


@pytest.fixture
def lab(monkeypatch):
    """Lab 7, with two checks that the test decides on."""
    lab = find_lab("7")
    monkeypatch.setattr(grading.seccomp, "library", lambda: None)
    monkeypatch.setattr(grading.sandbox, "bubblewrap", lambda: "")

    def made(run):
        checks = [type(c)(c.name, c.title, c.points, run) for c in lab.checks[:2]]
        monkeypatch.setattr(lab, "checks", checks)
        return lab

    return made


@pytest.fixture
def submission(tmp_path):
    (tmp_path / "quantise.py").write_text("x = 1\n")
    return tmp_path


def test_a_program_that_dies_fails_with_its_reason(lab, submission):
    def die(bench):
        raise BoxDied("your program was stopped")

    outcomes = grading.grade(lab(die), submission).outcomes
    assert [(each.status, each.lines) for each in outcomes] == [
        ("fail", ["your program was stopped"])
    ] * 2


def test_no_check_runs_when_the_time_is_used_up(lab, submission, monkeypatch):
    monkeypatch.setattr(grading, "SUBMISSION_S", 0)
    outcomes = grading.grade(lab(lambda bench: None), submission).outcomes
    assert [each.status for each in outcomes] == ["not run"] * 2
    assert "all 0 s of computing" in outcomes[0].lines[0]


def test_without_its_file_no_check_of_a_submission_runs(lab, tmp_path):
    made = grading.grade(lab(lambda bench: None), tmp_path)
    assert "quantise.py" in made.problem
    assert [each.status for each in made.outcomes] == ["not run"] * 2


def test_only_a_network_needs_a_network(lab, submission, monkeypatch):
    def refuse():
        raise UserError("no network")

    monkeypatch.setattr(grading, "refuse", refuse)
    chosen = lab(lambda bench: None)
    assert [each.status for each in grading.grade(chosen, submission).outcomes] == ["pass"] * 2
    with pytest.raises(UserError, match="no network"):
        grading.grade(chosen, submission, network=True)
