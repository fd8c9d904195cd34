"""Jobs that are programs, in an experiment file."""

from __future__ import annotations

import shlex

import pytest
from p4fabric.base.errors import UserError

from testbed.collective import prelude
from testbed.experiment import load, load_text
from testbed.machine.memory_estimate import (
    GIB,
    PROGRAM_BYTES,
    estimate_bytes,
    machine_bytes_at_most,
)
from testbed.protocols.sizes import MAX_WORKERS
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs

TEXT = """
name: test
{more}
topology: {{kind: star, hosts: 8}}
system: {system}
jobs:
  - {{name: p, workers: 4, command: "{command}"{keys}}}
"""


MEMORY = "memory: {aggregators: 64}"


def of(command: str = "true", keys: str = "", system: str = "ps", more: str = "", folder=None):
    text = TEXT.format(command=command, keys=keys, system=system, more=more)
    if folder is None:
        return load_text(text)
    path = folder / "experiment.yaml"
    path.write_text(text)
    return load(path)


def test_the_program_is_found_beside_the_experiment_and_nothing_is_run(tmp_path):
    script = tmp_path / "my train.py"
    script.write_text("raise SystemExit('it was run')")
    experiment = of("'my train.py' --epochs 3", folder=tmp_path)
    assert shlex.split(experiment.jobs[0].command) == [str(script), "--epochs", "3"]
    again = load_text(experiment.resolved_yaml())
    assert again.resolved_yaml() == experiment.resolved_yaml()
    assert again.jobs[0].is_program


def test_so_is_the_program_of_a_launcher(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("")
    script, options = str(tmp_path / "train.py"), ["--out", "b.py"]
    for launcher in ["torchrun", "--nnodes", "2"], ["true"]:
        command = shlex.join([*launcher, "train.py", *options])
        found = of(command, folder=tmp_path).jobs[0].command
        assert shlex.split(found) == [*launcher, script, *options]
    assert of("torchrun nowhere.py", folder=tmp_path).jobs[0].command == "torchrun nowhere.py"
    here = tmp_path / "here"
    here.mkdir()
    (here / "train.py").write_text("")
    monkeypatch.chdir(here)
    assert of("torchrun train.py", folder=tmp_path).jobs[0].command == "torchrun train.py"


def test_a_link_stays_one_as_the_python_of_a_virtual_environment_must(tmp_path):
    (tmp_path / "python").symlink_to("/bin/sh")
    assert of("./python", folder=tmp_path).jobs[0].command == str(tmp_path / "python")


def test_its_path_may_be_relative_to_the_current_folder(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    (here / "train.py").write_text("")
    monkeypatch.chdir(here)
    assert of("train.py", folder=tmp_path).jobs[0].command == str(here / "train.py")


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"command": "nowhere.py"}, r"jobs\[0\].command.*there is no"),
        ({"command": "'unclosed"}, r"jobs\[0\].command.*No closing quotation"),
        ({"command": " "}, r"jobs\[0\].command"),
        ({"keys": ", model: vgg16"}, r"jobs\[0\].model.*this job has a command"),
        ({"keys": ", iterations: 3"}, r"jobs\[0\].iterations.*this job has a command"),
        ({"keys": ", compute_jitter: 1 %"}, r"jobs\[0\].compute_jitter"),
        ({"keys": ", numbers: fixed"}, r"jobs\[0\].numbers.*only systems atp and a2tp have it"),
        ({"keys": ", env: {A=B: 1}"}, r"jobs\[0\].env: found 'A=B'; allowed: a variable's name"),
        ({"keys": ", env: {A: true}"}, r"env: found A: true; allowed: .*; put it in quotes"),
        ({"keys": ", env: {A: [1]}"}, r"env: found A: a list; allowed: text or a number"),
        ({"keys": r', env: {A: "\0"}'}, r"env: found A: .*; allowed: text without NUL"),
        ({"keys": ", env: {RANK: 1}"}, r"env: found RANK; .*the testbed sets it, from the job's"),
        ({"more": "runtime: virtual"}, r"jobs\[0\].command.*a trace of your own"),
    ],
)
def test_what_cannot_be_honoured_is_an_error(changed, message):
    with pytest.raises(UserError, match=message):
        of(**changed)


@pytest.mark.parametrize("missing", ["model", "iterations"])
def test_a_job_without_a_command_needs_a_model(missing):
    keys = {"model": "vgg16", "iterations": "2"}
    del keys[missing]
    given = ", ".join(f"{name}: {value}" for name, value in keys.items())
    text = f"topology: {{kind: star, hosts: 8}}\nsystem: ps\njobs: [{{workers: 2, {given}}}]"
    with pytest.raises(UserError, match=rf"jobs\[0\].{missing}: missing"):
        load_text(text)


