"""Options of the command line that make no sense are errors with a reason."""

from __future__ import annotations

import pytest
from p4engine.cli.main import main
from p4engine_testing import DATA


@pytest.mark.parametrize(
    "options, said",
    [
        (["--p4runtime", "here"], "'here' is not an address for P4Runtime"),
        (["--cpu-port", "9"], "with --p4runtime only"),
    ],
)
def test_options_that_make_no_sense_are_errors(options, said, tmp_path, capsys):
    program, control = str(DATA / "p4runtime.p4"), str(tmp_path / "c")
    assert main(["switch", program, "-i", "1@lo", "--control", control, *options]) == 2
    assert said in capsys.readouterr().err
