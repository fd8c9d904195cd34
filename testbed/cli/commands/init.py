"""`ina init`: a first experiment file with comments, from options or a few questions."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from p4fabric.base.errors import UserError, did_you_mean, sentence

from testbed.cli.shared import Parser, import_schemas
from testbed.paths import command_line

MODELS = ("resnet50", "vgg16", "alexnet")  # of the jobs, in turn  # of the jobs, in turn
QUESTIONS = {
    "system": ("Which system aggregates the gradients", "esa"),
    "runtime": ("Virtual time (virtual), or processes and root (mininet)", "virtual"),
    "jobs": ("How many training jobs", "2"),
    "workers": ("How many workers has each", "4"),
}  # fmt: skip  # fmt: skip

TEMPLATE = """\
# {name}: {jobs} of {workers} workers on one switch.
#   {check}  finds mistakes
#   {run}  runs it
# Every key: docs/experiment.md. Quantities carry their unit.

runtime: {runtime}   # virtual: in virtual time, without root; mininet: real processes

topology: {{kind: star, hosts: {hosts}}}   # one switch; others: two_level, leaf_spine, ...
links:
  bandwidth: {bandwidth}
  delay: 5 us

system: {system}   # {others}
{memory}
jobs:   # the training jobs, which share the network
{listed}
# Remove the # of what follows to run it for several values, with five seeds each:
# repetitions: 5
# sweep:
#   {varied}
"""


def arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="the file to write")
    parser.add_argument("--system", metavar="NAME", help="default: esa")
    parser.add_argument("--runtime", metavar="HOW", help="virtual (default) or mininet")
    parser.add_argument("--jobs", metavar="N", help="default: 2")
    parser.add_argument("--workers", metavar="N", help="of each job; default: 4")


def call(options: Namespace) -> int:
    """Write the file. On a terminal, ask for answers that no option gives."""
    import_schemas()
    from p4fabric.base.linux.whole_files import write_whole, writing

    from testbed.experiment import load_text

    path = options.file
    if path.suffix not in (".yaml", ".yml"):
        raise UserError(f"{path}: name a file that ends in .yaml")
    if path.exists():
        raise UserError(f"{path}: it is there already; name another file")
    answers = {key: _answer(key, getattr(options, key)) for key in QUESTIONS}
    text = file_text(path, answers)
    load_text(text, str(path), path.absolute().parent, path.stem)
    with writing(path):
        write_whole(path, text)
    run = command_line(str(path), root=answers["runtime"] == "mininet")
    print(f"wrote {path}; `{run}` runs it")
    return 0


def _answer(key: str, given: str | None) -> str:
    question, default = QUESTIONS[key]
    if given is None and sys.stdin.isatty():
        given = input(f"{question}? [{default}] ").strip() or None
    return default if given is None else given


def file_text(path: Path, answers: dict[str, str]) -> str:
    """The file for these answers. Raises UserError for one that cannot be."""
    from testbed import systems

    name = answers["system"]
    if name not in systems.SYSTEMS:
        allowed = f"systems are: {', '.join(systems.SYSTEMS)}"
        raise UserError(
            sentence(f"there is no system {name!r}", did_you_mean(name, systems.SYSTEMS), allowed)
        )
    if answers["runtime"] not in ("virtual", "mininet"):
        raise UserError(f"runtime: found {answers['runtime']!r}; allowed: virtual, mininet")
    jobs, workers = (
        _number(key, answers[key], most) for key, most in (("jobs", 64), ("workers", 64))
    )
    system = systems.SYSTEMS[name]
    virtual = answers["runtime"] == "virtual"
    shapes = [
        f"  - {{name: job{number}, model: {MODELS[number % len(MODELS)]}, workers: {workers},"
        f" iterations: 3, scale: {'0.01' if virtual else '0.002'}}}"
        for number in range(jobs)
    ]
    memory = "memory: {aggregators: 128}   # of each switch\n" if system.memory else ""
    others = ", ".join(other for other in systems.SYSTEMS if other != name)
    check, run = command_line(f"check {path}"), command_line(str(path), root=not virtual)
    width = max(len(check), len(run))
    varied = "memory.aggregators: [32, 64, 128]" if memory else "links.loss: [0 %, 0.1 %]"
    return TEMPLATE.format(
        name=path.stem,
        jobs=f"{jobs} training job{'s' if jobs > 1 else ''}",
        workers=workers,
        check=check.ljust(width),
        run=run.ljust(width),
        runtime=answers["runtime"],
        hosts=max(jobs * (workers + 1), 2),
        bandwidth="10 Gbit/s" if virtual else "10 Mbit/s",
        system=name,
        others=f"others: {others}",
        memory=memory,
        listed="\n".join(shapes) + "\n",
        varied=varied,
    )


def _number(key: str, text: str, most: int) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise UserError(f"{key}: found {text!r}; allowed: a whole number from 1 to {most}")
    return int(text)
