"""Checks of this machine's abilities before anything of a run is built. Errors have remedies."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from p4engine.backend.c_build import find_c_compiler
from p4fabric.base.errors import UserError

from testbed.paths import sudo

if TYPE_CHECKING:
    from testbed.experiment import Experiment

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


def require_machine() -> None:
    """Check the needs of a run on a Mininet network. Raises UserError that names all that is
    missing."""
    require_root("a run")
    set_up = f"run `{sudo()}./demo`, which installs it"
    missing = []
    if lost := lost_capabilities():
        missing.append(
            f"root lacks capabilities here that a run needs: {', '.join(lost)}; start the container"
            " with --privileged, or root without this limit"
        )
    if importlib.util.find_spec("mininet") is None or not shutil.which("mnexec"):
        missing.append(f"Mininet is missing: {set_up}")
    if not find_c_compiler():
        missing.append(
            f"there is no C compiler (cc), which P4 programs are compiled with: {set_up}"
        )
    for command, package in (("ip", "iproute2"), ("ifconfig", "net-tools")):
        if not shutil.which(command):
            missing.append(f"the command `{command}` ({package}) is missing: {set_up}")
    if missing:
        raise UserError("\n".join(missing))


def require_bmv2(experiments: Iterable[Experiment]) -> None:
    """Check the further needs of BMv2, and those of these experiments' links on the kernel. Raises
    UserError that names all that is missing."""
    from testbed.bmv2.link_queues import disciplines
    from testbed.machine import doctor

    needed = set().union(*(disciplines(each.directions) for each in experiments))
    lacks = [found for found in doctor.bmv2_tools() if found.state != doctor.OK]
    if needed:
        things = {f"kernel: {name}" for name in needed} | {"command tc"}
        found = [doctor.traffic_control(), *doctor.kernel_features()]
        lacks += [one for one in found if one.thing in things and one.state != doctor.OK]
    if lacks:
        raise UserError(
            "\n".join(
                [
                    "switch: bmv2 cannot work here. What is missing, and the remedy:",
                    *(f"  {one.thing}: {one.detail} -> {one.remedy}" for one in lacks),
                    "`switch: embedded` needs none of it and takes the same experiment.",
                ]
            )
        )
