"""Numbers of `ina recording`, compared with the formulas of docs/training.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from testbed.cli.main import main
from testbed.cli.recording_tables import measured, packets
from testbed.traffic.recording import load_recording
from tests.support.paths import ROOT
from tests.support.recordings import SIZES, values_of, write_recording

SCALE = 1_000_000


def sparse(rank: int, step: int, bucket: int) -> np.ndarray:
    """The same with 0 in most runs of four values; bucket 1, of 12 values, has nothing else."""
    values = values_of(rank, step, bucket)
    kept = np.random.default_rng((rank, step)).random(SIZES[bucket] // 4) < 0.3
    return np.where(np.repeat(kept, 4), values, 0) * np.float32(bucket == 0)


def sums_of_bucket(step: int, bucket: int) -> dict[str, np.ndarray]:
    """Both formats' sums for two ranks, value by value; packets of 64 values."""
    given = [values_of(rank, step, bucket).astype(np.float64) for rank in range(2)]
    e = int(np.frexp(max(np.abs(each).max() for each in given))[1])
    e += 1 - e % 2
    exponents = sum(np.rint(each * 2.0 ** (31 - 2 - e)) for each in given) / 2.0 ** (31 - 2 - e)
    over = np.abs([np.rint(each * SCALE) for each in given]) > 213_000_000
    fixed = sum(np.rint(each * SCALE) for each in given) / SCALE
    for start in range(0, SIZES[bucket], 64):
        if over[:, start : start + 64].any():
            fixed[start : start + 64] = sum(given)[start : start + 64]
    return {
        "exact": sum(given),
        "exponents": exponents.astype(np.float32),
        "fixed": fixed.astype(np.float32),
        "over": over,
    }


def test_numbers_are_those_of_the_formats(tmp_path):
    recording = load_recording(write_recording(tmp_path / "run.npz"))
    head = measured(recording, SCALE, 64)[-1]
    assert (head.name, head.shape, head.values) == ("head.weight", (10, 30), 2 * 3 * 300)
    given = np.concatenate([values_of(rank, step, 0) for rank in range(2) for step in range(3)])
    assert head.zeros == (given == 0).sum() > 100
    sizes = np.floor(np.log2(np.abs(given[given != 0])))
    assert (head.low, head.high) == (sizes.min(), sizes.max())
    sums = [sums_of_bucket(step, 0) for step in range(3)]
    assert head.over == sum(each["over"].sum() for each in sums) > 0
    exact = np.concatenate([each["exact"] for each in sums])
    for name in ("exponents", "fixed"):
        wrong = np.concatenate([each[name] for each in sums]) - exact
        expected = np.sqrt((wrong**2).sum() / (exact**2).sum())
        assert head.error(name) == pytest.approx(expected, rel=1e-9)


def test_parameters_of_one_bucket_are_told_apart(tmp_path):
    recording = load_recording(write_recording(tmp_path / "run.npz"))
    found = measured(recording, SCALE, 64)
    assert [(each.name, each.values) for each in found[:2]] == [
        ("body.weight", 2 * 3 * 5),
        ("body.bias", 2 * 3 * 7),
    ]
    given = np.concatenate([values_of(rank, step, 1)[:7] for rank in range(2) for step in range(3)])
    assert found[1].zeros == (given == 0).sum()


def test_packets_are_those_of_the_formats(tmp_path):
    recording = load_recording(write_recording(tmp_path / "run.npz", values=sparse))
    full, short = packets(recording, 4)
    given = [[sparse(rank, step, 0) for rank in range(2)] for step in range(3)]
    for found, bits in ((full, 32), (short, 16)):
        steps, sums, wrong, square = 0, 0, 0.0, 0.0
        for ranks in given:
            blocks = [np.abs(ranks)[:, start : start + 256].max() for start in (0, 256)]
            e = np.repeat([int(np.frexp(each)[1]) for each in blocks], 256)[:300]
            e += 1 - e % 2
            scale = 2.0 ** (31 - 2 - e) if bits == 32 else 32767 / 2.0**e
            of_ranks = [np.rint(each.astype(np.float64) * scale) for each in ranks]
            total = sum(of_ranks)
            if bits == 16:
                total = 2 * np.rint(total / 2)
            steps += sum((each.reshape(-1, 4) == 0).all(axis=1).sum() for each in of_ranks)
            sums += (total.reshape(-1, 4) == 0).all(axis=1).sum()
            exact = np.sum(ranks, axis=0, dtype=np.float64)
            wrong += ((np.float32(total / scale) - exact) ** 2).sum()
            square += (exact**2).sum()
        assert (found.sent, found.summed) == (3 * 2 * 78, 3 * 78)
        assert (found.sent_zeros, found.summed_zeros) == (steps + 3 * 2 * 3, sums + 3 * 3)
        assert found.error == pytest.approx(np.sqrt(wrong / square), rel=1e-9)


def test_the_command_prints_tables_and_data(tmp_path, capsys):
    path = write_recording(tmp_path / "run.npz")
    assert main(["recording", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "Tiny (train_tiny.py)" in printed and "head.weight" in printed
    assert main(["recording", str(path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["bucket"] for row in data["tensors"]["rows"]][1] == "head.weight"
    assert data["parameters"]["rows"][2]["values"] == 300
    full, without, *_ = data["packets"]["rows"]
    assert full["sent_bytes"] == full["got_bytes"] == 6 * 326  # 300 and 12 values
    assert (without["zeros"], without["sent_bytes"]) == ("header_only", 6 * 326)
    assert main(["recording", str(tmp_path / "none.npz")]) == 2
    assert "none.npz: no such recording" in capsys.readouterr().err


def test_the_docs_show_what_the_command_prints(capsys):
    assert main(["recording", str(ROOT / "traffic/recordings/train_clicks.npz")]) == 0
    page = (ROOT / "docs/recordings.md").read_text()
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    printed = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    assert printed in page, "paste the output of the command again"


@pytest.mark.parametrize(
    "words, message",
    [
        (["-o", "run.txt"], "name a file that ends in .npz or .et"),
        (["-o", "run.et", "--no-values"], "run.et: a trace has no values; leave out --no-values"),
        (["-o", "run.npz", "--job", "other"], "--job: found other; jobs with a command: sums"),
    ],
)
def test_what_cannot_be_recorded_is_an_error(tmp_path: Path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "experiment.yaml"
    file.write_text(
        "topology: {kind: star, hosts: 3}\nsystem: ps\n"
        'jobs: [{name: sums, command: "true", workers: 2}]\n'
    )
    assert main(["record", str(file), *words]) == 2
    assert message in capsys.readouterr().err


def test_an_experiment_without_programs_has_nothing_to_record(tmp_path, capsys):
    file = ROOT / "experiments" / "replay-clicks.yaml"
    assert main(["record", str(file), "-o", str(tmp_path / "run.npz")]) == 2
    assert "has no job with a command" in capsys.readouterr().err


def test_the_errors_of_the_formats_are_drawn(tmp_path, capsys):
    path = write_recording(tmp_path / "run.npz")
    pdf, png = tmp_path / "errors.pdf", tmp_path / "errors.png"
    assert main(["recording", str(path), "--figure", str(pdf)]) == 0
    assert capsys.readouterr().out.endswith(f"{png}\n{pdf}\n")
    assert pdf.stat().st_size > 5000 and png.stat().st_size > 5000
    for name in ("errors.svg", "nowhere/errors.pdf"):
        assert main(["recording", str(path), "--figure", str(tmp_path / name)]) == 2
        assert "name a file that ends in .pdf or .png" in capsys.readouterr().err
