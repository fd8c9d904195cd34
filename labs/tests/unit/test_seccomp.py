"""Messages of the labs' grader on a machine without libseccomp."""

from __future__ import annotations

import sys

from labs.commands import main
from labs.tests.support import ROOT

SKELETON = ROOT / "labs" / "lab1_forwarding" / "skeleton"


def test_a_missing_library_is_named_with_its_packages(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    assert main(["grade", "1", str(SKELETON)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: grading needs pyseccomp and libseccomp: pip install pyseccomp")
    assert "apt-get install libseccomp2" in line
