"""What may be asked beside jobs of which some layers are simulated."""

from __future__ import annotations

import pytest
from p4fabric.base.errors import UserError

from testbed.experiment import load_text
from testbed.experiment.sampled_layers import smaller, source_of

HEAD = """
name: test
runtime: virtual
topology: {kind: star, hosts: 10}
system: ring
jobs:
"""
JOB = """
  - name: %s
    model: {transformer: %s, sequence: 1024, global_batch: 2, layers: %s}
    parallel: {dp: 2}
    workers: 2
    iterations: 1
    scale: 0.001
"""
FIRST = JOB % ("first", "llama2-7b", "sampled")


def test_smaller_sizes_are_the_same_experiment_with_fewer_layers():
    experiment = load_text(HEAD + FIRST)
    sizes = [
        source_of(each.jobs[0]).transformer.simulated for each in (*smaller(experiment), experiment)
    ]
    assert sizes == [1, 2, 3, 4]
    first, second, _ = (each.jobs[0].trace().compute_ns for each in smaller(experiment))
    assert first < second < experiment.jobs[0].trace().compute_ns
    assert smaller(load_text(HEAD + JOB % ("first", "llama2-7b", "2"))) == ()


def test_a_file_is_printed_with_the_layers_of_the_model():
    shown = load_text(HEAD + FIRST).resolved_yaml()
    assert load_text(shown).resolved_yaml() == shown
    for each in ("layers: sampled", "of: 32", "least: 1", "sizes: 4", "tolerance: 2 %"):
        assert each in shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD.replace("virtual", "mininet") + FIRST, "sampled with runtime mininet"),
        (
            HEAD + FIRST + "faults: [{at: 1 ms, fault: pause, job: first, for: 10 ms}]\n",
            "found sampled with faults",
        ),
        (HEAD + FIRST + JOB % ("second", "llama2-7b", "2"), "those of second are not"),
        (
            HEAD + FIRST + JOB % ("second", "llama2-13b", "sampled"),
            "found first 4 and 28, second 4 and 36",
        ),
        (
            HEAD + JOB % ("first", "llama2-7b", "sampled, sample: {of: 3}"),
            "a stage has 3. Take layers out",
        ),
        (HEAD + JOB % ("first", "llama2-7b", "2, sample: {of: 3}"), "sample with layers: sampled"),
        (HEAD + JOB % ("first", "llama2-7b", "some"), "a whole number from 1 to 1000, or sampled"),
    ],
)
def test_what_does_not_go_together_is_an_error(text, words):
    with pytest.raises(UserError, match=words):
        load_text(text)


def test_models_of_as_many_layers_go_together():
    second = JOB % ("second", "llama2-13b", "sampled, sample: {of: 32}")
    assert len(smaller(load_text(HEAD + FIRST + second))) == 3
