"""Small experiments for histories: every system, in all its options.

Two jobs share a switch, or a network of them, with an aggregator for every few fragments and short
timers, so that within some hundred packets everything happens that can.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from testbed.setup import Setup
from testbed.systems import PRIORITIES
from testbed.systems import SYSTEMS as KNOWN
from tests.support import topologies
from tests.support.fabric import MS
from tests.support.histories.history import History, Network
from tests.support.paths import DATA
from tests.support.switches import start_switches

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
value_bits: %(bits)d
jobs:
  - {model: %(model)s, workers: 3, iterations: 3%(first)s}
  - {model: %(model)s, workers: 3, iterations: 3, start: 30 us%(second)s}
"""
# Where there are several switches, both jobs span them.
SPREAD = {
    "first": ", placement: {workers: [h1, h2, h4]%s}",
    "second": ", placement: {workers: [h3, h5, h6]%s}",
}

# Options of each system that a case draws from; a first value is the default here.
POOL = {
    "window": (6, 1, 40),
    "window_rule": ("in_flight", "positions"),
    "reminder": ("true", "false"),
    "reminder_delay": ("300 us", "2 ms"),
    "timeout": ("2 ms", "10 ms"),
    "max_age": ("none", "3 ms"),
}
ATP = {
    **POOL,
    "window_rule": ("positions", "in_flight"),
    "index": ("hash", "consecutive"),
    "rehash": ("true", "false"),
    "gap": (3, 0, 1),
    "fixed_point_scale": (1_000_000, 1_000_000_000),
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
        **ATP,
        "release": ("on_result", "on_completion", DELIVERED),
    },
    "a2tp": ATP,
    "grid": {
        **POOL,
        "planner": ("grid-links", "nearest", "none", "two-level"),
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
        **HOSTS,
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


def text_of(
    system: str,
    network: str = "star",
    aggregators: int = 4,
    model: object = TINY,
    bits: int = 32,
    **options: object,
) -> str:
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
        "model": model,
        "bits": bits,
        **places,
    }


@st.composite
def texts(
    draw: st.DrawFn, system: str, recording: Path | None = None, lossless: bool = False
) -> str:
    """A case of a system: where it has a choice, with values of a recording, few of which are not
    0, and in short packets. `lossless`: with options with which no timer helps."""
    network = draw(st.sampled_from(list(NETWORKS))) if system in IN_NETWORK else "star"
    options = draw(chosen(OPTIONS[system]))
    if lossless:
        options |= patient(system)
        options |= {"sets": draw(st.sampled_from((2, 1)))} if system == "switchml" else {}
    options["zeros"] = draw(st.sampled_from(("sent", "header_only")))
    model = str(TINY)
    if recording is not None and draw(st.booleans()):
        model = f"{recording}, scale: 0.3, compute_scale: 0"
    bits = 32 if KNOWN[system].algorithm else draw(st.sampled_from((32, 16, 8)))
    if bits == 8:
        options["sum"], bits = "int8", 32
    aggregators = draw(st.sampled_from(AGGREGATORS))
    return text_of(system, network, aggregators, model, bits, **options)


def chosen(values: dict[str, tuple]) -> st.SearchStrategy[dict[str, Any]]:
    """A value of some keys, and the others' first."""
    return st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in values.items()})


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


def network_of(setup: Setup, history: History) -> Network:
    """An experiment with a history, which has not been played."""
    return Network(setup, start_switches(setup), history)
