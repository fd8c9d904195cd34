"""A transformer is trained by a pipeline: some ranks have its first layers, the others the rest.

    sudo ina experiments/train_pipeline.yaml

An ordinary PyTorch script: nothing in it knows of the testbed but the backend's name and the lines
that report the loss. With 4 ranks there are two pipelines of two stages. A batch goes through a
pipeline in four parts, forward and backward in turn (1F1B), whose activations and gradients are
sent from rank to rank. The two copies of a stage learn from different samples and average their
gradients (DistributedDataParallel). The text and the model are in `small_text.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
import torch.distributed as dist
from small_text import Layer, drawn, loss, mlp, text, transformer
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel

import testbed

STAGES = 2
PARTS = 4  # of a batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=16, help="samples of a step, of all ranks")
    parser.add_argument("--layers", type=int, default=2, help="of a stage")
    parser.add_argument("--backend", default="ina", choices=["ina", "gloo"])
    parser.add_argument("--loss", type=float, default=float("inf"), help="that it must reach")
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    pipelines = dist.get_world_size() // STAGES
    mesh = init_device_mesh("cpu", (STAGES, pipelines), mesh_dim_names=("stage", "data"))
    own, is_last = mesh.get_local_rank("stage"), mesh.get_local_rank("stage") == STAGES - 1
    is_speaker = is_last and mesh.get_local_rank("data") == 0
    train, test, characters = text()
    torch.manual_seed(0)
    whole = transformer(characters, [Layer(mlp()) for _ in range(STAGES * options.layers)])
    layers = whole.layers[own * options.layers : (own + 1) * options.layers]
    part = nn.Sequential(layers, whole.head) if is_last else nn.Sequential(whole.embedding, layers)
    model = DistributedDataParallel(part, process_group=mesh.get_group("data"))
    stage = PipelineStage(model, own, STAGES, torch.device("cpu"), group=mesh.get_group("stage"))
    schedule = Schedule1F1B(stage, PARTS, loss_fn=loss)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    # All ranks of a pipeline draw the same samples; the first one uses them, the last what follows.
    generator = torch.Generator().manual_seed(mesh.get_local_rank("data"))

    def loss_of(samples: torch.Tensor, through: Callable[..., object]) -> float:
        """Loss of samples on the last rank of a pipeline; 0 elsewhere."""
        if own == 0:
            through(samples[:, :-1])
        if not is_last:
            return 0.0
        losses: list[torch.Tensor] = []
        through(target=samples[:, 1:], losses=losses)
        return torch.stack(losses).mean().item()

    tests = drawn(test, 64, torch.Generator().manual_seed(0))
    before = loss_of(tests, schedule.eval)
    for step in range(options.steps):
        samples = drawn(train, options.batch // pipelines, generator)
        optimizer.zero_grad()
        found = loss_of(samples, schedule.step)
        optimizer.step()
        if is_speaker and step % 10 == 0:
            testbed.report(step=step, loss=found)
            print(f"step {step}: loss {found:.3f}")
    reached = loss_of(tests, schedule.eval)
    if is_speaker:
        testbed.report(step=options.steps, test_loss=reached)
        print(f"loss on text that nobody has trained on: {before:.3f}, then {reached:.3f}")
    dist.destroy_process_group()
    if reached > options.loss:
        raise SystemExit(f"the loss {reached:.3f} is above {options.loss}")


if __name__ == "__main__":
    main()
