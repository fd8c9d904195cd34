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


def require_machine() -> None:
    """What a run on a Mininet network needs. Raises UserError that names all that is missing."""
    require_root("a run")
    missing = []
    if importlib.util.find_spec("mininet") is None or not shutil.which("mnexec"):
        missing.append(f"Mininet is missing: {SET_UP}")
    if not (shutil.which("cc") or shutil.which("gcc")):
        missing.append(
            f"there is no C compiler (cc), which P4 programs are compiled with: {SET_UP}"
        )
    if not shutil.which("ip"):
        missing.append(f"the command `ip` (iproute2) is missing: {SET_UP}")
    if missing:
        raise UserError("\n".join(missing))
