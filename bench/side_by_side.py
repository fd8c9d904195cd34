"""This checkout against an older one, in one run: rates, and the ratios within rounds.

    git worktree add /tmp/old COMMIT            (and an environment in it: /tmp/old/.venv)
    sudo .venv/bin/python -m bench side_by_side /tmp/old [--rounds N] [--only switch,end_to_end]
                                                [--systems esa,atp,switchml] [--offload off]

A shared machine's speed changes from minute to minute, so each round runs the same program of
bench/ in both checkouts, one right after the other, by turns first. What counts is the median of
the ratios within rounds. Each checkout runs its own programs with its own environment.

- switch: switch_alone.py, packets one by one and in trains
- end_to_end: end_to_end.yaml with eight workers, every value checked
- virtual: virtual.py
- commands: whole commands in processor time, from their start to their end: a run of ResNet-50 at
  full size in virtual time (at `--scale`, if that is given), with and without a report, and the
  check of a sweep of 100 points. The rate is how many 1000 s of processor time are enough for
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.harness import ROOT

Rates = dict[str, float]  # packets/s, or see `commands`, by what was measured
SCALE = 0.3
# What of this checkout is held against what of an older one that has not the same.
AGAINST = {
    "esa.p4 in trains": "esa.p4",
    "l2.p4 in trains": "bare forwarder",
}


def is_new(checkout: Path) -> bool:
    """True if `python -m bench` runs its programs, and end_to_end is a sweep."""
    return (checkout / "bench" / "__main__.py").exists()


def call(checkout: Path, program: str, *arguments: str) -> str:
    """Run a program of a checkout's bench/; returns its output."""
    words = ["-m", "bench", program] if is_new(checkout) else [f"bench/{program}.py"]
    command = [str(checkout / ".venv/bin/python"), *words, *arguments]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{program} of {checkout} failed:\n{done.stdout}{done.stderr}"[-2000:])
    return done.stdout


def switch(checkout: Path, options: argparse.Namespace) -> Rates:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        seconds = str(options.seconds)
        call(checkout, "switch_alone", "--rounds", "1", "--seconds", seconds, "--save", file.name)
        rounds = json.load(file)
    names = {
        "esa": "esa.p4",
        "l2": "l2.p4",
        "esa_trains": "esa.p4 in trains",
        "l2_trains": "l2.p4 in trains",
        "forwarder": "bare forwarder",
    }
    return {
        title: rounds[name][0]["packets_per_s"] for name, title in names.items() if name in rounds
    }


def of_64_values(checkout: Path, program: str) -> list[str]:
    """The arguments for packets of 64 values, which older checkouts have anyway."""
    text = (checkout / "bench" / f"{program}.py").read_text()
    return ["--values", "64"] if '"--values"' in text else []


def end_to_end(checkout: Path, options: argparse.Namespace) -> Rates:
    rates = {}
    for system in options.systems.split(","):
        scale = options.scale or SCALE
        arguments = ["--systems", system, "--rounds", "1", "--scale", str(scale)]
        if is_new(checkout):
            arguments = [f"system={system}", "values_per_packet=64", f"jobs[*].scale={scale}"]
            arguments += [f"offload={options.offload}"] if options.offload else []
            arguments += ["--rounds", "1"]
        else:
            arguments += of_64_values(checkout, "end_to_end")
        output = call(checkout, "end_to_end", *arguments)
        row = rf"^{system}\s+(?:64\s+)?([\d,]+)\s+[\d.\s]+?([a-z]+)"
        match = re.search(row, output, re.MULTILINE)
        if match is None:
            raise SystemExit(f"no rate in what end_to_end of {checkout} says:\n{output}")
        rates[f"{system} end to end"] = float(match[1].replace(",", ""))
        print(f"  {checkout}: {system} {match[1]} packets/s, {match[2]}", flush=True)
    return rates