@pytest.mark.parametrize(
    "key", ["env: {A: 1}", "backend: gloo", "numbers: fixed", "collective_timeout: 3 s"]
)
def test_keys_of_programs_are_errors_of_jobs_that_replay(key):
    text = "topology: {kind: star, hosts: 8}\nsystem: ps\njobs: [{workers: 2, model: vgg16, %s}]"
    with pytest.raises(UserError, match=rf"jobs\[0\].{key.split(':')[0]}: is for jobs that are"):
        load_text(text % f"iterations: 2, {key}")


def test_a_program_has_variables_which_are_recorded():
    experiment = of(keys=""", env: {LR: 0.5, N: 8, _name: "a b 'c' \u00e9"}""")
    expected = {"LR": "0.5", "N": "8", "_name": "a b 'c' \u00e9"}
    assert experiment.jobs[0].env == expected
    assert load_text(experiment.resolved_yaml()).jobs[0].env == expected
    assert "env" not in of().resolved_yaml()


def test_a_program_has_a_time_limit_for_ranks_that_do_not_come():
    assert of().jobs[0].collective_timeout_ns == 300 * 10**9
    job = of(keys=", collective_timeout: 20 s, backend: gloo").jobs[0]
    assert (job.collective_timeout_ns, job.backend) == (20 * 10**9, "gloo")
    assert "collective_timeout: 20 s" in of(keys=", collective_timeout: 20 s").resolved_yaml()


@pytest.mark.parametrize("workers", [2, MAX_WORKERS])
@pytest.mark.parametrize("values", [1, 64])
def test_a_round_has_room_for_a_prelude_and_its_numbers_are_int32(workers, values):
    text = f"""
values_per_packet: {values}
topology: {{kind: two_level, tors: 4, hosts: 257, servers: 1}}
system: ps
jobs: [{{name: p, workers: {workers}, command: "true"}}]
"""
    worker = host_specs(set_up(load_text(text)))[0]
    job = worker.job
    assert job.program and job.fragments * job.iterations < 2**31
    assert prelude.most_blocks(workers, job.tensors[0].values) >= 16


def test_its_memory_is_that_of_its_ranks():
    """However many rounds there are numbers for."""
    found = estimate_bytes(set_up(of()), machine_bytes_at_most)
    assert 4 * PROGRAM_BYTES < found < 3 * GIB


def test_declared_groups_are_ranks_that_differ_in_one_dimension():
    job = of(keys=", parallel: {dp: 2, tp: 2}", system="esa", more=MEMORY).jobs[0]
    assert job.parallel.groups == ((0, 1), (2, 3), (0, 2), (1, 3))
    assert job.groups == 255
    text = TEXT.replace("hosts: 8", "hosts: 13").replace("workers: 4", "workers: 12")
    text = text.format(
        command="true", keys=", parallel: {tp: 2, cp: 3, pp: 2}", system="esa", more=MEMORY
    )
    groups = load_text(text).jobs[0].parallel.groups
    assert len(groups) == 6 + 4 + 6
    assert groups[6:10] == ((0, 2, 4), (1, 3, 5), (6, 8, 10), (7, 9, 11))
    assert groups[10] == (0, 6)
    divided = of(keys=", parallel: {tp: 4}", system="switchml", more=MEMORY)
    assert divided.jobs[0].groups == 1


@pytest.mark.parametrize(
    "keys, more, message",
    [
        ("parallel: {tp: 2}", "", "found 2 ranks together; the job has 4 workers"),
        ("parallel: {tp: 2, dp: 2}, groups: 3", "", "found 3; `parallel` needs 4"),
        ("parallel: {tp: 4, mp: 1}", "", "unknown key"),
        ("parallel: {tp: 4, sharding: fsdp}", "", "parallel.sharding: is for model: {transformer"),
        ("parallel: {tp: 4, sequence_parallel: true}", "", "parallel.sequence_parallel: is for"),
        (
            "parallel: {tp: 4}",
            "faults: [{at: 1 s, fault: link_down, between: [h1, s1]}]",
            "needs links that do not fail",
        ),
    ],
)
def test_declared_groups_that_do_not_fit_are_said(keys, more, message):
    with pytest.raises(UserError, match=message):
        of(keys=f", {keys}", system="esa", more=f"{more}\n{MEMORY}")
