"""Whether this machine can do a run, looked at before anything is built; lacks have remedies."""

from __future__ import annotations

import importlib.util
import os
import shutil

from testbed.errors import UserError

SET_UP = "run `sudo ./demo`, which installs it"


def require_root(what: str) -> None:
    """Namespaces and links are root's business."""
    if os.geteuid() != 0:
        raise UserError(f"{what} needs root: start it with sudo")


def _lacks_of_mininet() -> list[str]:
    if importlib.util.find_spec("mininet") is None or not shutil.which("mnexec"):
        return [f"Mininet is missing: {SET_UP}"]
    return []


def require_mininet() -> None:
    """Mininet's package and helper program, before anything imports it. Raises UserError."""
    for lack in _lacks_of_mininet():
        raise UserError(lack)


def require_machine() -> None:
    """What a run on a Mininet network needs. Raises UserError that names all that is missing."""
    require_root("a run")
    missing = _lacks_of_mininet()
    if not (shutil.which("cc") or shutil.which("gcc")):
        missing.append(
            f"there is no C compiler (cc), which P4 programs are compiled with: {SET_UP}"
        )
    for command, package in (("ip", "iproute2"), ("ifconfig", "net-tools")):
        if not shutil.which(command):
            missing.append(f"the command `{command}` ({package}) is missing: {SET_UP}")
    if missing:
        raise UserError("\n".join(missing))
