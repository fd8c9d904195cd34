"""A program of the user's own is tried on the experiment before a network is built."""

from __future__ import annotations

from pathlib import Path

import pytest
from p4engine.backend.build import compile_program
from p4fabric.base.errors import UserError

from testbed import dataplane
from testbed.cli.main import main
from testbed.dataplane import install_tables
from testbed.experiment import load_text
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from tests.support.paths import P4

TEXT = """
topology: {{kind: {topology}}}
system: {{name: {system}, program: {program}}}
{memory}
jobs: [{{model: resnet50, workers: 4, iterations: 1, scale: 0.001}}]
"""


def text(system: str, program: Path, topology: str = "star, hosts: 5") -> str:
    memory = "memory: {aggregators: 16}" if system in ("esa", "atp", "switchml") else ""
    return TEXT.format(system=system, program=program, topology=topology, memory=memory)


@pytest.mark.parametrize("topology", ["star, hosts: 5", "two_level, tors: 2, hosts: 2"])
@pytest.mark.parametrize(
    ("system", "program"),
    [("esa", "esa"), ("atp", "atp"), ("switchml", "switchml"), ("ps", "forward")],
)
def test_a_systems_own_program_fits(system: str, program: str, topology: str) -> None:
    prepared = prepare(set_up(load_text(text(system, P4 / f"{program}.p4", topology))))
    assert prepared.path.name == f"{program}.p4" and prepared.warnings == ()


@pytest.mark.parametrize(
    ("system", "program"), [("esa", "forward"), ("esa", "switchml"), ("switchml", "esa")]
)
def test_a_program_that_lacks_what_the_system_needs(system: str, program: str) -> None:
    path = P4 / f"{program}.p4"
    with pytest.raises(UserError, match=rf"program {path} does not have what .* needs: .*; keep"):
        prepare(set_up(load_text(text(system, path))))


@pytest.mark.parametrize(
    ("option", "key", "macro"),
    [
        (", zeros: header_only", "", "WITH_ZEROS"),
        ("", "value_bits: 16", "WITH_SHORT_VALUES"),
        (", results_from: switch", "", "WITH_DELIVERY"),
    ],
)
def test_a_program_that_does_not_know_a_format_of_packets(tmp_path, option, key, macro) -> None:
    def with_format(program: Path) -> str:
        asked = text("esa", program).replace("{name: esa", "{name: esa" + option)
        return asked + key + "\n"

    program, ingress = tmp_path / "mine.p4", tmp_path / "pool_ingress.p4"
    program.write_text((P4 / "esa.p4").read_text())
    source = (P4 / ingress.name).read_text()
    ingress.write_text(source)
    assert prepare(set_up(load_text(with_format(program)))).warnings == ()
    ingress.write_text(source.replace(f" {macro}\n", "\n", 1))
    assert prepare(set_up(load_text(text("esa", program)))).warnings == ()
    with pytest.raises(UserError, match=rf"program {program} does not apply what p4/"):
        prepare(set_up(load_text(with_format(program))))


def test_check_says_where_the_program_is_wrong(tmp_path: Path, capsys) -> None:
    program = tmp_path / "mine.p4"
    source = (P4 / "esa.p4").read_text()
    program.write_text(source.replace("meta.preempts = 1;", "meta.preempts = 1", 1))
    experiment = tmp_path / "mine.yaml"
    experiment.write_text(text("esa", program))
    assert main(["check", str(experiment)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    line = source[: source.index("meta.preempts = 1;")].count("\n") + 1
    assert printed.err.startswith(f"error: {program}:{line + 1}:")


def swept(experiment: Path, program: Path) -> list[str]:
    """The command that checks a sweep over the size of the pool, with this program."""
    sizes = "sweep: {memory.aggregators: [16, 17], seed: [1, 2]}\n"
    experiment.write_text(text("esa", program) + sizes)
    return ["check", str(experiment)]


def test_a_sweep_over_the_size_of_the_pool_tries_a_program_of_the_testbed_once(
    tmp_path: Path, capsys, monkeypatch
) -> None:
    tried = []

    def counted(setup, known):
        tried.append((setup.platform.aggregators, setup.platform.program.name))
        return prepare(setup, known)

    monkeypatch.setattr("testbed.run_parts.program.prepare", counted)
    assert main(swept(tmp_path / "mine.yaml", P4 / "esa.p4")) == 0
    assert "valid: a sweep of 4 points" in capsys.readouterr().out
    assert sorted(tried) == [(16, "esa.p4")] * 2  # one for each seed


@pytest.mark.parametrize("system", ["esa", "atp", "switchml"])
def test_pools_of_similar_sizes_have_one_program_and_their_own_numbers(system, tmp_path) -> None:
    """A user's program may make other use of the number, so it gets the true one."""
    mine = tmp_path / "mine.p4"
    mine.write_text((P4 / f"{system}.p4").read_text())

    def made(count: int, program: Path) -> tuple[int, str]:
        experiment = text(system, program).replace("aggregators: 16", f"aggregators: {count}")
        setup = set_up(load_text(experiment))
        tables = str([*install_tables.entries_of(setup, "s1", setup.jobs).values()])
        return dataplane.program(setup.platform)[1]["AGGREGATORS"], tables

    pools = {count: made(count, P4 / f"{system}.p4") for count in (2, 256, 258, 400, 512, 514)}
    assert [places for places, _ in pools.values()] == [256, 256, 512, 512, 512, 1024]
    assert len({tables for _, tables in pools.values()}) == len(pools)
    assert made(400, mine) == (400, pools[400][1])


def test_a_sweep_over_the_size_of_the_pool_tries_a_users_program_at_each_point(
    tmp_path: Path, capsys
) -> None:
    program = tmp_path / "mine.p4"
    lines = "#if AGGREGATORS > 16\n#error too large for mine\n#endif\n"
    program.write_text(lines + (P4 / "esa.p4").read_text())
    assert main(swept(tmp_path / "mine.yaml", program)) == 2
    said = capsys.readouterr().err
    assert "too large for mine" in said and "at the sweep's point memory.aggregators=17" in said


def test_points_with_one_program_look_at_its_sources_once(tmp_path: Path, monkeypatch) -> None:
    looked = []

    def counted(path, *more):
        looked.append(path.name)
        return compile_program(path, *more)

    monkeypatch.setattr("p4engine.backend.build.compile_program", counted)
    known: dict = {}
    setups = [
        set_up(load_text(text("esa", P4 / "esa.p4", kind))) for kind in ("star, hosts: 5",) * 2
    ]
    first, second = (prepare(setup, known) for setup in setups)
    assert looked == ["esa.p4"] and first == second
    prepare(set_up(load_text(text("atp", P4 / "atp.p4"))), known)
    prepare(setups[0])
    assert looked == ["esa.p4", "atp.p4", "esa.p4"]
