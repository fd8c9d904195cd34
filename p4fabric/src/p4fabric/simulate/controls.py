"""The congestion controls by name, and the calls of their functions.

A control is chosen by the number in its row of words (congestion.py), so one compiled host serves
connections of all of them: each call is a chain of comparisons, which numba makes of this list.

A control in another package is an entry point of the group `p4fabric.congestion`, whose object is a
`Control`. Its module becomes a part of compiled code, as the modules here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import FunctionType, ModuleType
from typing import cast

import numpy as np
from numba.extending import overload

from p4fabric.base.errors import UserError
from p4fabric.base.transports import CONTROL_GROUP, OWN_WINDOW, PRODUCT
from p4fabric.simulate import congestion, dcqcn, nscc, swift
from p4fabric.simulate.code_cache import add_files
from p4fabric.simulate.congestion import DUE, KIND, TIMER, UNIT, WIDEST, WINDOW
from p4fabric.simulate.jit import CALLEE, njit

CALLBACKS = ("on_start", "on_send", "on_ack", "on_mark", "on_timer")


@dataclass(frozen=True)
class Control:
    """A congestion control. `rules`: the module of its five functions; `set_constants`: writes its
    constants into a row of words; `cnp_ns`: a receiver sends at most one notification of marks in
    this time, per flow, None: none at all; `windowed`: it starts with a window of one
    bandwidth-delay product, and else has none."""

    rules: ModuleType
    set_constants: Callable[[np.ndarray], None] = lambda control: None
    cnp_ns: int | None = None
    windowed: bool = False


def _dcqcn(profile: dcqcn.Profile) -> Control:
    constants = functools.partial(dcqcn.set_constants, profile=profile)
    return Control(dcqcn, constants, profile.cnp_ns)


CONTROLS: dict[str, Control] = {
    "none": Control(congestion, windowed=True),
    "dcqcn": _dcqcn(dcqcn.PAPER),
    "dcqcn_vendor": _dcqcn(dcqcn.VENDOR),
    "swift": Control(swift, swift.set_constants, windowed=True),
    "nscc": Control(nscc, nscc.set_constants, nscc.CNP_NS),
}


def _add_plugins() -> None:
    for entry in metadata.entry_points(group=CONTROL_GROUP):
        made = entry.load()
        missing = [each for each in CALLBACKS if not hasattr(getattr(made, "rules", None), each)]
        if missing or entry.name in CONTROLS:
            what = f"lacks {', '.join(missing)}" if missing else "has a name that is taken"
            raise UserError(f"the congestion control {entry.name!r} ({entry.value}) {what}")
        CONTROLS[entry.name] = made
        add_files(Path(__file__).resolve().parent, [Path(str(made.rules.__file__))])


_add_plugins()
RULES = list(dict.fromkeys(each.rules for each in CONTROLS.values()))


def new_words(
    name: str,
    line_bps: int,
    packet_bytes: int,
    trip_ns: int,
    product: int,
    window: int | None,
    start_ns: int = 0,
) -> np.ndarray:
    """The words of a connection that begins at `start_ns` under the control with this name.
    product: of bandwidth and delay, in packets; window: the widest one, in packets, None: no limit,
    or OWN_WINDOW, PRODUCT."""
    chosen = CONTROLS[name]
    made = congestion.new_control(RULES.index(chosen.rules), line_bps, packet_bytes, trip_ns)
    if window == OWN_WINDOW:
        window = PRODUCT if chosen.windowed else None
    if window is not None:
        made[WINDOW] = made[WIDEST] = UNIT * (product if window == PRODUCT else window)
    chosen.set_constants(made)
    on_start = chosen.rules.on_start
    getattr(on_start, "py_func", on_start)(made, start_ns)  # once, so it need not be compiled
    return made


def _chain(functions: list[Callable], number: int) -> Callable:
    """A function that calls the one whose number, from `number` on, is in the row's KIND."""
    function = functions[number]
    if number + 1 == len(functions):
        return lambda control, *arguments: function(control, *arguments)
    others = njit(cast(FunctionType, _chain(functions, number + 1)))

    def either(control, *arguments):
        if control[KIND] == number:
            function(control, *arguments)
        else:
            others(control, *arguments)

    return either


def _caller(name: str) -> Callable:
    def call(control: np.ndarray, *arguments: int) -> None:
        getattr(RULES[control[KIND]], name)(control, *arguments)

    @overload(call, jit_options=CALLEE)
    def compiled(control, *arguments):
        return _chain([getattr(rules, name) for rules in RULES], 0)

    return call


on_send, on_ack, on_mark, on_timer = (_caller(name) for name in CALLBACKS[1:])


@njit(cache=True)
def catch_up(control, now):
    """Do what the control's timers have been due for."""
    while control[TIMER] <= now:
        on_timer(control, now, DUE)
