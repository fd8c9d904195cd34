"""Memory that runs out in a switch is told apart from a mistake of its caller."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from p4engine_testing.programs import source

MORE_BYTES = 20 << 20
SCRIPT = """
import resource, sys
from pathlib import Path
from p4engine import compile_program
from p4engine.switch.library import Switch
from p4engine.values.numbers import ControlError

compiled = compile_program(Path(sys.argv[1]))
kept = [Switch(compiled)]
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {more},) * 2)
what, said = sys.argv[2], None
try:
    for number in range(1_000_000):
        if what == "switch":
            kept.append(Switch(compiled, ports=[0]))
        else:
            kept[0].table_add("t", "set", [number], [1])
except MemoryError as error:
    said = (type(error).__name__, isinstance(error, ControlError), str(error))
for switch in kept:
    switch.close()
print(said)
"""
TABLE = {
    "locals": "action set(bit<32> v) { hdr.h.b = v; }"
    " table t { key = { hdr.h.a: exact; } actions = { set; } size = 4000000; }",
    "apply": "t.apply();",
}


@pytest.mark.parametrize(
    ("what", "said"),
    [("switch", "no memory for "), ("table", "table MyIngress.t: no memory")],
    ids=["a switch too many", "an entry too many"],
)
def test_memory_that_runs_out_is_an_error_of_memory(tmp_path: Path, what, said):
    program = tmp_path / "small.p4"
    program.write_text(source(**TABLE))
    script = SCRIPT.format(more=MORE_BYTES)
    done = subprocess.run(
        [sys.executable, "-c", script, str(program), what],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert "'OutOfMemory', True" in done.stdout


GROWING = """
import resource, sys
from pathlib import Path
from p4engine import compile_program
from p4engine.switch.library import Switch

switch = Switch(compile_program(Path(sys.argv[1])))
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
switch.receive(1, b"abcd", 0)
print([len(data) for _, _, data in switch.run()], switch.stats()["no_memory"])
"""


def test_headers_beyond_the_usual_room_take_little_memory(tmp_path: Path):
    program = tmp_path / "growing.p4"
    program.write_text(
        source(
            headers="header g_t { bit<2400> x; bit<1600> y; } header h_t { bit<32> a; }"
            " struct headers_t { g_t g; h_t h; }",
            egress="hdr.g.setValid();",
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", GROWING, str(program)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.stdout == "[504] 0\n", done.stderr
