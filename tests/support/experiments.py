"""Experiments from text, and a valid one that tests change one thing of."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from p4fabric.base.errors import UserError

from testbed.experiment import Experiment, load_text
from testbed.schemes import set_up
from testbed.setup import Setup
from testbed.systems import SYSTEMS
from tests.support.paths import ROOT

# A run in virtual time of a fraction of a second.
SMALL = """
name: small
runtime: virtual
topology: {kind: star, hosts: 3}
links: {bandwidth: 10 Gbit/s, delay: 1 us}
system: {name: esa, window: 16}
memory: {aggregators: 8}
jobs:
  - {name: a, model: resnet18, workers: 2, iterations: 1, scale: 0.0004, compute_scale: 0}
"""
BASE = """\
name: base
topology: {kind: star, hosts: 10}
links:
  bandwidth: 100 Mbit/s
  delay: 10 us
system: {name: esa, window: 64}
memory: {aggregators: 128}
jobs:
  - {model: resnet50, workers: 4, iterations: 2, scale: 0.01}
  - {model: vgg16, workers: 3, iterations: 1, scale: 0.001, start: 5 ms}
"""


ON_BMV2 = BASE + "switch: bmv2\n"


def memory_line(system: str, aggregators: int) -> str:
    """The line of an experiment about the switches' memory, where `system`, as in an experiment
    file, uses any."""
    chosen = yaml.safe_load(system)
    name = chosen if isinstance(chosen, str) else chosen["name"]
    return f"memory: {{aggregators: {aggregators}}}" if SYSTEMS[name].memory else ""


def bmv2_links(text: str) -> str:
    """ON_BMV2 with other links; `text` is what stands below `links:`."""
    return ON_BMV2.replace("bandwidth: 100 Mbit/s\n  delay: 10 us", text)


def changed(old: str, new: str) -> str:
    """BASE with one piece of text replaced, which must be there once."""
    assert BASE.count(old) == 1
    return BASE.replace(old, new)


def message(text: str, folder: Path | str = ".") -> str:
    """The message with which an experiment is refused."""
    with pytest.raises(UserError) as caught:
        load_text(text, file="file.yaml", folder=folder)
    return str(caught.value)


def experiment(text: str) -> Experiment:
    """An experiment file's text, as one of experiments/: its links to other files start there."""
    return load_text(text, folder=ROOT / "experiments")


def setup_of(text: str) -> Setup:
    """Setup of repetition 0 of such an experiment."""
    return set_up(experiment(text))
