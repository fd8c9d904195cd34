"""Small experiments for random histories: every system, in all its options, by a number.

Two jobs share a switch, or a network of them, with an aggregator for every few fragments and short
timers, so that within some hundred packets everything happens that can.
"""

from __future__ import annotations

import functools
import random
from pathlib import Path

from p4engine import compile_program
from testbed import dataplane
from testbed.systems import PRIORITIES
from testbed.systems import SYSTEMS as KNOWN
from tests.support import topologies
from tests.support.experiments import setup_of
from tests.support.fabric import MS
from tests.support.histories.history import LIMIT_NS, Run, run_of
from tests.support.paths import DATA
from tests.support.switches import start

TINY = DATA / "tiny.csv"

STAR = "{kind: star, hosts: 10}"
RACKS = "{kind: two_level, tors: 2, hosts: 3, servers: 2}"
NETWORKS = {
    "star": STAR,
    "racks": RACKS,
    "deep": f"{{class: '{topologies.FILE}:Deep'}}",
    "cycle": f"{{class: '{topologies.FILE}:Cycle'}}",
}
TEXT = """
name: history
topology: %(topology)s
%(planned)s
system: {name: %(system)s%(options)s}
%(memory)s
values_per_packet: 4
jobs:
  - {model: %(tiny)s, workers: 3, iterations: 3%(first)s}
  - {model: %(tiny)s, workers: 3, iterations: 3, start: 30 us%(second)s}
"""
# Where there are several switches, both jobs span them.
SPREAD = {
    "first": ", placement: {workers: [h1, h2, h4]%s}",
    "second": ", placement: {workers: [h3, h5, h6]%s}",
}

# Options of each system that a case draws from; a first value is the default.
POOL = {
    "window": (6, 2, 40),
    "reminder": ("true", "false"),
    "reminder_delay": ("300 us", "2 ms"),
    "timeout": ("2 ms", "10 ms"),
    "max_age": ("none", "3 ms"),
}
HOSTS = {"window": (6, 1, 40), "timeout": ("2 ms", "10 ms"), "order": ("front", "fifo")}
DELIVERED = "on_completion, results_from: switch"
OPTIONS = {
    "esa": {
        **POOL,
        "release": ("on_completion", "on_result", DELIVERED),
        "priority": PRIORITIES,
        "preempt": ("priority", "always", "coin"),
        "downgrading": ("true", "false"),
        "index": ("consecutive", "hash"),
        "order": ("front", "fifo"),
    },
    "atp": {
        **POOL,
        "release": ("on_result", "on_completion", DELIVERED),
        "index": ("hash", "consecutive"),
        "rehash": ("true", "false"),
        "gap": (3, 0, 1),
    },
    "a2tp": {
        **POOL,
        "index": ("hash", "consecutive"),
        "rehash": ("true", "false"),
        "gap": (3, 0),
    },
    "grid": {
        **POOL,
        "planner": ("grid-links", "nearest", "none"),
        "memory": ("esa", "atp", "plain"),
        "release": ("auto", "on_completion", "on_result"),
        "index": ("consecutive", "hash"),
        "collision": ("server", "drop"),
    },
    "switchml": {"timeout": ("2 ms", "10 ms")},
    "tree": {
        "timeout": ("2 ms", "10 ms"),
        "mode": ("quotas", "exclusive"),
        "trees": ("auto", 1, 2),
        "fallback": ("ring", "halving_doubling"),
    },
    "ps": {
        "window": (6, 2, 40),
        "timeout": ("2 ms", "10 ms"),
        "order": ("front", "fifo"),
        "servers": (1, 2),
    },
    **dict.fromkeys(("ring", "halving_doubling", "double_tree", "hierarchical"), HOSTS),
    "colocated_ps": {**HOSTS, "servers": ("all", 1, 2)},
}
# A plan wants capacities; the switches' is small enough to be exceeded.
PLANNED = """links: {bandwidth: 100 Mbit/s}
switches: {capacity: 150 Mbit/s, burst: 3 packets}"""
AGGREGATORS = (4, 16)
PATIENCE_NS = 5_000 * MS  # a quarter of a patient worker's timeout
SYSTEMS = tuple(OPTIONS)
# That aggregate in several switches.
IN_NETWORK = ("esa", "atp", "a2tp", "grid", "switchml", "tree")


def text_of(system: str, network: str = "star", aggregators: int = 4, **options: object) -> str:
    """The experiment file of a case on one of NETWORKS; options not given have their first
    value."""
    chosen = {key: values[0] for key, values in OPTIONS[system].items()} | options
    if chosen.get("release") == DELIVERED:
        chosen["reminder"] = "true"  # what else is an error
    places = {key: "" for key in SPREAD}
    if network != "star":
        servers = ("", "") if KNOWN[system].servers == "none" else (", ps: h7", ", ps: h8")
        places = {key: text % ps for (key, text), ps in zip(SPREAD.items(), servers, strict=True)}
    has_memory = KNOWN[system].memory
    return TEXT % {
        "topology": NETWORKS[network],
        "planned": PLANNED if system == "grid" else "",
        "system": system,
        "options": "".join(f", {key}: {value}" for key, value in chosen.items()),
        "memory": f"memory: {{aggregators: {aggregators}}}" if has_memory else "",
        "tiny": TINY,
        **places,
    }


def drawn(system: str, number: int, network: str = "star", **fixed: object) -> str:
    """Case `number` of a system: its options drawn (case 0: their first values), but the fixed."""
    if number == 0:
        return text_of(system, network, **fixed)
    draw = random.Random(f"{system} {number}")
    options = {key: draw.choice(values) for key, values in OPTIONS[system].items()}
    return text_of(system, network, draw.choice(AGGREGATORS), **options | fixed)


def patient(system: str) -> dict[str, object]:
    """Options with which no worker's timer helps: what was lost stays lost for a long time.

    An aggregator that ages may lose a sum that is merely late. GRID's published reaction to a
    collision may let two workers wait for each other's aggregators, until a timer ends it
    (docs/grid-switches.md); the safe one may not."""
    pool = (
        {"reminder": "true", "max_age": "none"} if system in ("esa", "atp", "a2tp", "grid") else {}
    )
    safe = {"collision": "server"} if system == "grid" else {}
    return {"timeout": "20 s", **pool, **safe}


def run_of_text(text: str, limit_ns: int = LIMIT_NS) -> Run:
    """Function that runs the experiment with a history."""
    setup = setup_of(text)
    source, defines, include_dirs = dataplane.program(setup.platform)
    compiled = _compiled(source, tuple(defines.items()), include_dirs)

    return run_of(setup, functools.partial(start, setup, compiled), limit_ns)


@functools.lru_cache
def _compiled(source: Path, defines: tuple, include_dirs: tuple):
    return compile_program(source, dict(defines), include_dirs)
