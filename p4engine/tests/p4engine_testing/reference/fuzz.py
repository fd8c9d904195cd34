"""Packets, control calls and control messages without sense into programs without sense, for the
sanitizers.

    python -m p4engine_testing.reference.fuzz FIRST_SEED PROGRAMS PACKETS_EACH
        [--language] [--tna] [--program FILE]... [--part I/N]

Run with P4ENGINE_CFLAGS and LD_PRELOAD set so that the compiled programs and the switch around
them are instrumented (sanitizers.py does). A finding ends the process; each
line that is printed before names the program at work, so that it can be made again from its seed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from inspect import signature
from pathlib import Path
from random import Random

from p4engine.control.commands import Commands
from p4engine.control.server import Server
from p4engine.switch.library import CALLS, Switch
from p4engine.values.numbers import ControlError

from p4engine import compile_program
from p4engine_testing import DATA, tna
from p4engine_testing.language import cases
from p4engine_testing.programs import source

from .generate import generate
from .tree import text

# Whole programs with what the generator does not make: action profiles, meters, clones, digests.
PROGRAMS = (DATA / "p4info.p4", DATA / "router.p4")

TRACED = 8  # every so many programs: one as a traced build


def packet(random: Random, known: list[bytes]) -> bytes:
    """From empty to jumbo: new, or a known one with bytes changed, cut or appended."""
    if not known or random.randrange(3) == 0:
        size = random.choice((0, 1, 2, 3, 13, 14, 33, 60, 64, 127, 256, 1500, 9000, random.randrange(200)))  # fmt: skip  # noqa: E501
        made = random.randbytes(size)
        if size and random.randrange(2):
            made = bytes([random.randrange(4)]) + made[1:]
        if len(known) < 64:
            known.append(made)
        return made
    data = bytearray(random.choice(known))
    for _ in range(random.randrange(4)):
        if data:
            data[random.randrange(min(len(data), 80))] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))  # fmt: skip  # noqa: E501
    how = random.randrange(4)
    if how == 0:
        del data[random.randrange(len(data) + 1) :]
    elif how == 1:
        data += random.randbytes(random.randrange(40))
    return bytes(data)


def _number(random: Random, width: int) -> int:
    return random.choice((0, 1, (1 << width) - 1, random.getrandbits(width or 1))) & ((1 << width) - 1)  # fmt: skip  # noqa: E501


def _match(random: Random, key: dict) -> object:
    width, kind = key.width, key.kind
    value = _number(random, width)
    if kind == "lpm":
        return (value, random.randrange(width + 1))
    if kind == "ternary":
        return (value, _number(random, width))
    if kind == "range":
        return tuple(sorted((value, _number(random, width))))
    return None if kind == "optional" and random.randrange(2) else value


def _on_table(random: Random, switch: Switch, table: dict, known: list[int]) -> None:
    name, action = table.name, random.choice(table.actions)
    data = [_number(random, p.width) for p in action.params]
    keys = [_match(random, k) for k in table.keys if k.kind != "selector"]
    priority = random.choice((None, 1, 2, random.randrange(1 << 31)))
    how = random.randrange(10)
    if how < 6 and table.profile is not None:
        target = {random.choice(("member", "group")): random.randrange(6)}
        known.append(switch.table_add_indirect(name, keys, priority=priority, **target))
    elif how < 6:
        known.append(switch.table_add(name, action.name, keys, data, priority))
    elif how == 6 and known:
        switch.table_delete(name, known.pop(random.randrange(len(known))))
    elif how == 7 and known:
        switch.table_modify(name, random.choice(known), action.name, data)
    elif how == 8:
        switch.table_set_default(name, action.name, data)
    elif random.randrange(20) == 0:
        switch.table_clear(name)
        known.clear()
    else:
        switch.table_delete(name, random.choice((-2, 0, 1, 2**40, 5)))


def _on_profile(random: Random, switch: Switch, name: str) -> None:
    owners = [t for t in switch.compiled.info.tables if t.profile is not None]
    action = random.choice(random.choice(owners).actions)
    data = [_number(random, p.width) for p in action.params]
    member, group = random.randrange(6), random.randrange(6)
    random.choice(
        (
            lambda: switch.member_add(name, action.name, data),
            lambda: switch.member_modify(name, member, action.name, data),
            lambda: switch.member_delete(name, member),
            lambda: switch.group_add(name),
            lambda: switch.group_delete(name, group),
            lambda: switch.group_add_member(name, group, member),
            lambda: switch.group_remove_member(name, group, member),
        )
    )()


def _on_array(random: Random, switch: Switch, kind: str, array: dict) -> None:
    name, size = array.name, getattr(array, "size", 1)
    index = random.choice((0, 1, size - 1, size, 2**31))
    if kind == "registers" and random.randrange(2):
        switch.register_read(name, index, 1)
    elif kind == "registers":
        switch.register_write(name, index, _number(random, array.width))
    elif kind == "counters":
        random.choice((switch.counter_read, switch.counter_write))(name, index)
    elif kind == "meters":
        switch.meter_set(name, random.choice((None, index)), [(0.5, 2), (1.0, 1500)])
    else:
        switch.value_set_add(name, [_number(random, w) for w in array.widths])


def _on_links(random: Random, switch: Switch) -> None:
    how = random.randrange(4)
    if how == 0:
        group = [(random.randrange(8), random.randrange(3)) for _ in range(random.randrange(4))]
        switch.multicast_group(random.randrange(1, 9), group)
    elif how == 1:
        switch.mirror_session(random.randrange(1, 9), random.choice((None, 2)), random.choice((None, 3)))  # fmt: skip  # noqa: E501
    else:
        chance = random.choice((0.0, 0.3, 1.0))
        direction = random.choice(("ingress", "egress"))
        options = {"delay_ns": 3000, "jitter_ns": 2000, "loss": chance / 3, "duplicate": chance}
        options |= {"reorder": chance, "reorder_ns": 5000} if random.randrange(2) else {}
        rate_bps = random.choice((0, 10**6, 10**9))
        switch.port_shape(random.randrange(4), direction, rate_bps, random.choice((0, 3, None)), **options)  # fmt: skip  # noqa: E501


def control(random: Random, switch: Switch, handles: dict) -> None:
    """One random call; that it is refused is no finding."""
    info = switch.compiled.info
    kinds = ("registers", "counters", "meters", "value_sets")
    arrays = [(kind, array) for kind in kinds for array in getattr(info, kind)]
    if info.tables and random.randrange(3):
        table = random.choice(info.tables)
        _on_table(random, switch, table, handles.setdefault(table.name, []))
    elif info.profiles and random.randrange(3):
        _on_profile(random, switch, random.choice(info.profiles).name)
    elif arrays and random.randrange(3):
        _on_array(random, switch, *random.choice(arrays))
    else:
        _on_links(random, switch)


# What an argument of a control message may be, beside names of the program's objects.
STRANGE = (
    None, True, False, 0, 0, 1, 1, 2, 3, 5, -1, 510, 511, 2**31, -(2**31), 2**32, 2**63, 2**64,
    -(2**64), 10**30, 0.5, -1.5, 1e308, float("inf"), float("nan"), "", "ingress", "egress", "x",
    "10.0.0.0/8", "0x1 &&& 0x3", "1->0", "\0", "\ud800", [], [[]], [1], [[1, 2], [3, 4]],
    [-1, 2**64], {}, {"hex": "00ff"}, {"words": "AAAAAAAAAAA="}, {"x": [{}]},
)  # fmt: skip
BROKEN = ({"hex": "0"}, {"words": "AAAA"}, {"hex": [{"hex": "zz"}]})
NAMED = {"table": "tables", "profile": "profiles", "action": "actions"}


class Messages:
    """Control messages for a switch: mostly calls that exist, with arguments that make no sense."""

    def __init__(self, random: Random, switch: Switch) -> None:
        self.random = random
        kinds = ("tables", "registers", "counters", "meters", "value_sets", "profiles")
        self.names = {k: [o.name for o in getattr(switch.compiled.info, k)] for k in kinds}
        tables = switch.compiled.info.tables
        self.names["actions"] = [a.name for t in tables for a in t.actions]
        self.all = [name for names in self.names.values() for name in names] + ["none"]
        self.parameters = {c: signature(getattr(switch, c)).parameters.values() for c in CALLS}

    def value(self, depth: int = 0) -> object:
        random = self.random
        if random.randrange(100) == 0:
            return random.choice(BROKEN)
        if random.randrange(8) == 0:
            return random.choice(self.all)
        if depth < 3 and random.randrange(3) == 0:
            return [self.value(depth + 1) for _ in range(random.randrange(4))]
        return random.choice(STRANGE)

    def argument(self, parameter: str) -> object:
        if parameter in NAMED or parameter == "name":
            names = self.names.get(NAMED.get(parameter, ""), self.all) or self.all
            if self.random.randrange(10):
                return self.random.choice(names)
        return self.value()

    def call(self) -> dict:
        random = self.random
        name = random.choice(CALLS)
        known = self.parameters[name]
        arguments = [self.argument(p.name) for p in known if p.kind is not p.KEYWORD_ONLY]
        if random.randrange(3) == 0:
            del arguments[random.randrange(len(arguments) + 1) :]
        if random.randrange(20) == 0:
            arguments.append(self.value())
        made: dict = {"call": name, "args": arguments}
        keywords = [p.name for p in known if p.kind is p.KEYWORD_ONLY] or [p.name for p in known]
        if keywords and random.randrange(8) == 0 or len(arguments) < len(known):
            made["kwargs"] = {random.choice(keywords): self.value()}
        return made

    def line(self) -> bytes:
        """A whole message, sometimes a batch, sometimes with bytes changed or cut off."""
        random = self.random
        made = self.call()
        if random.randrange(8) == 0:
            made = {"call": "batch", "args": [[self.call() for _ in range(random.randrange(4))]]}
        line = bytearray(json.dumps({"id": 1, **made}).encode())
        if random.randrange(8) == 0:
            for _ in range(random.randrange(1, 4)):
                line[random.randrange(len(line))] = random.choice(b'\0",-9[]}\xff')
        if random.randrange(20) == 0:
            del line[random.randrange(len(line)) :]
        return bytes(line)


def reply(server: Server, line: bytes) -> None:
    """Have a message answered: with a result or an error, but not with a defect of the server."""
    answer = json.loads(server.answer(line))
    assert ("result" in answer) != ("error" in answer), (line, answer)
    assert "internal error" not in str(answer.get("error")), (line, answer)


def run(switch: Switch, random: Random, count: int) -> None:
    """`count` packets with control calls or messages before some of them."""
    known: list[bytes] = []
    handles: dict = {}
    messages = Messages(random, switch)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "s", {name: getattr(switch, name) for name in CALLS})
        for i in range(count):
            what = random.randrange(40)
            if what < 2:
                try:
                    control(random, switch, handles)
                except ControlError:
                    pass
            elif what == 2:
                reply(server, messages.line())
            switch.receive(random.randrange(4), packet(random, known), i * 1000)
            if i % 16 == 15:
                switch.advance(i * 1000)
                switch.trace_lines()
        server.close()
    switch.close()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("programs", type=int)
    parser.add_argument("each", type=int)
    parser.add_argument("--language", action="store_true", help="the tests' programs, too")
    parser.add_argument("--tna", action="store_true", help="those of TNA, too")
    parser.add_argument("--program", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--part", default="0/1", help="I/N: only every N-th program, from the I-th")
    options = parser.parse_args(arguments)
    # The sanitizers are loaded here; the C compiler is none of their business.
    os.environ.pop("LD_PRELOAD", None)
    seeds = range(options.first, options.first + options.programs)
    sources: list[tuple[str, str | Path]] = [(f"seed {s}", text(generate(s))) for s in seeds]
    if options.language:
        sources += [(case.name, source(**case.parts)) for case in cases()]
        sources += [(path.name, path) for path in PROGRAMS]
    steps = {case.name: case.steps for case in tna.cases() if options.tna and not case.error}
    sources += [(c.name, tna.source(**c.parts)) for c in tna.cases() if c.name in steps]
    sources += [(path.name, path) for path in options.program]
    part, parts = map(int, options.part.split("/"))
    sources = sources[part::parts]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.p4"
        for number, (name, code) in enumerate(sources):
            traced = number % TRACED == TRACED - 1
            print(name, "traced" if traced else "", flush=True)
            if isinstance(code, str):
                path.write_text(code)
            at = path if isinstance(code, str) else code
            switch = Switch(compile_program(at, trace=traced))
            for step in steps.get(name, ()):
                if step.command:
                    Commands(switch).run(step.command)
            if traced:
                switch.trace(packets=None)
            run(switch, Random(name), options.each)
    print(f"clean: {len(sources)} programs, {len(sources) * options.each} packets")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
