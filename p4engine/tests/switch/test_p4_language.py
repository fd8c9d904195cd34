"""Many small programs over the whole language and v1model, packets in and packets out.

They are in p4engine_testing/data. Under the sanitizers, random programs run as well.
"""

from __future__ import annotations

import pytest
from p4engine_testing.language import cases
from p4engine_testing.programs import switch
from p4engine_testing.sanitizers import fuzz, sanitized


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases()])
def test_case(tmp_path, monkeypatch, case):
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")
    case.check(switch(tmp_path, **case.parts))


# ---- under AddressSanitizer and UndefinedBehaviorSanitizer ----


def test_a_fuzz_run_finds_nothing():
    fuzz(0, 1, 2000)


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
def test_many_packets_find_nothing():
    fuzz(5000, 5, 600, "--language")
