"""Packets and control calls without sense into programs without sense, for the sanitizers.

    python -m tests.p4reference.fuzz FIRST_SEED PROGRAMS PACKETS_EACH [language]

Run with P4ENGINE_CFLAGS and LD_PRELOAD set so that the compiled programs and the switch around
them are instrumented (tests/switch/test_p4_sanitizers.py does). A finding ends the process; each
line that is printed before names the program at work, so that it can be made again from its seed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from random import Random

from testbed.p4engine import compile_program
from testbed.p4engine.library import Switch
from testbed.p4engine.pipeline import ControlError

from .generate import generate
from .tree import text


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
    width, kind = key["width"], key["kind"]
    value = _number(random, width)
    if kind == "lpm":
        return (value, random.randrange(width + 1))
    if kind == "ternary":
        return (value, _number(random, width))
    if kind == "range":
        return tuple(sorted((value, _number(random, width))))
    return None if kind == "optional" and random.randrange(2) else value


def control(random: Random, switch: Switch, handles: dict) -> None:
    """One random call; that it is refused is no finding."""
    info = switch.compiled.info
    if info["tables"] and random.randrange(4):
        table = random.choice(info["tables"])
        known = handles.setdefault(table["name"], [])
        action = random.choice(table["actions"])
        data = [_number(random, p["width"]) for p in action["params"]]
        how = random.randrange(10)
        if how < 6:
            keys = [_match(random, k) for k in table["keys"] if k["kind"] != "selector"]
            priority = random.choice((None, 1, 2, random.randrange(1 << 31)))
            known.append(switch.table_add(table["name"], action["name"], keys, data, priority))
        elif how == 6 and known:
            switch.table_delete(table["name"], known.pop(random.randrange(len(known))))
        elif how == 7 and known:
            switch.table_modify(table["name"], random.choice(known), action["name"], data)
        elif how == 8:
            switch.table_set_default(table["name"], action["name"], data)
        elif random.randrange(20) == 0:
            switch.table_clear(table["name"])
            known.clear()
        else:
            switch.table_delete(table["name"], random.choice((-2, 0, 1, 2**40, 5)))
    elif info["registers"] and random.randrange(2):
        register = random.choice(info["registers"])
        index = random.choice((0, 1, register["size"] - 1, register["size"], 2**31))
        if random.randrange(2):
            switch.register_read(register["name"], index, 1)
        else:
            switch.register_write(register["name"], index, _number(random, register["width"]))
    elif info["value_sets"] and random.randrange(2):
        value_set = random.choice(info["value_sets"])
        switch.value_set_add(value_set["name"], [_number(random, w) for w in value_set["widths"]])
    else:
        how = random.randrange(3)
        if how == 0:
            group = [(random.randrange(8), random.randrange(3)) for _ in range(random.randrange(4))]
            switch.multicast_group(random.randrange(1, 9), group)
        elif how == 1:
            switch.mirror_session(random.randrange(1, 9), random.randrange(4))
        else:
            switch.port_shape(random.randrange(4), "egress", rate_bps=10**6, queue_packets=3)


def run(switch: Switch, random: Random, count: int) -> None:
    """`count` packets with a control call before some of them."""
    known: list[bytes] = []
    handles: dict = {}
    for i in range(count):
        if random.randrange(20) == 0:
            try:
                control(random, switch, handles)
            except ControlError:
                pass
        switch.receive(random.randrange(4), packet(random, known), i * 1000)
        if i % 16 == 15:
            switch.advance(i * 1000)
    switch.close()


def main(arguments: list[str]) -> int:
    first, programs, each = map(int, arguments[:3])
    sources = [(f"seed {s}", text(generate(s))) for s in range(first, first + programs)]
    if arguments[3:] == ["language"]:
        from tests.switch.p4 import source
        from tests.switch.test_p4_language import cases

        sources += [(case.id, source(**case.values[0])) for case in cases()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.p4"
        for name, code in sources:
            print(name, flush=True)
            path.write_text(code)
            run(Switch(compile_program(path)), Random(name), each)
    print(f"clean: {len(sources)} programs, {len(sources) * each} packets")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
