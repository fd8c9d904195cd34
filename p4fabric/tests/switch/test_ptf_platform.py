"""PTF's tests run against a switch of this process, and the course's example passes its own."""

from __future__ import annotations

import select
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from p4fabric.base.errors import UserError
from p4fabric.base.program import module_environment
from p4fabric.cli import main
from p4fabric.ptf_platform.p4fabric_switch import platform_config_update
from p4fabric.ptf_platform.ports import SwitchPorts
from p4fabric_testing import ROOT

from p4fabric import ptf_platform

COURSE = ROOT / "examples" / "course"
FILE = COURSE / "sums.yaml"
WORKERS, CARRIER = 4, 0x88B5
MESSAGE = struct.Struct("!6s6sHBBH8I")
NUMBERS, SUMS = 1, 2


def message(worker, chunk, numbers, code=NUMBERS):
    return MESSAGE.pack(bytes(6), bytes([2, 0, 0, 0, 0, 1]), CARRIER, code, worker, chunk, *numbers)


def received(switch):
    """What lies in the ports' sockets: port -> messages."""
    found = {}
    while ready := select.select(switch.sockets.values(), [], [], 0)[0]:
        for port, each in switch.sockets.items():
            if each in ready:
                found.setdefault(port, []).append(MESSAGE.unpack(each.recv(2048)))
    return found


@pytest.fixture(scope="module")
def switch():
    made = SwitchPorts.of_file(FILE)
    yield made
    made.close()


SENT = st.lists(st.integers(0, WORKERS - 1), max_size=8)


@given(data=st.data(), drawn=st.lists(SENT, min_size=2, max_size=4))
def test_a_chunk_is_added_up_whatever_the_order_and_however_often(switch, data, drawn):
    """Chunk by chunk, as workers do: each sends at least once, in any order and again."""
    switch._switch.register_reset("seen")
    numbers = st.lists(st.integers(0, (1 << 30) - 1), min_size=8, max_size=8)
    for step, again in enumerate(drawn):
        chunk = 256 * step  # both halves of one slot, in turns
        own = [data.draw(numbers) for _ in range(WORKERS)]
        sums = [sum(column) for column in zip(*own, strict=True)]
        order = data.draw(st.permutations([*range(WORKERS), *again]))
        heard = set()
        for worker in order:
            complete = len(heard) == WORKERS
            heard.add(worker)
            switch.send(worker + 1, message(worker, chunk, own[worker]))
            found = received(switch)
            if complete:
                assert set(found) == {worker + 1}
            else:
                assert set(found) == (set(range(1, 5)) if len(heard) == WORKERS else set())
            for port, packets in found.items():
                [(_, _, _, code, named, at, *values)] = packets
                assert (code, named, at, values) == (SUMS, port - 1, chunk, sums)


