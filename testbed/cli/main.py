"""The command line: its commands, messages of errors, exit codes.

A command's module in testbed/cli/commands is imported when it is called. So `ina --help` comes at
once. docs/commands.md has the exit codes.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import textwrap
from argparse import Namespace
from collections.abc import Callable

from p4fabric.base.command_line import (
    Parser,
    exit_code,
    logged,
    run_process,
    verbose_option,
    width,
)
from p4fabric.base.errors import UserError, did_you_mean, sentence

from testbed.cli.shared import find_latest
from testbed.paths import DISTRIBUTIONS, program_name

LOGGERS = ("testbed", "p4fabric", "p4engine")
GROUPS = {
    "run": {
        "run": "run an experiment, a sweep or a network file (`run` may be left out)",
        "sweep": "run all points of a file with the key `sweep`",
        "demo": "run three systems on the same jobs, in virtual time",
        "init": "write a first experiment file, with comments",
        "check": "check an experiment and its P4 program, without a run",
        "perf": "measure a collective over its size, for systems and algorithms, as nccl-tests do",
        "figure": "run and draw a figure of docs/figures.md; without a name: list them",
        "record": "run an experiment, and record the gradients or the collectives of its program",
    },
    "look": {
        "ls": "list the runs and sweeps in a folder of results",
        "open": "open a run's, a sweep's or a comparison's page in a browser",
        "report": "print tables and draw figures again; compare runs",
        "show": "print an experiment with all defaults; --figure: draw its network",
        "trace": "print every hop of a fragment's packets, and where its result waited",
        "workload": "print what the ranks of a job compute and exchange, and its least times",
        "plan": "plan which switch aggregates whose gradient",
        "recording": "print tensors, times and numbers, or groups and calls, of a recording",
    },
    "compare": {
        "diff": "print in what two runs differ: their files, what made them, and their numbers",
        "twin": "run a Mininet run's experiment in virtual time, and compare",
        "verify": "run the content of a packed file again, and compare",
        "reproduce": "run a published figure again, and say whether its numbers come out",
    },
    "files": {
        "import": "turn a file of another tool into a network file, an experiment or traces",
        "pack": "make one file of a run, a sweep or a figure",
        "tag": "give runs or sweeps a tag, by which `ls` finds them",
        "rm": "remove runs and sweeps from a folder of results",
        "schema": "print or write JSON schemas of experiment and network files, for editors",
        "completion": "print a script with which a shell completes commands and options",
    },
    "machine": {
        "ps": "list the runs in progress, with their hosts and switches",
        "exec": "run a command in a host or switch of a run in progress",
        "logs": "print the output of a host or switch of a run in progress",
        "switch": "read or change a switch of a run in progress",
        "doctor": "list what this machine has and lacks, and which runtimes work",
        "clean": "remove what killed runs left on this machine",
    },
}
"""The commands by what they are for, each with its line in the help."""
COMMANDS = {word: text for group in GROUPS.values() for word, text in group.items()}
EXAMPLES = {
    "run": ("experiments/quickstart.yaml", "experiments/quickstart.yaml system=atp links.loss=1%"),
    "sweep": ("experiments/best.yaml", "experiments/best.yaml --robust"),
    "init": ("mine.yaml --system atp --workers 8",),
    "check": ("experiments/quickstart.yaml",),
    "perf": ("all_reduce --ranks 8 --sizes 1K:64M:2 --system esa,ring --figure perf.pdf",),
    "figure": ("memory", "memory --quick"),
    "record": ("experiments/train_digits.yaml -o recordings/digits",),
    "ls": ("results --last 5",),
    "open": ("latest",),
    "report": ("results/RUN results/ANOTHER",),
    "show": ("experiments/quickstart.yaml", "latest --figure network.pdf"),
    "trace": ("latest --slowest 1 --figure lanes.pdf",),
    "workload": ("experiments/llama.yaml --figure rank.pdf",),
    "plan": ("topos/graphs/grid-example.txt --planner none,nearest --figure out.png",),
    "recording": ("recordings/run",),
    "diff": ("experiments/quickstart.yaml latest",),
    "twin": ("latest",),
    "verify": ("NAME.ina.zip", "--laws results/RUN"),
    "reproduce": ("--kick-the-tires", "headline memory"),
    "import": ("pod.txt -o pod.yaml", "topology.json --virtual", "workload.txt -o traces.et"),
    "pack": ("latest",),
    "tag": ("baseline latest",),
    "rm": ("results/RUN",),
    "schema": ("-o experiments/schema",),
    "completion": ("bash",),
    "exec": ("h3 -- tcpdump -i eth0 -c 10",),
    "logs": ("h3 -f",),
    "switch": ("s1 tables", "s1 register slot_job 3"),
}
"""What may follow a command, for its help."""
GONE = {
    "calibrate": "a run's fidelity mark says whether the machine was fast enough"
    " (docs/fidelity.md), and `runtime: virtual` needs no time of the machine",
}
"""Commands of earlier versions, each with what to use instead."""


SHARED = {
    **dict.fromkeys(("ps", "exec", "logs"), "live"),
    **dict.fromkeys(("doctor", "clean", "completion", "schema"), "machine"),
    **dict.fromkeys(("ls", "tag", "rm"), "listing"),
    **dict.fromkeys(("pack", "verify"), "artifact"),
    **dict.fromkeys(("sweep", "demo"), "sweep"),
    **dict.fromkeys(("report", "figure", "open"), "reports"),
    **dict.fromkeys(("record", "recording"), "recordings"),
}
"""Modules of several commands."""


def find(word: str) -> tuple[Callable[[Parser], None], Callable[[Namespace], int]]:
    """The functions of a command: `arguments` and `call` (commands/__init__.py)."""
    name = "import_" if word == "import" else word  # a word of Python
    module = importlib.import_module(f"testbed.cli.commands.{SHARED.get(word, name)}")
    if word in SHARED:
        return getattr(module, f"{word}_arguments"), getattr(module, word)
    return module.arguments, module.call


def parser_of(*commands: str) -> Parser:
    """The parser of the command line, with the arguments of these commands."""
    name = program_name()
    parser = Parser(
        prog=name,
        usage=f"{name} FILE.yaml\n       {name} COMMAND ARGUMENTS...",
        epilog=f"{_listed()}\n\n{name} COMMAND --help: the arguments of a command, and examples",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="store_true", help="print the version and the plug-ins found"
    )
    parsers = parser.add_subparsers(dest="command", help=argparse.SUPPRESS, prog=name)
    for word, text in COMMANDS.items():
        shown = "\n".join(f"  {name} {word} {example}" for example in EXAMPLES.get(word, ()))
        one = parsers.add_parser(
            word,
            help=text,
            description=textwrap.fill(text, width()),
            epilog=f"examples:\n{shown}" if shown else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if word in commands:
            verbose_option(one)
            find(word)[0](one)
            one.set_defaults(parser=one)
    return parser


def _listed() -> str:
    """The commands, by group."""
    column = max(map(len, COMMANDS)) + 4
    lines = []
    for title, group in GROUPS.items():
        lines.append(f"{title}:")
        for word, text in group.items():
            filled = textwrap.wrap(text, width() - column)
            lines += [
                f"  {word:{column - 2}}{filled[0]}",
                *(" " * column + each for each in filled[1:]),
            ]
    return "\n".join(lines)


def with_command(arguments: list[str]) -> list[str]:
    """The arguments with the command `run` where it was left out. Raises UserError."""
    first = arguments[0]
    if first in COMMANDS or first.startswith("-"):
        return arguments
    if first.endswith((".yaml", ".yml")) or os.path.exists(first):
        return ["run", *arguments]
    if first in GONE:
        raise UserError(f"the command `{first}` is gone: {GONE[first]}")
    hint = did_you_mean(first, COMMANDS) or f"commands are: {', '.join(COMMANDS)}"
    raise UserError(sentence(f"there is no command or file `{first}`", hint))


def version() -> str:
    """Output of `--version`."""
    from importlib import metadata

    from testbed import plugins

    def of(name: str) -> str:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:  # imported from a checkout
            return "not installed"

    lines = [f"{name} {of(name)}" for name in DISTRIBUTIONS]
    return "\n".join([*lines, *(f"  {line}" for line in plugins.listing())])


def main(arguments: list[str]) -> int:
    """Run one command line; returns the exit code. Prints errors to stderr."""
    return exit_code(_run, arguments)


def _run(arguments: list[str]) -> int:
    if not arguments:
        parser_of().print_help(sys.stderr)
        return 2
    if arguments[0] == "help":
        arguments = ["--help"]
    arguments = with_command(arguments)
    parser = parser_of(arguments[0])
    try:
        options, unknown = parser.parse_known_args(arguments)
        if hasattr(options, "changes"):  # after an option, argparse does not know them
            given = [*options.changes, *unknown]
            options.changes = [each for each in given if each[0] != "-" and "=" in each]
            unknown = [each for each in given if each not in options.changes]
        if unknown:  # argparse would show the usage of all commands
            getattr(options, "parser", parser).refuse(unknown)
    except SystemExit as done:  # --help
        return int(done.code or 0)
    if options.version:
        print(version())
        return 0
    if hasattr(options, "of_results"):
        find_latest(options)
    with logged(options.verbose, LOGGERS, options.quiet):
        return find(options.command)[1](options)


def entry() -> None:
    """The command `ina`, as a process."""
    run_process(main)
