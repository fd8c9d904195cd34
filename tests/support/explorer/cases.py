"""The networks that are explored: two workers of one job at one switch, for every system."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.paths import DATA

# No link of these has a rate, so nothing waits for its turn to be sent, and the tensors take no
# time to compute, so both fragments are in flight at once.
TEXT = """
name: explored
topology: {kind: star, hosts: 4}
%(planned)s
system: {name: %(system)s%(options)s}
%(memory)s
values_per_packet: 1
jobs:
  - {model: %(model)s, workers: 2, iterations: %(iterations)d}
"""
TWO, ONE = DATA / "two_fragments.csv", DATA / "one_fragment.csv"
TIMEOUT = "timeout: 2 ms"
POOL = f"window: 2, {TIMEOUT}, reminder_delay: 300 us, max_age: none"
PLANNED = """links: {bandwidth: 100 Gbit/s}
switches: {capacity: 100 Gbit/s, burst: 1000 packets}"""


@dataclass(frozen=True)
class Case:
    """An experiment, by what it is about."""

    system: str
    aggregators: int = 0
    iterations: int = 1
    options: str = ""

    @property
    def name(self) -> str:
        parts = [self.system]
        if self.aggregators:
            parts.append(f"{self.aggregators} aggregator" + "s" * (self.aggregators > 1))
        parts.append(f"{self.iterations} x 1" if self.iterations > 1 else "2")
        parts[-1] += " fragments"
        return ", ".join([*parts, *([self.options] if self.options else [])])

    def text(self) -> str:
        options = {"switchml": TIMEOUT, "ps": f"window: 2, {TIMEOUT}"}.get(self.system, POOL)
        if self.system == "ring":
            options = f"window: 2, {TIMEOUT}"
        options += f", {self.options}" if self.options else ""
        has_memory = self.aggregators > 0
        return TEXT % {
            "system": self.system,
            "options": f", {options}",
            "planned": PLANNED if self.system == "grid" else "",
            "memory": f"memory: {{aggregators: {self.aggregators}}}" if has_memory else "",
            "model": TWO if self.iterations == 1 else ONE,
            "iterations": self.iterations,
        }


POOLS = ("esa", "atp", "grid")
CASES = [
    *(Case(system, aggregators) for system in POOLS for aggregators in (1, 2)),
    *(Case(system, 1, iterations=2) for system in POOLS),
    Case("esa", 1, options="release: on_result"),
    Case("atp", 1, options="release: on_completion"),
    *(Case("esa", 1, iterations, "results_from: switch") for iterations in (1, 2)),
    Case("atp", 1, 2, "release: on_completion, results_from: switch"),
    Case("grid", 1, options="memory: atp"),
    Case("switchml", 2),
    Case("switchml", 4),
    Case("switchml", 2, iterations=4),
    Case("ps"),
    Case("ps", iterations=2),
    Case("ring"),
    Case("ring", iterations=2),
]