def test_what_does_not_fit_is_said_before_ptf_begins(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(ptf_platform, "ptf_command", lambda: "ptf")
    words = ["--", "--test-dir", str(tmp_path)]
    two = FILE.read_text().replace("program: sums.p4", f"program: {COURSE / 'sums.p4'}")
    two = two.replace("  switches:\n", "  switches:\n    s2: {}\n")
    several = tmp_path / "two.yaml"
    several.write_text(two)
    cpu = tmp_path / "cpu.yaml"
    cpu.write_text(two.replace("s2: {}", "s2: {p4runtime: 9559, cpu_port: 5}"))
    for given_words, said in (
        ([str(tmp_path / "none.yaml")], "none.yaml"),
        ([str(several)], "several switches (s2, s1): name one, --switch"),
        ([str(several), "--switch", "s3"], "no switch `s3`"),
        ([str(cpu), "--switch", "s2"], "PTF's ports are the only ones here"),
    ):
        assert main(["ptf", *given_words, *words]) == 2
        error = capsys.readouterr().err
        assert said in error and "Traceback" not in error
    config = {"interfaces": [], "platform_args": f"network={FILE};port=3"}
    with pytest.raises(UserError, match="--platform-args"):
        platform_config_update(config)
    with pytest.raises(UserError, match="device 0"):
        platform_config_update(
            {"interfaces": [(1, 1, "veth1")], "platform_args": f"network={FILE}"}
        )


def test_ptf_is_looked_for_beside_this_python_and_its_lack_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(UserError, match="PTF is not installed"):
        ptf_platform.ptf_command(str(tmp_path))
    path = tmp_path / "bin" / "ptf"
    path.parent.mkdir()
    path.write_text("")
    path.chmod(0o755)
    assert ptf_platform.ptf_command(str(tmp_path)) == str(path)


def test_a_port_is_what_interfaces_name_and_one_that_is_down_is_silent():
    config = {"interfaces": [(0, 2, "veth3"), (0, 4, "veth7")], "platform_args": f"network={FILE}"}
    platform_config_update(config)
    assert list(config["port_map"]) == [(0, 2), (0, 4)]
    made = config["dataplane"]["portclass"]
    first, last = (made(None, 0, port, config) for port in (2, 4))
    asked = bytes.fromhex(
        "ffffffffffff 020000000002 0806 0001 0800 0604 0001 020000000002 0a000102"
        "000000000000 0a000164"
    )
    for port in (first, last):
        assert port.send(asked) == len(asked)
        device, number, answer, _ = port.recv()
        assert (device, number, answer[:6]) == (0, port._port, asked[6:12])
    first.down()
    assert first.send(asked) == len(asked)
    assert not select.select([first], [], [], 0)[0]
    last.send(asked)
    last.down()
    assert last.recv() is None
    first.up()
    first.send(asked)
    assert first.recv()[2][20:22] == b"\x00\x02"
    assert first.mac() != last.mac()


# ---- with PTF itself ----

PTF = shutil.which("ptf")
with_ptf = pytest.mark.skipif(PTF is None, reason="PTF is not installed (pip install ptf)")


def graded(file: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    given_words = ["ptf", str(file), "--", "--test-dir", str(COURSE / "ptf"), *words]
    return subprocess.run(
        [sys.executable, "-m", "p4fabric", *given_words],
        cwd=folder,
        env=module_environment(),
        capture_output=True,
        text=True,
    )


@with_ptf
def test_the_example_passes_the_public_and_the_hidden_tests(tmp_path):
    done = graded(FILE, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Ran 11 tests" in done.stderr and done.stderr.rstrip().endswith("OK")


@with_ptf
@pytest.mark.slow
@pytest.mark.parametrize(
    ("here", "there", "cases"),
    [
        ("before & own == 0", "true", {"DuplicatesCountOnce", "WhoAsksAgainGetsTheSums"}),
        ("unmark(seen, other, own);", "", {"AChunkIsUsedAgain"}),
        ("hdr.message.code != NUMBERS || ", "", {"InvalidCodes"}),
        ("|| hdr.message.worker >= WORKERS", "", {"NoSuchWorker"}),
        ("|| standard.checksum_error == 1", "", {"DamagedHeader"}),
        ("PORT: message;", "default: message;", {"WrongPort"}),
        ("hdr.arp.operation = 2;", "", {"AskedForByArp"}),
    ],
)
def test_a_mistake_of_a_student_is_found_by_the_case_that_is_about_it(tmp_path, here, there, cases):
    text = (COURSE / "sums.p4").read_text()
    assert here in text
    changed = text.replace(here, there, 1)
    if there == "default: message;":
        changed = changed.replace(
            "            default: message;\n            default: accept;", f"            {there}"
        )
    (tmp_path / "sums.p4").write_text(changed)
    shutil.copy(FILE, tmp_path)
    done = graded(tmp_path / "sums.yaml", tmp_path)
    assert done.returncode == 1
    for case in cases:
        assert f".{case} ... FAIL" in done.stderr, done.stderr[-3000:]
