"""Code that several tests use; DEVELOPERS.md lists it. A test file imports no other test.

Some modules are commands, too (`python -m tests.support.chaos`). Such a command has no pytest to
add the folder of p4engine_testing to the path."""

import sys
from pathlib import Path

_ENGINE_TESTS = str(Path(__file__).resolve().parents[2] / "p4engine" / "tests")
if _ENGINE_TESTS not in sys.path:
    sys.path.append(_ENGINE_TESTS)
