"""The keys that an experiment file of lab 13 may have, as a list of what is allowed.

An experiment file of the testbed can name programs, plug-ins, commands and files. The grader runs
the file, so it takes only keys and words of this list, and numbers. Nothing else reaches the
testbed.
"""

from __future__ import annotations

import re
from typing import Any

LARGEST_BYTES = 16 << 10
MOST_VALUES = 2000
LONGEST = 500  # characters of a text
MODELS = ("alexnet", "resnet18", "resnet50", "vgg11", "vgg16")
SYSTEMS = ("esa", "atp", "switchml")
PANELS = (
    "ps_packets_per_fragment",
    "jct",
    "jct_ratio",
    "jct_communicating",
    "jct_computing",
    "in_switch_share",
    "ps_link_bytes",
    "filling_share",
    "held_share",
    "retransmissions",
    "samples_per_s",
    "scaling_efficiency",
)
NUMBERS = {
    "seed",
    "repetitions",
    "hosts",
    "aggregators",
    "workers",
    "iterations",
    "scale",
    "compute_scale",
    "window",
    "bandwidth",
    "delay",
    "loss",
    "queue",
    "ecn_threshold",
    "compute_jitter",
    "speed_spread",
    "timeout",
    "start",
}
WORDS = {
    "runtime": ("virtual",),
    "kind": ("star",),
    "system": SYSTEMS,
    "model": MODELS,
    "order": ("front", "fifo"),
    "release": ("on_completion", "on_result"),
    "x": ("memory.aggregators", "system"),
    "panels": PANELS,
    "against": ("ESA", "ATP", "SwitchML"),
    "window": ("auto",),
    "ecn_threshold": ("none", "default"),
    "occupancy": ("true", "false"),
}
TEXTS = ("claim", "x_label")
SECTIONS = ("topology", "links", "memory", "jobs", "sweep", "together", "skip", "figure", "system")
PLACES = ("workers", "ps")  # of `placement`
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})? ?(bit/s|[kMG]bit/s|ns|us|ms|s|%|packets)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}")
_HOST = re.compile(r"[hs]\d{1,4}")


class NotAllowed(Exception):
    """A key or value that the file may not have; the message is for the student."""


def check(data: Any) -> None:
    """Raises NotAllowed for an experiment file with anything but what this lab is about."""
    if not isinstance(data, dict):
        raise NotAllowed("experiment.yaml is no experiment: it has no keys")
    _Check().mapping(data, "")


class _Check:
    def __init__(self) -> None:
        self.count = 0

    def mapping(self, data: dict, where: str) -> None:
        for key, value in data.items():
            path = f"{where}.{key}" if where else key
            name = re.sub(r"\[(\d+|\*)\]", "", key)
            if name != key or "." in name:  # a path, in `sweep`
                if ".sweep" not in f".{where}":
                    raise NotAllowed(f"the key {path} is not for this lab")
                for part in name.split(".")[:-1]:
                    self.section(part, path)
                name = name.split(".")[-1]
            self.value(name, value, path, where)

    def section(self, name: str, path: str) -> None:
        if name not in SECTIONS:
            raise NotAllowed(f"the key {path} is not for this lab")

    def value(self, name: str, value: Any, path: str, where: str) -> None:
        self.count += 1
        if self.count > MOST_VALUES:
            raise NotAllowed(f"experiment.yaml has more than {MOST_VALUES} values")
        if name in TEXTS:
            if not isinstance(value, str) or len(value) > LONGEST:
                raise NotAllowed(f"{path} is a text of at most {LONGEST} characters")
        elif isinstance(value, dict):
            if name not in (*SECTIONS, "placement") and not self.ranged(name, value):
                raise NotAllowed(f"the key {path} is not for this lab")
            self.mapping(value, path)
        elif isinstance(value, list):
            for each in value:
                self.value(name, each, path, where)
        else:
            self.scalar(name, value, path, where)

    def ranged(self, name: str, value: dict) -> bool:
        """A range of numbers, in `sweep`."""
        return name in NUMBERS and set(value) <= {"from", "to", "step", "times"}

    def scalar(self, name: str, value: Any, path: str, where: str) -> None:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        known = name in NUMBERS or name in ("from", "to", "step", "times")
        number = type(value) in (int, float) and 0 <= value < 1e12
        if known and (number or _NUMBER.fullmatch(text)) or text in WORDS.get(name, ()):
            return
        if name == "name":
            # Of the experiment or of a job a name, of a system one of those known.
            of_system = "system" in where.rpartition(".")[2]
            if text in SYSTEMS or not of_system and _NAME.fullmatch(text):
                return
            raise NotAllowed(f"{path}: {text[:40]!r} is not for this lab")
        if name in PLACES and where.endswith("placement") and _HOST.fullmatch(text):
            return
        if known or name in WORDS:
            raise NotAllowed(f"{path}: {text[:40]!r} is not for this lab")
        raise NotAllowed(f"the key {path} is not for this lab")
