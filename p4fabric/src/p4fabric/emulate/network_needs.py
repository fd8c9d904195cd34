"""The needs of a network on this machine: root with its rights, Mininet, and a few commands.

It is checked before anything is built. Errors have remedies.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from p4engine.backend.c_build import find_c_compiler

from p4fabric.base.errors import UserError

INSTALL = "install it"
SEES_IT = "install into an environment that `/usr/bin/python3 -m venv --system-site-packages` makes"
# Root's rights that networks need, with their numbers in the kernel.
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21}


def require_root(what: str) -> None:
    """Namespaces and links are root's business."""
    if os.geteuid() != 0:
        raise UserError(f"{what} needs root: start it with sudo")


def lost_capabilities() -> list[str]:
    """Those of CAPABILITIES that this process does not have."""
    lines = Path("/proc/self/status").read_text().splitlines()
    held = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    return [name for name, number in CAPABILITIES.items() if not held >> number & 1]


def require_network(remedy: str = INSTALL) -> None:
    """Check the needs of a run on a Mininet network. remedy: for what is not installed. Raises
    UserError that names all that is missing."""
    require_root("a run")
    missing = []
    if lost := lost_capabilities():
        missing.append(
            f"root lacks capabilities here that a run needs: {', '.join(lost)}; start the container"
            " with --privileged, or root without this limit"
        )
    if not shutil.which("mnexec"):
        missing.append(f"Mininet is missing: {remedy}")
    elif importlib.util.find_spec("mininet") is None:
        missing.append(f"{sys.executable} does not see Mininet, which is installed: {SEES_IT}")
    if not find_c_compiler():
        missing.append(
            f"there is no C compiler (cc), which P4 programs are compiled with: {remedy}"
        )
    for command, package in (("ip", "iproute2"), ("ifconfig", "net-tools")):
        if not shutil.which(command):
            missing.append(f"the command `{command}` ({package}) is missing: {remedy}")
    if missing:
        raise UserError("\n".join(missing))
