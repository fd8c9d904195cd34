"""`labs grade --network`: the same points over real links, the same walls, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from p4engine_testing.leftovers import children_of

from labs._teacher import mistakes, solution, write_mistake
from labs.commands import main
from labs.grader import network
from labs.grader.box import Box, remove, scratch_folder
from labs.grader.grade import Grade, grade
from labs.grader.lab import find_lab
from labs.grader.network import Wires
from labs.grader.seeds import Seed
from labs.tests.support import ROOT
from labs.tests.support.hostile_submission import ATTEMPTS, NO_SANDBOX

SEED = 20
STUDENT = "solution"  # whose maze the solution of lab 1 answers
pytestmark = NO_SANDBOX


def graded(lab: str, folder: Path, **options: bool) -> Grade:
    return grade(find_lab(lab), folder, Seed(SEED, STUDENT), network=True, **options)


def _told(made: Grade) -> str:
    lines = [f"{o.check.name}: {line}" for o in made.outcomes for line in o.lines]
    return "\n".join([made.problem, *lines])


def _failed(made: Grade) -> set[str]:
    assert not made.problem, made.problem
    return {o.check.name for o in made.outcomes if o.status != "pass"}


P4_LABS = [
    pytest.param(name, marks=() if name == "lab2_aggregation" else pytest.mark.slow)
    for name in (
        "lab1_forwarding",
        "lab2_aggregation",
        "lab3_pool",
        "lab4_loss",
        "lab5_sharing",
        "lab6_preemption",
        "lab8_congestion",
        "lab16_sharding",
        "lab17_experts",
        "lab18_trees",
        "lab19_floats",
    )
]


@pytest.mark.parametrize("lab", P4_LABS)
def test_the_solution_gets_full_points_over_real_links(lab):
    made = graded(lab, solution(lab))
    assert made.points == made.lab.points, _told(made)
    played = {o.check.name: o.played for o in made.outcomes}
    wired = {name for name, text in played.items() if text.startswith("on the network: hosts sent")}
    others = {
        "lab1_forwarding": {"answers"},
        "lab8_congestion": {"increase", "decrease", "once", "limits", "together"},
        "lab16_sharding": {"receiver", "owner", "together", "costs"},
        "lab17_experts": {"lossy", "burst", "costs"},
        "lab18_trees": {"network", "costs"},
        "lab19_floats": {"exact_sums", "serves", "network"},
    }
    assert set(played) - wired == others.get(lab, set()), played


def test_a_lab_without_a_switch_says_so():
    made = graded("lab7_numbers", solution("lab7_numbers"))
    assert made.points == made.lab.points, _told(made)
    assert {o.played for o in made.outcomes} == {"has no switch"}


MISTAKES = [
    pytest.param(lab, mistake, id=f"{lab}-{mistake.name}", marks=marks)
    for lab, marks in (
        ("lab2_aggregation", ()),
        ("lab4_loss", pytest.mark.slow),
    )
    for mistake in mistakes(lab)[:1]
]


@pytest.mark.parametrize("lab, mistake", MISTAKES)
def test_a_mistake_loses_the_same_as_without_network(lab, mistake, tmp_path):
    write_mistake(lab, mistake, tmp_path / "wrong")
    assert _failed(graded(lab, tmp_path / "wrong")) == mistake.loses


def test_a_failed_test_tells_what_was_captured_and_the_packets_way(tmp_path):
    made = graded("lab2_aggregation", find_lab("2").folder / "skeleton", trace=True)
    failed = next(o for o in made.outcomes if o.check.name == "multicast")
    lines = "\n".join(failed.lines)
    for part in ("sent      port ", "expected  ports 1, 2, 3", "got       nothing"):
        assert part in lines
    assert "dropped" in "\n".join(failed.trace)


@pytest.mark.slow
def test_a_program_that_never_ends_loses_its_test_and_the_others_go_on(tmp_path):
    text = (solution("lab2_aggregation") / "aggregation.p4").read_text()
    body = "for (bit<32> i = 0; i < 2; i = i * 1) { count.write(0, (bit<8>) i); }"
    loop = f"if (hdr.sum.isValid() && hdr.sum.round == 5) {{ {body} }}"
    old = "        job.apply();"
    assert text.count(old) == 1
    (tmp_path / "aggregation.p4").write_text(text.replace(old, f"{old}\n        {loop}"))
    made = graded("lab2_aggregation", tmp_path)
    assert _failed(made) == {"rounds"}, _told(made)
    (told,) = [o.lines[0] for o in made.outcomes if o.status == "fail"]
    assert "was stopped after" in told


def test_the_walls_stand_around_a_switch_of_a_network(tmp_path):
    victim, secret = tmp_path / "victim", tmp_path / "secret"
    victim.write_text("untouched")
    secret.write_text("the seed")
    scratch = scratch_folder()
    wires = Wires((1, 2), tmp_path / "logs")
    try:
        (scratch / "cache").mkdir()
        more = (
            "\ndef privileges():\n"
            "    lines = open('/proc/thread-self/net/dev').read()\n"
            "    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()\n"
            "    return sorted(x.split(':')[0].strip() for x in lines.splitlines()[2:])\n"
            "def mounts():\n"
            "    import ctypes\n"
            "    libc = ctypes.CDLL(None, use_errno=True)\n"
            "    chroot = libc.chroot(b'/usr')\n"
            "    return chroot, ctypes.get_errno()\n"
        )
        (scratch / "cache" / "hostile.py").write_text(ATTEMPTS + more)
        with Box("network", scratch, 5, namespace=wires.namespace) as box:
            box.call("module_load", "../cache/hostile.py")
            assert box.call("function", "privileges", []) == ["lo", "s1-eth1", "s1-eth2"]
            assert box.call("function", "mounts", []) == [-1, 1]  # EPERM: root no more
            made = box.call("function", "attempts", [[str(victim), str(secret)], os.getpid()])
        done = {name for name, result in made.items() if result == "done"}
        assert done <= {"netlink", "process list"}, made  # of its own namespaces
        assert victim.read_text() == "untouched"
    finally:
        wires.close()
        remove(scratch)


def test_without_root_it_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(network.os, "geteuid", lambda: 1000)
    assert main(["grade", "2", str(solution("lab2_aggregation")), "--network"]) == 2
    told = capsys.readouterr().err
    assert "--network needs root: sudo" in told and len(told.splitlines()) == 1


@pytest.mark.slow
def test_a_grader_that_is_killed_takes_its_network_along():
    command = [sys.executable, "-m", "labs", "grade", "6", str(solution("lab6_preemption"))]
    process = subprocess.Popen([*command, "--network"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline().startswith("pass")  # the network is up
        children = children_of(process.pid)
        assert len(children) > 9  # the namespaces' holders, their parent, the switch
        process.send_signal(signal.SIGKILL)
    end = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in children) and time.monotonic() < end:
        time.sleep(0.02)
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    remove(scratch_folder())  # a grader removes what one before it has left
