"""The recorder that works away from the testbed: what it writes of a DDP training on the CPU."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from testbed.collective import ina_recorder as recorder
from testbed.traffic.recording import load_recording
from tests.support.recordings import header_of, times_of, values_of, write_recording

SCRIPT = """
import sys
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 200), nn.ReLU(), nn.Linear(200, 3))
plain = nn.Sequential(nn.Linear(6, 200), nn.ReLU(), nn.Linear(200, 3))
plain.load_state_dict(net.state_dict())
model = DistributedDataParallel(net, bucket_cap_mb=0.002)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
draw = torch.Generator().manual_seed(rank)
own = []
for step in range(6):
    batch = torch.randn(4, 6, generator=draw)
    plain.load_state_dict(model.module.state_dict())
    plain.zero_grad()
    plain(batch).square().mean().backward()
    own.append({name: each.grad.numpy() / 2 for name, each in plain.named_parameters()})
    optimizer.zero_grad()
    with torch.no_grad():
        model(batch)
    model(batch).square().mean().backward()
    optimizer.step()
np.savez(f"{sys.argv[1]}/own{rank}.npz", **{f"{s}/{n}": a for s, e in enumerate(own)
                                            for n, a in e.items()})
weights = torch.cat([each.detach().flatten() for each in model.parameters()]).numpy()
np.save(f"{sys.argv[1]}/weights{rank}.npy", weights)
dist.destroy_process_group()
"""


def training(folder: Path, port: int, *words: str | Path) -> list[subprocess.Popen]:
    """Two ranks of the script, with these words before it."""
    (folder / "train.py").write_text(SCRIPT)
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        subprocess.Popen(
            [sys.executable, *words, folder / "train.py", folder],
            env={**os.environ, **common, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


def ended(ranks: list[subprocess.Popen]) -> list[str]:
    """Standard error of the ranks, which must have ended well."""
    said = [rank.communicate()[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    return said


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install '.[torch]'")
def test_it_records_what_a_script_gives_to_all_reduce_and_changes_nothing(tmp_path, free_port):
    ended(training(tmp_path, free_port()))
    weights = np.load(tmp_path / "weights0.npy")
    # The file works alone, where there is no testbed.
    alone = shutil.copy(recorder.__file__, tmp_path / "elsewhere.py")
    output = tmp_path / "run.npz"
    words = alone, "run", "-o", output, "--steps", "3", "--skip", "2"
    ended(training(tmp_path, free_port(), *words))
    assert (np.load(tmp_path / "weights0.npy") == weights).all()
    subprocess.run([sys.executable, alone, "join", output], check=True)

    recording = load_recording(output)
    assert (recording.ranks, recording.header["steps"]) == (2, [2, 3, 4])
    buckets = recording.header["buckets"]
    assert len(buckets) > 1, "or the times of several buckets are not tested"
    with recorder.Archive(output) as archive:
        for rank in range(2):
            own = np.load(tmp_path / f"own{rank}.npz")
            for place, step in enumerate([2, 3, 4]):
                for number, bucket in enumerate(buckets):
                    given = archive.values(rank, place, number, recorder.bucket_values(bucket))
                    names = [each["name"] for each in bucket["parameters"]]
                    expected = np.concatenate([own[f"{step}/{name}"].ravel() for name in names])
                    assert (given == expected).all()
    times = recording.times
    assert (np.diff(times["ready_ns"], axis=2) >= 0).all()
    assert (times["ready_ns"][..., 0] > times["forward_end_ns"]).all()
    assert (times["needed_ns"][..., -1] < times["needed_ns"][..., 0]).all(), "front first"
    assert (times["update_start_ns"] > times["ready_ns"][..., -1]).all()
    assert (times["next_ns"] > times["update_end_ns"]).all()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install '.[torch]'")
def test_a_limit_of_the_values_size_is_named_before_the_first_step(tmp_path, free_port):
    words = recorder.__file__, "run", "-o", tmp_path / "run.npz", "--steps", "1000", "--limit", "2"
    ranks = training(tmp_path, free_port(), *words)
    said = [rank.communicate()[1] for rank in ranks]
    assert all(rank.returncode for rank in ranks)
    message = "the values of 1000 steps are 8 MB on each rank, more than the limit of 2 MB; record"
    assert all(message in each for each in said)
    assert not list(tmp_path.glob("run*"))


def split(folder: Path) -> list[Path]:
    """The parts of two ranks, and what `join` must make of them."""
    whole = write_recording(folder / "whole.npz")
    for rank in range(2):
        header = header_of(2, 3, ranks=[rank], devices=["GPU"])
        times = {name: array[rank : rank + 1] for name, array in times_of(2, 3).items()}
        members = (
            (recorder.member_of(rank, step, bucket), values_of(rank, step, bucket))
            for step in range(3)
            for bucket in range(2)
        )
        recorder.write(recorder.part_of(folder / "run.npz", rank), header, times, members)
    return [whole, folder / "run.npz"]


def test_parts_become_one_recording(tmp_path):
    whole, path = split(tmp_path)
    recorder.join(path)
    one, other = load_recording(whole), load_recording(path)
    assert one.header == other.header
    assert (one.values() == other.values()).all()
    assert all((one.times[name] == other.times[name]).all() for name in one.times)


def test_parts_that_do_not_fit_are_told(tmp_path):
    _, path = split(tmp_path)
    part = recorder.part_of(path, 1)
    kept = part.read_bytes()
    with pytest.raises(recorder.RecordingError, match="the part of rank 1 of 2 is missing; copy"):
        recorder.join(path, [recorder.part_of(path, 0)])
    header = header_of(2, 2, ranks=[1], devices=["GPU"])
    times = {name: array[1:2] for name, array in times_of(2, 2).items()}
    recorder.write(part, header | {"values": False}, times, iter(()))
    with pytest.raises(recorder.RecordingError, match="rank1.npz: steps is not that of .*rank0"):
        recorder.join(path)
    part.write_bytes(kept)
    with pytest.raises(recorder.RecordingError, match="copy.npz: has rank 1, as .*rank1.npz has"):
        recorder.join(path, [part, shutil.copy(part, tmp_path / "copy.npz")])
    with pytest.raises(recorder.RecordingError, match="there are no parts none.rank0.npz"):
        recorder.join(tmp_path / "none.npz")


@pytest.fixture
def free_port():
    def found() -> int:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            return int(listener.getsockname()[1])

    return found
