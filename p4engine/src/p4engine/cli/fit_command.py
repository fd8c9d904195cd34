"""The `fit` command: the sizes of a program's tables and arrays.

Earlier versions also estimated the stages and accesses of a chip's pipeline. Their options are
refused by name, so that no script takes the sizes for that estimate.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass

from p4engine.backend import describe_info
from p4engine.middle.instantiate import Instances
from p4engine.middle.load import load

GONE = ("stages", "accesses", "match-delay", "action-delay", "control-delay")


@dataclass(frozen=True)
class Size:
    """A table or an array. elements: most entries of a table, None: any number; bits: of an
    element, which for a table are those of its keys and of its largest action's data; None: the
    target's choice, as for counters and meters."""

    kind: str
    name: str
    elements: int | None
    bits: int | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `fit` beside those of the compiler."""
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    for name in GONE:
        parser.add_argument(f"--{name}", type=_gone, help=argparse.SUPPRESS)


def _gone(_: str) -> None:
    raise argparse.ArgumentTypeError(
        "fit no longer estimates stages and accesses, only sizes: the compiler of the chip tells"
        " what fits (for Tofino: bf-p4c)"
    )


def sizes(instances: Instances) -> list[Size]:
    """The sizes of all tables, registers, counters and meters of a program."""
    found = []
    for table in describe_info.tables(instances):
        data = [sum(each.width for each in action.params) for action in table.actions]
        bits = sum(key.width for key in table.match_keys) + max(data, default=0)
        found.append(Size("table", table.name, table.size, bits))
    for register in describe_info.registers(instances):
        found.append(Size("register", register.name, register.size, register.width))
    for counter in describe_info.counters(instances):
        found.append(Size("counter", counter.name, counter.size, None))
    for meter in describe_info.meters(instances):
        found.append(Size("meter", meter.name, meter.size, None))
    return found


def main(arguments: argparse.Namespace) -> int:
    """p4engine fit PROGRAM.p4 [--json]."""
    instances, _ = load(arguments.program, dict(arguments.define), arguments.include)
    found = sizes(instances)
    if arguments.json:
        print(json.dumps([asdict(size) for size in found], indent=1))
        return 0
    width = max((len(size.name) for size in found), default=0)
    for size in found:
        elements = "any" if size.elements is None else str(size.elements)
        bits = "" if size.bits is None else f" x {size.bits:>4} bits"
        print(f"{size.kind:9} {size.name:{width}} {elements:>8}{bits}")
    registers = [size for size in found if size.kind == "register"]
    total = sum((size.elements or 0) * (size.bits or 0) for size in registers)
    print(f"{len(found)} tables and arrays; registers have {total} bits")
    return 0
