"""The capacity of this machine: measured once by `ina calibrate`, kept, and used by `check`.

A packet costs processor time in hosts and in switches, and a machine has only so many processors.
So each system runs once, for a second or two, with links of 10 Gbit/s, which are no limit: the rate
that comes out is the most that the machine carries, and the processor time per packet says which
process is the first without any left. capacity.py compares an experiment with that.

What is kept belongs to the user behind sudo, and to this machine: another processor or kernel makes
it void.
"""

from __future__ import annotations

import json
import os
import platform
import pwd
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed.errors import UserError
from testbed.linux.whole_files import write_whole
from testbed.paths import command_line

FILE = Path(".cache", "ina-testbed", "calibration.json")
FORMAT = 1


@dataclass(frozen=True)
class Measured:
    """One system on one kind of switch. `rate`: gradient packets/s of all workers together; the
    others: processor time per gradient packet in ns, of the busiest worker (per packet of its own),
    the busiest server (likewise of its job's) and the switch, and of all processes together; None:
    there is none, or it cannot be measured."""

    rate: float
    worker_ns: float
    server_ns: float | None
    switch_ns: float | None
    total_ns: float | None


@dataclass(frozen=True)
class Calibration:
    """All that was measured. `systems`: by kind of switch and system."""

    machine: dict[str, str]
    date: str
    load: float
    timer_p50_ns: int
    timer_p99_ns: int
    systems: dict[str, dict[str, Measured]]


def machine() -> dict[str, str]:
    """The properties that the numbers depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(),
    }


def _place() -> Path:
    from testbed.linux.ownership import user_behind

    user = user_behind()
    try:
        home = pwd.getpwuid(user[0] if user else os.geteuid()).pw_dir
    except KeyError:  # a user without an account
        home = os.environ.get("HOME", "/")
    return Path(home) / FILE


def load() -> Calibration | None:
    """The stored calibration of this machine. None: there is none, it is of another machine, or it
    is damaged, which one line says."""
    from p4engine.backend.cache import unsealed

    try:
        told = unsealed(_place(), f"does not count; `{command_line('calibrate')}` makes it again")
        data = json.loads(told or b"{}")
        if data["format"] != FORMAT or data["machine"] != machine():
            return None
        kept = {
            switch: {name: Measured(**each) for name, each in found.items()}
            for switch, found in data.pop("systems").items()
        }
        data.pop("format")
        return Calibration(systems=kept, **data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def save(calibration: Calibration) -> Path:
    """Keep it. Raises UserError where that cannot be written."""
    from p4engine.backend.cache import sealed

    from testbed.linux.ownership import hand_over

    path = _place()
    made = [folder for folder in (path.parent.parent, path.parent) if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made_of = {"format": FORMAT, **asdict(calibration)}
        write_whole(path, sealed(json.dumps(made_of, indent=1).encode()))
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
    for each in made:
        hand_over(each)
    return path
