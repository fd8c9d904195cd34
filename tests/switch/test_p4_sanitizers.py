"""Compiled programs and the switch under AddressSanitizer and UndefinedBehaviorSanitizer.

The sanitizers' runtime must be loaded before Python, hence a process of its own. Leaks are not
looked for: Python itself keeps memory until the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from p4engine.backend.c_compiler import find_c_compiler

ROOT = Path(__file__).resolve().parents[2]
FLAGS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"


def library(name: str) -> str | None:
    """The path of a library of the C compiler, if it has it."""
    compiler = find_c_compiler()
    found = subprocess.run(
        [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return found if os.path.isabs(found) and os.path.exists(found) else None


def sanitized(*command: str) -> subprocess.Popen:
    """Start python with `command`; what it compiles is instrumented."""
    asan, ubsan = library("libasan.so"), library("libubsan.so")
    if asan is None or ubsan is None:
        pytest.skip("the C compiler has no libasan")
    environment = os.environ | {
        "LD_PRELOAD": f"{asan} {ubsan}",
        "P4ENGINE_CFLAGS": FLAGS,
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=98",
        "PYTHONMALLOC": "malloc",
    }
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def fuzz(*arguments: object) -> None:
    """A fuzz run, its programs shared out to one process per core."""
    parts = os.cpu_count() or 1
    command = ["-m", "tests.p4reference.fuzz", *map(str, arguments)]
    running = [sanitized(*command, "--part", f"{part}/{parts}") for part in range(parts)]
    outputs = [process.communicate()[0] for process in running]
    for process, output in zip(running, outputs, strict=True):
        assert process.returncode == 0, output[-6000:]
        assert "clean: " in output, output[-6000:]


def test_a_fuzz_run_finds_nothing():
    fuzz(0, 4, 2000)


def test_the_sanitizers_do_look(tmp_path):
    """A program whose C reads behind an array must end the process."""
    code = (
        "import ctypes, sys; from pathlib import Path; import subprocess, os\n"
        f"folder = Path({str(tmp_path)!r}); c = folder / 'x.c'\n"
        "c.write_text('#include <stdlib.h>\\nint f(int n) {"
        " volatile char *p = malloc(4); return p[n]; }')\n"
        "environment = {k: v for k, v in os.environ.items() if k != 'LD_PRELOAD'}\n"
        "subprocess.run(['cc', *os.environ['P4ENGINE_CFLAGS'].split(), '-shared', '-fPIC', str(c),"
        " '-o', str(folder / 'x.so')], check=True, env=environment)\n"
        "ctypes.CDLL(str(folder / 'x.so')).f(4)\n"
    )
    process = sanitized("-c", code)
    output = process.communicate()[0]
    assert process.returncode in (98, 99), output  # whichever of the two is first


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_million_packets_find_nothing():
    fuzz(5000, 220, 2200, "--language")
