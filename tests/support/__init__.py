"""Code that several tests use; DEVELOPERS.md lists it. A test file imports no other test.

Some modules are commands, too (`python -m tests.support.chaos`). Such a command has no pytest to
add the folders of p4engine_testing and p4fabric_testing to the path."""

import sys
from pathlib import Path

for _house in ("p4engine", "p4fabric"):
    _tests = str(Path(__file__).resolve().parents[2] / _house / "tests")
    if _tests not in sys.path:
        sys.path.append(_tests)
