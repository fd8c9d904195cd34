"""Artifacts of runs in virtual time: run again, they are the same, or say what is not."""

from __future__ import annotations

import json
import shutil
import zipfile

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from testbed.artifacts import archive
from testbed.cli.main import main
from testbed.paths import P4
from testbed.results import digest, read
from tests.support.ranks import Ranks, text
from tests.support.workloads import workload

TEXT = """
name: packed
runtime: virtual
topology: {{kind: star, hosts: 3}}
links: {{bandwidth: 10 Gbit/s, delay: 1 us}}
system: {{name: esa, window: 16, program: {program}}}
memory: {{aggregators: 8}}
jobs:
  - {{name: a, model: resnet18, workers: 2, iterations: 2, scale: 0.0005, compute_scale: 0}}
"""


TOPOLOGY = """
from testbed.topos.star import Star


class Mine(Star):
    def __init__(self, hosts: int) -> None:
        super().__init__(hosts)
"""


@pytest.fixture
def run(tmp_path):
    """The folder of a run whose P4 program is a copy, as is one of the files that it includes;
    another one is in a folder beside it."""
    for name in ("programs", "common"):
        (tmp_path / name).mkdir()
    (tmp_path / "common" / "more.p4").write_text("#define MORE 1\n")
    for name in ("esa.p4", "pool.p4"):
        shutil.copy(P4 / name, tmp_path / "programs" / name)
    with (tmp_path / "programs" / "esa.p4").open("a") as program:
        program.write('#include "../common/more.p4"\n')
    (tmp_path / "mine.py").write_text(TOPOLOGY)
    file = tmp_path / "packed.yaml"
    file.write_text(TEXT.format(program="programs/esa.p4"))
    assert main(["run", str(file), "--results", str(tmp_path / "results"), "--no-report"]) == 0
    (folder,) = (tmp_path / "results").iterdir()
    return folder


def test_a_run_in_virtual_time_is_the_same_elsewhere(run, tmp_path, capsys):
    made = tmp_path / "packed.ina.zip"
    assert main(["pack", str(run), "-o", str(made)]) == 0
    # What the experiment names is not here any more: another machine.
    shutil.rmtree(tmp_path / "programs")
    shutil.rmtree(tmp_path / "common")
    there = str(tmp_path / "there")
    capsys.readouterr()
    assert main(["verify", str(made), "--results", there, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["agrees"] and [each["outcome"] for each in told["runs"]] == ["bit by bit"]

    # Somebody has changed a result, and all hashes with it.
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    manifest = archive.unpack(made, unpacked)
    path = unpacked / "run" / "tables" / "hosts.parquet"
    table = parquet.read_table(path)
    place = table.column_names.index("packets_sent")
    more = pa.array(
        [value + 1 for value in table["packets_sent"].to_pylist()], table.schema[place].type
    )
    parquet.write_table(table.set_column(place, table.schema[place], more), path)

    environment = unpacked / "run" / "environment.json"
    told = json.loads(environment.read_text())
    next(each for each in told["inputs"] if each["name"] == "ina.p4")["sha256"] = "0"
    environment.write_text(json.dumps(told))
    manifest["runs"][0]["digest"] = digest(read(unpacked / "run"))
    made.unlink()
    archive.write(made, manifest, {name: unpacked / name for name in manifest["files"]})
    assert main(["verify", str(made), "--results", there]) == 1
    said = capsys.readouterr().out
    assert (
        "packed: different in hosts: other ones here: ina.p4\n" in said
        and "0 of 1 runs agree" in said
    )


@pytest.mark.parametrize("model", ["traces/pair.et", "{file: traces/work.txt}"])
def test_all_files_of_a_program_of_ranks_are_packed(model, tmp_path, capsys):
    folder = tmp_path / "traces"
    folder.mkdir()
    made = Ranks(pair=(0, 1))
    for rank in range(2):
        made.add(rank, "all_reduce", group="pair", bytes=1000)
    made.write(folder / "pair.et")
    (folder / "work.txt").write_text(
        workload("one 1 ALLREDUCE 8 1 NONE 0 1 NONE 0 1", tp=2, gpus=2)
    )
    file = tmp_path / "packed.yaml"
    file.write_text(text(model, "esa", 2))
    results = tmp_path / "results"
    assert main(["run", str(file), "--results", str(results), "--no-report"]) == 0
    (run,) = results.iterdir()
    packed = tmp_path / "packed.ina.zip"
    assert main(["pack", str(run), "-o", str(packed)]) == 0
    shutil.rmtree(folder)
    capsys.readouterr()
    there = str(tmp_path / "there")
    assert main(["verify", str(packed), "--results", there, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agrees"]


def test_what_runs_code_of_the_file_asks_for_trust(run, tmp_path, capsys):
    text = TEXT.format(program="programs/esa.p4").replace("kind: star", "class: mine.py:Mine")
    (tmp_path / "packed.yaml").write_text(text)
    words = ["run", str(tmp_path / "packed.yaml"), "--results", str(tmp_path / "own")]
    assert main([*words, "--no-report"]) == 0
    (run,) = (tmp_path / "own").iterdir()
    made = tmp_path / "code.ina.zip"
    assert main(["pack", str(run), "-o", str(made)]) == 0
    with zipfile.ZipFile(made) as file:
        assert "mine.py" in {name.rpartition("/")[2] for name in file.namelist()}
    there = str(tmp_path / "there")
    assert main(["verify", str(made), "--results", there]) == 2
    assert "give --trust" in capsys.readouterr().err
    assert main(["verify", str(made), "--no-run"]) == 0
    assert main(["verify", str(made), "--trust", "--results", there]) == 0


EVIL = """
from pathlib import Path

Path({ran!r}).touch()
"""


@pytest.mark.parametrize(
    "change",
    [
        ("kind: star", "class: {evil}:Evil"),
        ("model: resnet18", "command: {evil}"),
        ("kind: star", "<<: {{class: '{evil}:Evil'}}"),
    ],
)
def test_a_manifest_that_denies_its_code_is_not_believed(run, change, tmp_path, capsys):
    evil, ran, made = tmp_path / "evil.py", tmp_path / "ran", tmp_path / "evil.ina.zip"
    evil.write_text(EVIL.format(ran=str(ran)))
    assert main(["pack", str(run), "-o", str(made)]) == 0
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    manifest = archive.unpack(made, unpacked)
    experiment = unpacked / "run" / "experiment.yaml"
    before, after = change
    text = experiment.read_text()
    assert before in text
    experiment.write_text(text.replace(before, after.format(evil=evil)))
    assert manifest["runs"][0]["code"] is False
    manifest["runs"][0]["inputs"] = {str(evil): "run/inputs/0/evil.py"}
    files = {name: unpacked / name for name in manifest["files"]} | {"run/inputs/0/evil.py": evil}
    made.unlink()
    archive.write(made, manifest, files)
    for more in ([], ["--no-run"]):
        main(["verify", str(made), "--results", str(tmp_path / "there"), *more])
        assert not ran.exists()
    assert not (tmp_path / "there").exists()
