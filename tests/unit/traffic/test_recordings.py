"""Recordings of real trainings as models: their times and values, and what a bad one is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from p4fabric.base.errors import UserError

from testbed.collective import ina_recorder as recorder
from testbed.experiment import Experiment, load_text
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
from testbed.traffic.recording import load_model, load_recording
from testbed.workload import gradients
from tests.support.damaged_zip import DAMAGES, damage
from tests.support.experiments import memory_line
from tests.support.recordings import MS, SIZES, header_of, times_of, values_of, write_recording

TEXT = """
name: replay
runtime: virtual
topology: {{kind: star, hosts: 4}}
links: {{bandwidth: 1 Gbit/s}}
system: {system}
{memory}
jobs:
  - {{model: run.npz, workers: 2, iterations: 3{keys}}}
"""


def experiment(folder: Path, system: str = "ps", keys: str = "") -> Experiment:
    memory = memory_line(system, 64)
    return load_text(TEXT.format(system=system, keys=keys, memory=memory), folder=folder)


def refused(folder: Path, **changed: str) -> str:
    with pytest.raises(UserError) as caught:
        experiment(folder, **changed)
    return str(caught.value)


def test_a_ranks_times_are_those_between_its_marks(tmp_path):
    recording = load_recording(write_recording(tmp_path / "run.npz"))
    assert [layer.name for layer in recording.tensors] == ["body.weight:body.bias", "head.weight"]
    assert [layer.values for layer in recording.tensors] == [12, 300]
    # The front tensor's forward step ends where the head is needed first.
    assert recording.times_of(0, 0) == [(MS, 4 * MS, 0), (2 * MS, 3 * MS, 0)]
    # The update before is that of step 0, 3.12 ms over 312 values; 5 ms lay before the next step.
    assert recording.times_of(1, 1) == [
        (4 * MS, 16 * MS, 2 * (120_000 + 5 * MS)),
        (8 * MS, 12 * MS, 2 * 3 * MS),
    ]


@pytest.mark.parametrize("begins", [(), ("update_start_ns",)])
def test_what_was_not_seen_takes_no_time(begins, tmp_path):
    times = times_of(2, 3)
    for name in ("needed_ns", *begins, "update_end_ns", "next_ns"):
        times[name][:] = recorder.UNKNOWN
    times["ready_ns"][0, 1, 0] = 0  # before the forward pass has ended
    values = ((recorder.member_of(r, s, b), values_of(r, s, b)) for r, s, b in np.ndindex(2, 3, 2))
    recorder.write(tmp_path / "run.npz", header_of(2, 3), times, values)
    recording = load_recording(tmp_path / "run.npz")
    assert recording.times_of(0, 1) == [(0, 14 * MS, 0), (6 * MS, 0, 0)]


def test_workers_compute_as_long_as_their_ranks(tmp_path):
    write_recording(tmp_path / "run.npz")
    recording = load_recording(tmp_path / "run.npz")
    first, second = host_specs(set_up(experiment(tmp_path)))[:2]
    assert first.compute.steps == tuple(tuple(recording.times_of(0, step)) for step in range(3))
    assert second.compute.steps[2][0][:2] == (6 * MS, 24 * MS)
    half = host_specs(set_up(experiment(tmp_path, keys=", compute_scale: 0.5")))[0]
    assert half.compute.steps[0] == ((MS // 2, 2 * MS, 0), (MS, 3 * MS // 2, 0))
    assert first.small().compute.steps == (), "a small machine has one tensor"


def test_a_model_of_it_has_the_mean_times(tmp_path):
    write_recording(tmp_path / "run.npz")
    trace = load_model(tmp_path / "run.npz")
    assert trace.name == "train_tiny" and trace.hardware == "GPU" and trace.times == "measured"
    assert trace.layers[1].forward_ns == round(2 * MS * 1.5 * 2)  # ranks x1, x2; steps x1, x2, x3
    recording = load_recording(tmp_path / "run.npz")
    updates = [recording.times_of(rank, step)[1][2] for rank in range(2) for step in (1, 2)]
    assert trace.layers[1].update_ns == round(sum(updates) / 4), "step 0 has no update before it"
    two = experiment(tmp_path, keys="").jobs[0].trace()
    assert two.compute_ns == trace.compute_ns


def test_workers_send_the_ranks_values_in_blocks_with_their_own_exponents(tmp_path):
    write_recording(tmp_path / "run.npz")
    specs = host_specs(set_up(experiment(tmp_path)))
    own = [gradients.of_worker(spec)[0] for spec in specs[:2]]
    sums = gradients.of_worker(specs[0])[1]
    values = specs[0].job.values
    starts = specs[0].job.first_fragments * values
    for step in range(3):
        for tensor, bucket in enumerate((1, 0)):
            given = [values_of(rank, step, bucket).astype(np.float64) for rank in range(2)]
            # docs/training.md: with W = 2 ranks, b = 2.
            largest = max(np.abs(each).max() for each in given)
            e = int(np.frexp(largest)[1])
            e += 1 - e % 2
            expected = [np.rint(each * 2.0 ** (31 - 2 - e)) for each in given]
            place = slice(starts[tensor], starts[tensor] + SIZES[bucket])
            for rank in range(2):
                assert (own[rank][step, place] == expected[rank]).all()
            assert (sums[step, place] == sum(expected)).all()


@pytest.mark.parametrize(
    "keys, message",
    [
        (", workers: 3", "jobs[0].workers: found 3; the recording has 2 ranks"),
        (", iterations: 4", "jobs[0].iterations: found 4; the recording has 3 steps"),
        (", buckets: ddp", "jobs[0].buckets: found ddp; a recording has buckets of its own"),
    ],
)
def test_a_job_that_does_not_fit_is_told_where(tmp_path, keys, message):
    write_recording(tmp_path / "run.npz")
    key = keys.split(":")[0].strip(", ")
    text = TEXT.format(system="ps", memory="", keys="")
    line = next(line for line in text.splitlines() if "model" in line)
    plain = {"workers": "workers: 2", "iterations": "iterations: 3"}.get(key)
    new = line.replace(plain, keys.strip(", ")) if plain else line.replace("}", keys + "}")
    with pytest.raises(UserError) as caught:
        load_text(text.replace(line, new), folder=tmp_path)
    assert message in str(caught.value)


def test_a_bad_file_is_told_why(tmp_path):
    path = tmp_path / "run.npz"
    assert "run.npz: no such recording; check the path" in refused(tmp_path)
    write_recording(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "run.npz: not a whole recording" in refused(tmp_path)
    path.write_bytes(b"something else")
    assert "run.npz: not a whole recording" in refused(tmp_path)
    with path.open("wb") as file:
        np.savez(file, gradients=np.zeros(3))
    assert "no recording, it has no header.json; name a file that" in refused(tmp_path)
    write_recording(path, version=2)
    assert "found format ina-recording, version 2; allowed: ina-recording, version 1" in refused(
        tmp_path
    )
    write_recording(path, world=3)
    assert "has rank 0, 1 of 3 alone; join the parts of all ranks" in refused(tmp_path)
    write_recording(path, steps=3, devices=None, buckets=[{"dtype": "float32"}])
    assert "its header is damaged (KeyError('parameters'))" in refused(tmp_path)


def test_damaged_values_are_found(tmp_path):
    path = write_recording(tmp_path / "run.npz")
    data = bytearray(path.read_bytes())
    place = data.index(b"values/1/2/0.npy") + 200
    data[place : place + 40] = bytes(40)
    path.write_bytes(data)
    recording = load_recording(path)
    with pytest.raises(UserError, match="values/1/2/0.npy is damaged"):
        recording.values()
    assert recording.values(2).shape == (2, 2, 312), "that step is not replayed"


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_archive_is_named(tmp_path, how):
    path = write_recording(tmp_path / "run.npz")
    damage(path, how)
    with pytest.raises(
        UserError, match=rf"{path}: .*(not a whole recording|is damaged|cannot be read)"
    ):
        load_recording(path)


def test_values_that_are_not_finite_are_refused_with_their_place(tmp_path):
    def values(rank, step, bucket):
        found = values_of(rank, step, bucket)
        found[3] = np.nan if (rank, step) == (1, 1) else 0
        return found

    recording = load_recording(write_recording(tmp_path / "run.npz", values=values))
    with pytest.raises(UserError, match="rank 1 gave a value that is not finite in step 6"):
        recording.values()


def test_a_recording_without_values_is_replayed_with_generated_ones(tmp_path):
    path = write_recording(tmp_path / "run.npz")
    header = header_of(2, 3) | {"values": False}
    recorder.write(path, header, times_of(2, 3), iter(()))
    spec = host_specs(set_up(experiment(tmp_path)))[0]
    assert spec.job.gradients is None and len(spec.compute.steps) == 3
    with pytest.raises(UserError, match="has no values; record it without --no-values"):
        load_recording(path).values()
