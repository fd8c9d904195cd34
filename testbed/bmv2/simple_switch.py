"""The start of `simple_switch`.

Every switch of a run lives in a network namespace of its own, so all of them listen on the same
Thrift port without meeting each other, another user's switches, or anybody on the network: nothing
outside the namespace reaches it. One thing of simple_switch is not confined by that, the socket
file of its notifications, which goes into the run's own folder.

It writes no log: with one, it would spend most of its time on it.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Mapping
from pathlib import Path

from p4engine.cli.shims_command import find_real
from p4fabric.base.errors import RunError

SIMPLE_SWITCH = "simple_switch"
ANSWER_TIMEOUT_S = 30  # a tool on a busy machine needs a second; one that is stopped never answers
THRIFT_PORT = 9090


def command(
    json: Path,
    interfaces: Mapping[int, str],
    *,
    notifications: Path,
    thrift_port: int = THRIFT_PORT,
    more: tuple[str, ...] = (),
) -> list[str]:
    """The command line.

    Args:
        json: the program, as p4c makes it.
        interfaces: name by port; with the option --use-files among `more`, the start of file names.
        notifications: where a build with nanomsg may make its socket file.
    """
    words = [
        find_real(SIMPLE_SWITCH) or SIMPLE_SWITCH,
        "--thrift-port",
        str(thrift_port),
        "--log-level",
        "off",
        *more,
    ]
    if has_option("--notifications-addr"):
        words += ["--notifications-addr", f"ipc://{notifications}"]
    for port, name in sorted(interfaces.items()):
        words += ["-i", f"{port}@{name}"]
    return [*words, str(json)]


def version(tool: str) -> str | None:
    """The last line of a tool's output about its version; None where the tool is missing."""
    try:
        done = _asked(tool, "--version")
    except (OSError, RunError):
        return None
    said = done.stdout if done.stdout.strip() else done.stderr  # p4c's goes to standard error
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines and done.returncode == 0 else None


@functools.cache
def has_option(option: str) -> bool:
    """True if this build of simple_switch has an option; some depend on how it was built. Raises
    RunError if it does not tell."""
    done = _asked(find_real(SIMPLE_SWITCH) or SIMPLE_SWITCH, "--help")
    if done.returncode < 0:
        raise RunError(f"{SIMPLE_SWITCH} --help was ended by signal {-done.returncode}")
    return option in done.stdout


def _asked(tool: str, question: str) -> subprocess.CompletedProcess[str]:
    """Ask a tool for its answer. Raises OSError, or RunError if it does not answer."""
    try:
        return subprocess.run(
            [tool, question],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"{tool} {question} did not end within {ANSWER_TIMEOUT_S} s") from None
