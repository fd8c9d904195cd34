"""Helpers of the engine's tests, and of tests outside of this folder that run P4 programs.

rings        the pytest plugin: --slow, and which tests a machine cannot run
programs     a frame for fragments of P4, packets through it
language     the many small programs of data/p4_language.txt, p4_specification.txt and p4_rules.txt
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
