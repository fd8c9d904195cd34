"""JSON schemas: what is shipped is up to date, and accepts every file that is sound."""

from __future__ import annotations

import json

import pytest

from testbed.cli import json_schema
from testbed.config.yaml_document import read_yaml
from testbed.systems.registry import SHIPPED
from testbed.topos import SHIPPED as TOPOLOGIES
from tests.support.paths import ROOT

FOLDER = ROOT / "experiments" / "schema"
FILES = sorted(ROOT.glob("experiments/**/*.yaml"))
LINE = "# yaml-language-server: $schema=schema/experiment.json"


def shipped() -> dict:
    return json_schema.experiment_schema(SHIPPED, TOPOLOGIES)


def test_the_shipped_schemas_are_up_to_date():
    """`python -m testbed.cli.json_schema` writes them."""
    assert json.loads((FOLDER / "experiment.json").read_text()) == shipped()
    assert json.loads((FOLDER / "network.json").read_text()) == json_schema.network_schema()


def test_shipped_files_name_their_schema():
    for path in ROOT.glob("experiments/*.yaml"):
        assert path.read_text().splitlines()[0] == LINE, path


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
    text = (ROOT / "docs" / "networks.md").read_text().split("```yaml\n")[1].split("```")[0]
    checker = jsonschema.Draft202012Validator(json_schema.network_schema())
    data = read_yaml(text, "networks.md").data
    checker.validate(data)
    assert not checker.is_valid({**data, "chekcs": []})
