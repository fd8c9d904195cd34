"""Files that others may have made: each command ends with one message, whatever they are.

A FIFO without a writer, a device without an end, and files whose content unpacks to far more than
their size."""

from __future__ import annotations

import os

import pytest

from testbed.cli.main import main

EXPERIMENT = """
topology: {topology}
links: {{bandwidth: 100 Mbit/s}}
system: {system}
memory: {{aggregators: 64}}
runtime: virtual
{jobs}
"""
PARTS = {
    "topology": "{kind: star, hosts: 4}",
    "system": "esa",
    "jobs": "jobs: [{model: resnet18, workers: 2, iterations: 1}]",
}
# A file in an experiment, by its name, and what names it.
NAMED = {
    "trace.csv": {"jobs": "jobs: [{{model: {file}, workers: 2, iterations: 1}}]"},
    "recording.npz": {"jobs": "jobs: [{{model: {file}, workers: 2, iterations: 1}}]"},
    "mix.csv": {"jobs": "arrivals: {{csv: {file}}}"},
    "graph.csv": {"topology": "{{kind: graph, file: {file}}}"},
    "graph.graphml": {"topology": "{{kind: graph, file: {file}}}"},
    "program.p4": {"system": "{{name: esa, program: {file}}}"},
    "topology.py": {"topology": "{{class: '{file}:Mine'}}"},
}
COMMANDS = {
    "artifact.ina.zip": ["verify", "{file}"],
    "experiment.yaml": ["check", "{file}"],
    "network.yaml": ["run", "{file}"],
    "p4app.json": ["import", "{file}"],
    "work.txt": ["import", "{file}"],
    "recording.npz": ["recording", "{file}"],
    "plan.csv": ["plan", "{file}"],
}


@pytest.fixture(params=["FIFO", "device"])
def made(request, tmp_path):
    """made(name): a path that is no file."""

    def make(name):
        path = tmp_path / name
        if request.param == "FIFO":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
        return path

    return make


def refused(capsys, *words) -> str:
    """The one message with which a command ends."""
    try:
        code = main([str(word) for word in words])
    except SystemExit as ended:
        code = ended.code
    error = capsys.readouterr().err
    assert code == 2, error
    assert "Traceback" not in error
    return error


@pytest.mark.parametrize("name", NAMED)
def test_an_experiment_names_what_is_no_file(name, made, tmp_path, capsys):
    made(name)
    parts = PARTS | {k: text.format(file=name) for k, text in NAMED[name].items()}
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT.format(**parts))
    assert name in refused(capsys, "check", path)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_given_what_is_no_file(name, made, capsys):
    path = made(name)
    assert str(path) in refused(capsys, *(word.format(file=path) for word in COMMANDS[name]))
