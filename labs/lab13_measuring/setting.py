"""The setting of lab 13: what all measurements of a student have in common.

It follows from the student's name. So everybody has other numbers, and nobody can use those of
somebody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labs.grader.seeds import Stream

SYSTEMS = ("esa", "atp", "switchml")
BASELINE = "esa"
AGGREGATORS = (16, 64, 512)  # the same for all, since each size is a program to compile
MODELS = ("vgg16", "resnet50")
MIN_REPETITIONS, MOST_REPETITIONS = 5, 10


@dataclass(frozen=True)
class Setting:
    """A student's setting.

    Args:
        rate_mbps: of every link.
        workers: of each job.
        scales: of the jobs' models.
        computes: factors on the jobs' compute times.
        puzzle: numbers of the puzzle: workers, evicted, collided.
        aggregators: the sizes of the switch's memory.
    """

    rate_mbps: int
    workers: int
    scales: tuple[float, ...]
    computes: tuple[float, ...]
    puzzle: tuple[int, int, int]
    aggregators: tuple[int, ...] = AGGREGATORS

    def base(self) -> str:
        """The lines that every experiment file of this student has."""
        jobs = [
            f"  - {{name: {model}, model: {model}, workers: {self.workers}, iterations: 2,"
            f" scale: {scale:.6f}, compute_scale: {compute:.6f},\n"
            "     compute_jitter: 10 %, speed_spread: 10 %}\n"
            for model, scale, compute in zip(MODELS, self.scales, self.computes, strict=True)
        ]
        hosts = len(MODELS) * (self.workers + 1)
        return (
            f"topology: {{kind: star, hosts: {hosts}}}\n"
            f"links: {{bandwidth: {self.rate_mbps} Mbit/s, delay: 1 us}}\n"
            "jobs:\n" + "".join(jobs)
        )

    def text(self) -> str:
        """setting.yaml."""
        workers, evicted, collided = self.puzzle
        return (
            "# Your setting. These lines are the same in your experiment file:\n\n"
            f"{self.base()}\n"
            "# What you compare:\n\n"
            f"systems: [{', '.join(SYSTEMS)}]\n"
            f"aggregators: [{', '.join(map(str, self.aggregators))}]\n\n"
            "# The puzzle's numbers:\n\n"
            f"puzzle: {{workers: {workers}, evicted: {evicted}, collided: {collided}}}\n"
        )

    def experiment(
        self, seed: int, repetitions: int, sizes: tuple[int, ...], systems: tuple[str, ...]
    ) -> str:
        """An experiment file that compares systems at some sizes of the memory."""
        return (
            f"name: setting\nruntime: virtual\nseed: {seed}\nrepetitions: {repetitions}\n"
            f"{self.base()}"
            f"system: {BASELINE}\nmemory: {{aggregators: {sizes[0]}}}\n"
            f"sweep:\n  system: [{', '.join(systems)}]\n"
            f"  memory.aggregators: [{', '.join(map(str, sizes))}]\n"
        )

    def as_data(self) -> dict[str, Any]:
        """Its data for the driver."""
        sizes = self.aggregators
        return {
            "text": self.experiment(1, 1, sizes, SYSTEMS),
            "systems": list(SYSTEMS),
            "aggregators": list(sizes),
            "most_repetitions": MOST_REPETITIONS,
        }


def draw(student: str) -> Setting:
    """The setting of a student."""
    random = Stream(f"lab13_measuring/setting/{student}")
    workers = random.randrange(3, 5)
    total = random.randrange(4, 8)
    evicted = random.randrange(1, total - 1)
    collided = random.randrange(1, total - evicted + 1)
    return Setting(
        rate_mbps=100 * random.randrange(80, 121),
        workers=workers,
        scales=(random.randrange(200, 301) / 10**6, random.randrange(500, 801) / 10**6),
        computes=(random.randrange(50, 101) / 10**6, random.randrange(700, 1201) / 10**6),
        puzzle=(total, evicted, collided),
    )


def files(student: str) -> dict[str, str]:
    """The files that a student gets."""
    return {"setting.yaml": draw(student).text()}
