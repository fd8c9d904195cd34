"""Checks of this machine's abilities before anything of a run is built. Errors have remedies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from p4fabric.base.errors import UserError

from testbed.paths import sudo

if TYPE_CHECKING:
    from testbed.experiment import Experiment


def set_up() -> str:
    """The remedy for anything that is not installed."""
    return f"run `{sudo()}./demo`, which installs it"


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
