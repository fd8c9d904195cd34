"""The P4 program of a run, checked before anything is built.

It is compiled. Then the experiment's tables are filled and its registers read once, in a switch
that exists only in this process (with BMv2, in a fake switch). So a user's program in which
something is missing is found by the same calls that a run makes, before the run.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from p4engine.frontend.diagnostics import P4Error
from p4fabric.base.errors import UserError

from testbed import dataplane
from testbed.number_formats import NumberFormat

if TYPE_CHECKING:
    from p4engine.backend.build import Compiled

    from testbed.setup import Control, Setup


@dataclass(frozen=True)
class Program:
    """The P4 program of a run, with the constants that it is compiled with.

    `compiled` is for the embedded switch, `json` for BMv2; the other one is None."""

    path: Path
    defines: Mapping[str, str | int]
    include_dirs: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    compiled: Compiled | None = field(default=None, repr=False)
    json: Path | None = None


# What a program that aggregates must do for a definition: the option that asks for it,
# the file that has the actions, functions or the table, and these.
_FORMATS = {
    "ZEROS": ("zeros: header_only", "zeros.p4", ("add_zeros", "omit_zeros")),
    "VALUE_BITS": ("values of fewer bits", "short_values.p4", ("widen", "round_off", "shorten")),
    "PACKED": ("sum: int8", "int8.p4", ("pack_int8", "first_int8")),
    "DELIVERY": ("results_from: switch", "delivery.p4", ("delivery",)),
}


def prepare(setup: Setup, known: dict[Hashable, Compiled] | None = None) -> Program:
    """Compile the switches' program into the cache and try it on the switches.

    known: programs that have been compiled just now, by what they are made from; this one is added.
    The points of a sweep have the same few, and a look at their sources takes longer than a trial.
    Raises UserError in the compiler's words, or with what is missing in the program."""
    from p4engine.backend.build import compile_program

    path, defines, include_dirs = dataplane.program(setup.platform)
    if setup.platform.system.memory:
        _check_formats(path, defines, include_dirs, setup.platform.sum)
    if setup.platform.switch == "bmv2":
        return _prepare_for_bmv2(setup, path, defines, include_dirs)
    key = path, tuple(sorted(defines.items())), tuple(include_dirs)
    compiled = known.get(key) if known is not None else None
    if compiled is None:
        try:
            compiled = compile_program(path, defines, include_dirs)
        except P4Error as error:
            raise _mistake(error) from error
        if known is not None:
            known[key] = compiled
    _dry_run(setup, path, partial(_embedded, compiled))
    warnings = tuple(str(warning) for warning in compiled.warnings)
    return Program(path, defines, tuple(include_dirs), warnings, compiled)


def _check_formats(
    path: Path, defines: dict[str, int], include_dirs: tuple[Path, ...], sums: NumberFormat
) -> None:
    """Raise UserError if the program knows nothing of a format of packets that is asked for."""
    from p4engine.frontend.diagnostics import Diagnostics, Fatal
    from p4engine.frontend.preprocessor.preprocess import preprocess

    formats = _FORMATS | {"ADDER": (f"sum: {sums.name}", "value_memory.p4", (sums.adds,))}
    asked = [name for name in formats if name in defines]
    if not asked:
        return
    try:
        tokens, _ = preprocess(path, dict(defines), include_dirs, Diagnostics())
    except (Fatal, RecursionError):
        return  # the compiler says what is wrong
    count = Counter(token.text for token in tokens)
    for name in asked:
        option, file, actions = formats[name]
        if any(count[action] < 2 for action in actions):  # declared and applied
            raise UserError(
                f"the P4 program {path} does not apply what p4/{file} has, so it cannot do"
                f" what {option} asks for; use its macros as p4/pool_ingress.p4 does, or take"
                f" {option} out"
            )


def _prepare_for_bmv2(
    setup: Setup, path: Path, defines: dict[str, int], include_dirs: tuple[Path, ...]
) -> Program:
    from testbed.bmv2.compiler import compile_for_bmv2
    from testbed.bmv2.dry_run import dry_run_client

    try:
        json = compile_for_bmv2(path, defines, include_dirs)
    except P4Error as error:
        raise _mistake(error) from error
    _dry_run(setup, path, lambda name, ports: dry_run_client(json, name))
    return Program(path, defines, include_dirs, json=json)


def _mistake(error: P4Error) -> UserError:
    """The error in the compiler's words, without the word "error", which the printer adds."""
    return UserError(str(error).removeprefix("error: "))


def _embedded(compiled: Compiled, name: str, ports: Sequence[int]) -> Control:
    from p4engine.switch.library import Switch

    return Switch(compiled, ports=ports)


def _dry_run(setup: Setup, path: Path, make: Callable[[str, Sequence[int]], Control]) -> None:
    """Configure each switch in this process, and read the registers that a run reads. Routes and
    registers are of one kind at all switches, so the first one tells.

    make: a switch of that name with these ports."""
    platform, topology = setup.platform, setup.platform.topology
    for name in topology.switches:
        is_first = name == topology.switches[0]
        with contextlib.closing(make(name, sorted(topology.ports(name)))) as switch:
            try:
                dataplane.install(setup, name, switch, with_routes=is_first)
                if is_first and platform.system.memory:
                    dataplane.take_snapshot(platform, switch)
                if is_first:
                    dataplane.counters(platform, switch)
                    dataplane.port_counts(platform, switch)
            except MemoryError:  # the engine's is a P4Error too
                raise
            except P4Error as error:
                entry = platform.system
                raise UserError(
                    f"the P4 program {path} does not have what {entry.title} needs: {error}; "
                    f"keep the tables and registers of {entry.program}"
                ) from error
