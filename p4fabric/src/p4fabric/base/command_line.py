"""The parts that command lines share: the parser, the log of `-v`, messages of errors, exit codes.

A command ends with 0, with 1 where a run has failed, and with 2 where the user can put something
right (errors.py); a signal has a code of its own (interrupts.py). It imports little, so that help
and errors of usage come at once.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from p4engine.process_end import exit_with

from p4fabric.base import interrupts
from p4fabric.base.errors import (
    RunError,
    UserError,
    did_you_mean,
    legible,
    require_utf8,
    sentence,
    shortage,
)

# New objects after which Python looks for cycles of old ones. With its own 700, a seventh of a
# short run's time goes into looking through modules that were just imported.
GARBAGE_AFTER = 100_000


class Parser(argparse.ArgumentParser):
    """argparse whose mistakes are UserErrors of one line, which names the nearest option or
    value."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {' '.join(self.format_usage().split())}")

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Raises UserError for arguments that the command does not take."""
        options = [word for action in self._actions for word in action.option_strings]
        given = [word for word in unknown if word[:1] == "-"]
        hints = [did_you_mean(word.partition("=")[0], options) for word in given]
        hint = next(filter(None, hints), "")
        self.error(sentence(f"unrecognized arguments: {' '.join(given or unknown)}", hint))

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(each) for each in action.choices]
            hint = did_you_mean(value, known) or f"allowed: {', '.join(filter(None, known))}"
            raise argparse.ArgumentError(action, sentence(f"found {value!r}", hint))


def width() -> int:
    """Columns of a help text, as argparse fills its own."""
    return shutil.get_terminal_size().columns - 2


def verbose_option(parser: Parser) -> None:
    """Add -v and -q, of which only one can be given."""
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="log on standard error what is done, and how long it took; -vv: in detail",
    )
    chosen.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="show no progress; results, warnings and errors remain",
    )


def run_options(parser: Parser, prompt: str, pcap: str) -> None:
    """Add what a run on Mininet and one in virtual time have in common. prompt, pcap: the help."""
    parser.add_argument(
        "--cli",
        nargs="?",
        const="",
        choices=["before", "after", ""],
        metavar="before|after",
        help=prompt,
    )
    parser.add_argument(
        "--pcap",
        action="append",
        default=[],
        metavar="SWITCH:PORT",
        help=f"{pcap}; can be repeated",
    )


@contextlib.contextmanager
def logged(verbose: int, names: Sequence[str], quiet: bool = False) -> Iterator[None]:
    """A block whose log is on standard error: 0: no log; 1: steps; 2: all that is logged. names: of
    the loggers. quiet: it shows no progress."""
    if quiet:
        from p4fabric.base.steps import silent  # what it imports takes long

        with silent():
            yield
        return
    if not verbose:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(relativeCreated)8.0f ms  %(name)s: %(message)s"))
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
            logger.removeHandler(handler)


def exit_code(command: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run one command line; returns the exit code. Prints errors to stderr."""
    interrupts.install()
    gc.set_threshold(GARBAGE_AFTER)
    try:
        for argument in arguments:
            require_utf8(argument, "argument")
        return command(arguments)
    except UserError as error:
        print(f"error: {legible(error)}", file=sys.stderr)
        return 2
    except RunError as error:
        print(describe(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(interrupts.reason(), file=sys.stderr)
        return interrupts.exit_code()
    except BrokenPipeError:
        # `COMMAND | head`: the reader has enough. Python must not complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (MemoryError, OSError, RuntimeError) as error:
        if not (cause := shortage(error)):
            raise
        print(f"failed: {cause}", file=sys.stderr)
        return 1


def run_process(main: Callable[[list[str]], int]) -> NoReturn:
    """A command's whole process."""
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "0") != "0":
        # Root's byte code has no business in a user's checkout.
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # A PATH that sudo has reset may not have the folders of ip and ifconfig.
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    exit_with(lambda: main(sys.argv[1:]))


def describe(error: RunError) -> str:
    """A failed run's message with the end of the log that explains it."""
    text = f"failed: {error}"
    if error.log_tail:
        tail = "\n".join(f"  | {line}" for line in error.log_tail.splitlines())
        text += f"\nthe end of {error.log}:\n{tail}" if error.log else f"\n{tail}"
    return text
