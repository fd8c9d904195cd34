"""`p4engine fit` prints the sizes of a program's tables and arrays."""

from __future__ import annotations

import json

import pytest
from p4engine.cli.fit_command import GONE
from p4engine.cli.main import main
from p4engine_testing.programs import source


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.p4"
    path.write_text(
        source(
            locals="register<bit<24>>(N) r; counter(7, CounterType.packets) c; action none() { }"
            " action two(bit<8> x, bit<16> y) { r.write(3, (bit<24>)y); c.count(2); }"
            " table t { key = { hdr.h.a: exact; hdr.h.b: lpm; } actions = { two; none; }"
            " size = 40; default_action = none(); }",
            apply="t.apply();",
        )
    )
    return str(path)


def test_sizes_are_those_of_the_declarations(program, capsys):
    assert main(["fit", program, "-D", "N=5", "--json"]) == 0
    rows = {row["kind"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["table"]["elements"], rows["table"]["bits"]) == (40, 32 + 32 + 24)
    assert (rows["register"]["elements"], rows["register"]["bits"]) == (5, 24)
    assert (rows["counter"]["elements"], rows["counter"]["bits"]) == (7, None)
    assert main(["fit", program, "-D", "N=5"]) == 0
    assert f"registers have {5 * 24} bits" in capsys.readouterr().out
    assert main(["fit", program]) == 2  # N is not known


@pytest.mark.parametrize("name", GONE)
def test_an_option_of_the_estimate_names_the_replacement(name, program, capsys):
    with pytest.raises(SystemExit) as end:
        main(["fit", program, f"--{name}", "9"])
    assert end.value.code == 2
    assert f"--{name}: fit no longer estimates" in capsys.readouterr().err
