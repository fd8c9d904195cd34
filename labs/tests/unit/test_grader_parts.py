"""Parts of the grader by themselves: what failures tell, tests draw, and sandboxes get."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from p4fabric.base.errors import UserError

from labs.grader import bench, jobs, network, packets, sandbox
from labs.grader import grade as grading
from labs.grader.bench import NotJudged
from labs.grader.box import SIGNALLED, Box, BoxDied
from labs.grader.failure import MAX_DIFFERENCES, MAX_HISTORY, Failure
from labs.grader.lab import find_lab
from labs.grader.packets import Difference, agg, dissect, layers
from labs.grader.seeds import Seed, Stream
from labs.grader.trace import fold

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
        lambda received: (received == 2, {1: (2, 5), 2: (0, 0), 3: (9, 9)}, ["log"], 0),
        lambda received: (received == 3, {1: (2, 6), 2: (1, 1), 3: (9, 9)}, [], 3),
        lambda received: (received == 4, {1: (3, 8), 2: (1, 1), 3: (9, 9)}, [], 3),
        lambda received: (False, {1: (3, 8), 2: (1, 1), 3: (9, 9)}, [], 4),
    ]
    outputs, count, log = switch.send([[1, b"a", 0], [1, b"b", 0]], None)
    assert (len(outputs), count, log, wires.asked) == (5, 5, ["log"], [{1: 5, 2: 0}])
    assert switch.astray == 0
    outputs, count, log = switch.send([[2, b"c", 0]], None)
    assert (len(outputs), count, log, wires.asked) == (2, 2, [], [{1: 1, 2: 1}])
    assert switch.astray == 3  # for ports and groups that the switch does not have
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
    first, end = jobs.draw_number(drawn)
    assert first == 1 and 1 << 31 < end < 1 << 32


def test_a_frame_that_is_too_short_has_an_empty_header():
    assert jobs.header(FRAME)[:1] + jobs.header(FRAME)[2:3] == (1, 2)
    assert jobs.header(FRAME[:50]) == (0, 0, 0, 0, 0)


def test_a_frame_has_its_layers_and_no_empty_one():
    names = [type(layer).__name__ for layer in layers(dissect(FRAME))]
    assert names[:3] == ["Ether", "IP", "UDP"] and "NoPayload" not in names
    assert [type(layer).__name__ for layer in layers(dissect(FRAME[:14]))] == ["Ether"]


def test_a_packet_is_told_field_by_field():
    found = packets.rows(FRAME)
    assert [found[f"Agg.values[{n}]"] for n in range(8)] == [str(n) for n in range(8)]
    assert "Agg.values" not in found and "IP.options" not in found
    assert (found["Agg.kind"], found["Agg.bitmap"]) == ("1 (GRADIENT)", "0x1")
    assert found["Ether.src"] == "0a:00:00:00:00:01"
    other = bytes(agg(1, "switch", job=2, kind=1, bitmap=3, values=[0, 1, 9]))
    told = {each.field: (each.expected, each.got) for each in packets.differences(FRAME, other)}
    assert told["Agg.bitmap"] == ("0x1", "0x3") and told["Agg.values[2]"] == ("2", "9")
    assert told["Agg.values[7]"] == ("7", None) and "Agg.values[1]" not in told


def test_what_scapy_cannot_read_is_bytes_behind_its_first_header(monkeypatch):
    real = packets.Ether

    def fussy(data):
        if len(data) > 14:
            raise struct.error("too short")
        return real(data)

    monkeypatch.setattr(packets, "Ether", fussy)
    for end in (13, 14, 15, 40):
        made = dissect(FRAME[:end])
        assert bytes(made) == FRAME[:end]
        kinds = [type(layer).__name__ for layer in layers(made)]
        assert kinds == (["Raw"] if end < 14 else ["Ether"] if end == 14 else ["Ether", "Raw"])


def test_what_leaves_must_be_all_that_should():
    left = []
    switch = SimpleNamespace(_history=[], astray=0)
    astray = [0]

    def send(port, frame):
        switch.astray += astray[0]
        return list(left)

    switch.send = send

    def expect(leaving, why=""):
        bench.Switch.expect(switch, 5, FRAME, leaving, why)

    other = bytes(agg(1, "switch", job=3, kind=1, bitmap=1, values=list(range(8))))
    left[:] = [(1, FRAME), (1, other), (2, other)]
    expect({1: [FRAME, other], 2: other})
    expect({2: (other,), 1: (FRAME, other)})
    with pytest.raises(Failure, match="^2 packets left port 1, not 1 packet$"):
        expect({1: FRAME, 2: other})
    with pytest.raises(Failure, match="^why \\(no packet left port 3, not 1 packet\\)$"):
        expect({1: [FRAME, other], 2: other, 3: FRAME}, "why")
    with pytest.raises(Failure, match="a packet that leaves is not what it should") as caught:
        expect({1: [FRAME, FRAME], 2: other})
    assert caught.value.where == "port 1, packet 2 differs in"
    assert [each.field for each in caught.value.differences] == ["Agg.job"]
    astray[0] = 1
    told = "why \\(1 packet left for a port or a multicast group that the switch does not have"
    with pytest.raises(Failure, match=told) as caught:
        expect({1: [FRAME, other], 2: other}, "why")
    assert caught.value.hidden_lines("") == [bench.ASTRAY]
    with pytest.raises(Failure, match="2 packets left for a port"):
        switch.astray = 2
        bench.Switch.nothing_astray(switch)


def test_a_share_of_a_checks_points_is_kept_in_tenths(lab, submission):
    def part(t):
        t.share = 0.667
        raise Failure("some of it is wrong")

    made = grading.grade(lab(part), submission)
    assert [(o.status, o.points) for o in made.outcomes][0] == ("fail", 6.6)
    assert grading.Outcome(made.outcomes[0].check, "pass", share=0.5).points == 10


def test_a_switch_on_a_network_takes_the_place_of_the_one_before():
    calls = []

    def call(box, *words):
        calls.append((box, *words))
        return len(calls)

    lab = SimpleNamespace(defines={"A": 1, "B": 2}, program="p.p4")
    random = SimpleNamespace(getrandbits=lambda bits: bits)
    made = SimpleNamespace(
        lab=lab, wires=Wires(), trace=True, random=random, call=call, _node=lambda: "node",
        _build=lambda *words: words,
    )  # fmt: skip
    first = bench.Bench.switch(made, B=3)
    assert made.wired is first._target and made.wired.number == 1
    second = bench.Bench.switch(made)
    assert made.wired is second._target and made.wired.number == 2
    key = ("p.p4", {"A": 1, "B": 3}, True)
    assert calls[0] == ("node", "attach", key, Wires.interfaces, 32, True)


@pytest.mark.parametrize(
    "limit_s, used_s, told",
    [
        (3, 3, "the time for this test is over (3 s of computing)"),
        (3, 1, "the time for this test is over (3 s of computing)"),  # less left than for a call
        (30, 1, "your program was stopped"),
    ],
)
def test_a_call_ends_with_the_time_of_its_test(limit_s, used_s, told):
    limits = []

    def call(name, *words, limit_s):
        limits.append(limit_s)
        raise BoxDied("your program was stopped")

    made = SimpleNamespace(limit_s=limit_s, used_s=used_s, about=(1, FRAME))
    with pytest.raises(Failure, match=f"^{re.escape(told)}$") as caught:
        bench.Bench.call(made, SimpleNamespace(call=call, used_s=0.5), "send", limit_s=5)
    assert caught.value.sent == (1, FRAME) and made.used_s == used_s + 0.5
    assert limits == [min(5, limit_s - used_s)] * (used_s < limit_s)


def test_a_packet_on_a_network_has_the_kernels_time():
    stamp = struct.pack("<qq", 3, 7)
    source = SimpleNamespace(recvmsg=lambda *_: (b"data", [(1, 35, stamp)], 0, None))
    assert network._receive(source, 4) == (3_000_000_007, 4, b"data")
    if os.geteuid() != 0:
        return
    before_ns = time.time_ns()
    with (
        network._open(os.getpid(), "lo") as end,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending,
    ):
        end.settimeout(60)
        sending.sendto(secret := os.urandom(16), ("127.0.0.1", 9))
        while True:
            time_ns, port, data = network._receive(end, 4)
            if data.endswith(secret):
                break
    assert before_ns <= time_ns <= time.time_ns() and port == 4


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
    assert (" --ro-bind /proc/cpuinfo /proc/cpuinfo " in words) == (kind == "compile")
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


def test_what_the_program_and_its_log_said_is_told(lab, submission, monkeypatch):
    """Unless the tests are hidden; of the log only the beginning."""

    def fail(bench):
        bench.heard([f"text {n}" for n in range(7)])
        raise Failure("It is wrong.")

    def stumble(bench):
        raise ValueError("no number")

    log = [f"log: text {n}" for n in range(5)]
    assert grading.grade(lab(fail), submission).outcomes[0].lines == ["It is wrong.", *log]
    chosen = lab(stumble)
    for program, what in ("", "returns"), ("p.p4", "sends"):
        if program:
            monkeypatch.setattr(chosen, "program", program)
            monkeypatch.setattr(grading, "prepare", lambda scratch: None)
            monkeypatch.setattr(grading, "collect", lambda *_: {})
        (line,) = grading.grade(chosen, submission).outcomes[0].lines
        told = f"the test cannot use what your program {what}"
        assert line == f"{told}: ValueError: no number"
    monkeypatch.setattr(chosen, "program", "")
    made = grading.grade(chosen, submission, Seed(secret=b"a secret that nobody guesses"))
    assert made.outcomes[0].lines == ["the test cannot use what your program returns"]


def test_no_check_runs_when_the_time_is_used_up(lab, submission, monkeypatch):
    chosen = lab(lambda bench: None)
    monkeypatch.setattr(chosen, "seconds", 0)
    outcomes = grading.grade(chosen, submission).outcomes
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
