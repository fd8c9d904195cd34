"""JSON schemas: set-up makes them where files look for them; they accept every sound file."""

from __future__ import annotations

import json
import re

import pytest
from p4fabric.base.config.yaml_document import read_yaml

from testbed.cli import json_schema
from testbed.cli.main import main
from testbed.systems.registry import SHIPPED
from testbed.topos import SHIPPED as TOPOLOGIES
from tests.support.paths import ROOT

FILES = [
    path
    for path in sorted(ROOT.glob("experiments/**/*.yaml"))
    if path.parent.name not in ("costs", "expected", "fabrics")
]


def shipped() -> dict:
    return json_schema.experiment_schema(SHIPPED, TOPOLOGIES)


def test_set_up_makes_the_schemas_that_the_shipped_files_name(tmp_path, monkeypatch):
    """With the command of setup.sh, as it stands there."""
    (words,) = re.findall(r"run\.py (schema .*?) \|\|", (ROOT / "setup.sh").read_text())
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 0
    made = {path.resolve(): json.loads(path.read_text()) for path in tmp_path.rglob("*.json")}
    assert len(made) == 2, "and nothing else"
    for path in ROOT.glob("experiments/*.yaml"):
        first = path.read_text().splitlines()[0]
        name = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)[1]
        wanted = made[(tmp_path / path.relative_to(ROOT).parent / name).resolve()]
        assert wanted["title"] == "Experiment file", path


def test_one_schema_is_printed_or_written(tmp_path, capsys):
    assert main(["schema", "network"]) == 0
    printed = capsys.readouterr().out
    assert main(["schema", "network", "-o", str(tmp_path / "new" / "folder")]) == 0
    assert [path.name for path in tmp_path.rglob("*.json")] == ["network.json"]
    assert (tmp_path / "new" / "folder" / "network.json").read_text() == printed
    assert json.loads(printed) == json_schema.network_schema()


def test_what_cannot_be_written_is_told(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["schema"]) == 2
    assert "name the kind of file (experiment or network), or a folder" in capsys.readouterr().err
    assert main(["schema", "-o", str(tmp_path / "file")]) == 2
    assert f"can't write {tmp_path}/file: File exists; name a folder" in capsys.readouterr().err


@pytest.fixture(scope="module")
def validator():
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(shipped())
    return jsonschema.Draft202012Validator(shipped())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_shipped_file_is_accepted(validator, path):
    validator.validate(read_yaml(path.read_text(), str(path)).data)


@pytest.mark.parametrize(
    "change",
    [
        {"memry": {"aggregators": 3}},
        {"memory": {"agregators": 3}},
        {"memory": {"aggregators": 0}},
        {"topology": {"kind": "star"}},
        {"topology": {"kind": "stern", "hosts": 4}},
        {"system": "eas"},
        {"system": {"name": "esa", "windw": 3}},
        {"system": {"name": "switchml", "preempt": "always"}},
        {"links": {"bandwidth": 10}},
        {"jobs": []},
        {"jobs": [{"model": "vgg16", "workers": "four", "iterations": 1}]},
        {"runtime": "real"},
        {"faults": [{"at": "1 s", "fault": "stop"}]},
    ],
    ids=str,
)
def test_mistakes_are_seen_in_the_editor(validator, change):
    data = read_yaml((ROOT / "experiments" / "quickstart.yaml").read_text(), "quickstart").data
    assert validator.is_valid(data)
    assert not validator.is_valid({**data, **change})


def test_a_network_file_is_accepted():
    jsonschema = pytest.importorskip("jsonschema")
    page = (ROOT / "p4fabric" / "docs" / "networks.md").read_text()
    text = page.split("```yaml\n")[1].split("```")[0]
    checker = jsonschema.Draft202012Validator(json_schema.network_schema())
    data = read_yaml(text, "networks.md").data
    checker.validate(data)
    assert not checker.is_valid({**data, "chekcs": []})
