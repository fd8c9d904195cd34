"""Helpers of the engine's tests, and of tests outside of this folder that run P4 programs.

rings        the pytest plugin: --slow, and which tests a machine cannot run
programs     a frame for fragments of P4, packets through it
cases        small programs with what they do, as text: data/*.txt
language     the programs for v1model among them, and the rules of data/p4_rules.txt
reference    random programs, what they must do, and the fuzzer
controller   a P4Runtime controller and a switch for it in process
sanitizers   Python with instrumented switches
leftovers    processes and interfaces that a test left behind
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
ENGINE = TESTS.parent  # the distribution's folder
DATA = HERE / "data"