def virtual(checkout: Path, options: argparse.Namespace) -> Rates:
    scale = str(options.scale or SCALE)
    values = of_64_values(checkout, "virtual")
    output = call(checkout, "virtual", "--hosts", options.hosts, "--scale", scale, *values)
    found = re.findall(r"^ *(\d+) hosts(?:, +64 values)?: +(\d+) thousand", output, re.MULTILINE)
    return {f"virtual, {hosts} hosts": float(rate) * 1e3 for hosts, rate in found}


SWEEP = """
name: commands
runtime: virtual
topology: {kind: star, hosts: 9}
links: {bandwidth: 100 Gbit/s, delay: 1 us}
system: {name: esa}
memory: {aggregators: 1024}
jobs:
  - {model: resnet50, workers: 8, iterations: 1}
sweep:
  links.delay: [1 us, 2 us, 3 us, 4 us, 5 us, 6 us, 7 us, 8 us, 9 us, 10 us]
  seed: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
"""


def commands(checkout: Path, options: argparse.Namespace) -> Rates:
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        sweep, run = Path(folder) / "sweep.yaml", Path(folder) / "run.yaml"
        sweep.write_text(SWEEP)
        results = ["--results", folder]
        for values in (64, 256):
            scaled = "" if options.scale is None else f", scale: {options.scale}"
            text = SWEEP.partition("sweep:")[0].replace("iterations: 1", f"iterations: 1{scaled}")
            run.write_text(text + f"values_per_packet: {values}\n")
            plain = processor_s(checkout, str(run), "--no-report", *results)
            rates[f"run, {values} values"] = 1000 / plain
        rates["run with a report"] = 1000 / processor_s(checkout, str(run), *results)
        rates["check of 100 points"] = 1000 / processor_s(checkout, "check", str(sweep))
    return rates


def processor_s(checkout: Path, *arguments: str) -> float:
    """The processor time of a command of a checkout, with that of its child processes."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # without the cache it compiles its modules
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(checkout / ".venv/bin/python"), str(checkout / "run.py"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} in {checkout} failed:\n{done.stderr}"[-2000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


PARTS: dict[str, Callable[[Path, argparse.Namespace], Rates]] = {
    "switch": switch,
    "end_to_end": end_to_end,
    "virtual": virtual,
    "commands": commands,
}


def report(old: list[Rates], new: list[Rates]) -> None:
    """Print a row for each measured name of the new checkout."""
    for name in new[0]:
        other = name if name in old[0] else AGAINST.get(name, name)
        if other not in old[0]:
            continue
        ratios = [mine[name] / theirs[other] for mine, theirs in zip(new, old, strict=True)]
        against = "" if other == name else f"  (old: {other})"
        print(
            f"{name:22}{statistics.median(rates[other] for rates in old):>12,.0f}"
            f"{statistics.median(rates[name] for rates in new):>12,.0f}"
            f"{statistics.median(ratios):>8.2f}  ({min(ratios):.2f} to {max(ratios):.2f}){against}",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="the older one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(PARTS), help="some of: %(default)s")
    parser.add_argument("--systems", default="esa,atp,switchml", help="for end_to_end")
    parser.add_argument("--offload", choices=("on", "off"), help="of this checkout, in end_to_end")
    parser.add_argument("--hosts", default="9,72,512", help="for virtual")
    parser.add_argument(
        "--scale", type=float, help=f"of end_to_end and virtual ({SCALE}) and of commands (1)"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round of switch")
    options = parser.parse_args()
    if not (options.checkout / ".venv/bin/python").exists():
        parser.error(f"{options.checkout}: there is no environment .venv in it")
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"--only {', '.join(sorted(unknown))}: take some of {', '.join(PARTS)}")
    print(f"{'rates, medians':22}{'old':>12}{'new':>12}{'ratio':>8}  (smallest, largest)")
    for part in chosen:
        old: list[Rates] = []
        new: list[Rates] = []
        for number in range(options.rounds):
            turns = [(old, options.checkout.resolve()), (new, ROOT)]
            for rates, checkout in turns if number % 2 == 0 else reversed(turns):
                rates.append(PARTS[part](checkout, options))
        report(old, new)
    return 0
