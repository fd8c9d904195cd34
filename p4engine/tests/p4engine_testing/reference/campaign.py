"""Random programs, each built three times: the builds and the evaluator must agree.

    python -m p4engine_testing.reference.campaign FIRST_SEED PROGRAMS [--packets N] [--keep FOLDER]

A program of `generate` is compiled without optimisation, with it (-O2), and as a traced build. All
three get the same packets, which the evaluator gets too as long as nothing is changed from outside;
then the same packets and control calls (entries, defaults, members and groups of profiles,
registers, counters, links), of which the results must be equal as well. A seed that differs is
named, its program is kept in FOLDER, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from p4engine.switch.library import Switch
from p4engine.values.numbers import ControlError

from p4engine import P4Error, compile_program
from p4engine_testing.programs import send

from .evaluate import Machine, Undefined
from .fuzz import control, packet
from .generate import generate, packets
from .tree import Program, text

BUILDS = {"-O0": ("-O0", False), "-O2": ("-O2", False), "traced": ("-O0", True)}
SECOND = 10**9  # ns; so long after a packet the next one comes


class Difference(Exception):
    """Two builds, or a build and the evaluator, do not agree."""


@contextmanager
def _flags(flags: str) -> Iterator[None]:
    before = os.environ.get("P4ENGINE_CFLAGS")
    os.environ["P4ENGINE_CFLAGS"] = flags
    try:
        yield
    finally:
        if before is None:
            del os.environ["P4ENGINE_CFLAGS"]
        else:
            os.environ["P4ENGINE_CFLAGS"] = before


def build(path: Path, cache: Path | None = None) -> dict[str, Switch]:
    """A switch for each kind of build; traces are on in the traced one."""
    made = {}
    for name, (flags, trace) in BUILDS.items():
        with _flags(flags):
            made[name] = Switch(compile_program(path, trace=trace, cache=cache))
        if trace:
            made[name].trace(packets=None)
    return made


def _same(what: str, results: dict[str, object]) -> object:
    """The result that all have; raises Difference."""
    first = next(iter(results.values()))
    if any(r != first for r in results.values()):
        listed = "\n".join(f"  {name}: {result}" for name, result in results.items())
        raise Difference(f"{what}\n{listed}")
    return first


def against_the_evaluator(
    program: Program, switches: dict[str, Switch], seed: int, count: int
) -> int:
    """Packets through the builds and the evaluator; returns how many could be compared."""
    machine = Machine(program)
    compared = 0
    for data in packets(program, seed, count):
        results: dict[str, object] = {n: send(s, data) for n, s in switches.items()}
        try:
            results["evaluator"] = machine.packet(data)
            compared += 1
        except Undefined:  # what the packet did to registers and counters is unknown too
            state = next(iter(switches.values()))
            for name in machine.registers:
                machine.registers[name] = list(state.register_read(name))
            for name, kept in machine.counters.items():
                for i, counter in enumerate(kept):
                    counter[:] = state.counter_read(name, i).values()
        _same(f"packet {data.hex()}", results)
        for s in switches.values():
            s.trace_lines()
    registers: dict[str, object] = {
        n: {r: list(s.register_read(r)) for r in machine.registers} for n, s in switches.items()
    }
    _same("registers", registers | {"evaluator": machine.registers})
    counters: dict[str, object] = {
        name: {
            c: [list(s.counter_read(c, i).values()) for i in range(len(kept))]
            for c, kept in machine.counters.items()
        }  # fmt: skip  # noqa: E501
        for name, s in switches.items()
    }
    _same("counters", counters | {"evaluator": machine.counters})
    return compared


def with_control(switches: dict[str, Switch], seed: int, count: int) -> None:
    """Packets and random control calls, the same for each build."""
    outputs: dict[str, object] = {}
    for name, switch in switches.items():
        random = Random(seed)
        known: list[bytes] = []
        handles: dict = {}
        made: list[object] = []
        for i in range(count):
            for _ in range(random.randrange(3)):
                try:
                    control(random, switch, handles)
                except ControlError as error:
                    made.append(str(error))
            switch.receive(random.randrange(4), packet(random, known), (i + 10**6) * SECOND)
            made.append(list(switch.advance((i + 10**6) * SECOND + SECOND // 2)))
            switch.trace_lines()
        info = switch.compiled.info
        made += [switch.table_dump(t.name) for t in info.tables]
        made += [list(switch.register_read(r.name)) for r in info.registers]
        made += [[switch.counter_read(c.name, i) for i in range(c.size)] for c in info.counters]
        outputs[name] = made
    lengths = _same("results of control calls", {n: len(o) for n, o in outputs.items()})
    for i in range(lengths):
        _same(f"result {i} of control calls", {n: o[i] for n, o in outputs.items()})


def check(seed: int, folder: Path, count: int, cache: Path | None = None) -> int:
    """Compare the builds of one program; returns how many packets the evaluator could judge."""
    program = generate(seed)
    path = folder / f"seed{seed}.p4"
    path.write_text(text(program))
    switches = build(path, cache)
    try:
        compared = against_the_evaluator(program, switches, seed, count)
        with_control(switches, seed, count)
    finally:
        for switch in switches.values():
            switch.close()
    return compared


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("programs", type=int)
    parser.add_argument("--packets", type=int, default=60)
    parser.add_argument("--keep", type=Path, help="where programs with findings are kept")
    options = parser.parse_args(arguments)
    failed: list[int] = []
    compared = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed in range(options.first, options.first + options.programs):
            try:
                compared += check(seed, folder, options.packets, folder)
            except (Difference, P4Error) as found:
                print(f"seed {seed}: {str(found)[:2000]}", flush=True)
                failed.append(seed)
                if options.keep is not None:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"seed{seed}.p4").write_text(text(generate(seed)))
            for path in (*folder.glob("*.so"), *folder.glob("*.json")):
                path.unlink()  # what remains of the cache is the runtime
    print(
        f"{options.programs} programs, {len(failed)} with differences {failed or ''};"
        f" {compared} packets compared with the evaluator"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
