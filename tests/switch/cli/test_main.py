"""The log of a command: -v and -vv."""

from __future__ import annotations

import re

import pytest

from testbed.cli.main import main
from tests.support.experiments import SMALL


@pytest.mark.parametrize(("option", "detailed"), [("-v", False), ("-vv", True)])
def test_a_log_has_the_steps_and_in_detail_more(tmp_path, capsys, option, detailed):
    file = tmp_path / "small.yaml"
    # Of a size that no other test has: a program is compiled once in a process.
    file.write_text(SMALL.replace("aggregators: 8", f"aggregators: {310 + len(option)}"))
    assert main([str(file), "--results", str(tmp_path), "--no-report", option]) == 0
    said = capsys.readouterr().err
    line = r"^ *\d+ ms  p4fabric\.base\.steps: compiling the P4 program.*: \d+\.\d+ s$"
    assert re.search(line, said, re.MULTILINE)
    assert re.search(r"live_view: job a has ended at \S+ us", said)
    assert re.search(r"virtual_run: \S+ us of virtual time: \d+\.\d+ s$", said, re.MULTILINE)
    assert (f"{file}: experiment small, 1 jobs" in said) == detailed
    assert ("jobs.parquet: 1 rows" in said) == detailed
    assert bool(re.search(r"install_tables: s1: \d+ table entries", said)) == detailed
    # The next command is as quiet as before.
    assert main(["check", str(file)]) == 0
    assert not re.search(r" ms  (testbed|p4fabric)", capsys.readouterr().err)
