"""The place of registers in C: those of one size share an array of records, one record per index.

So 64 registers that are read at one index are one contiguous piece of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from p4engine.frontend.types import Bits, Type, width_of
from p4engine.middle.instantiate import ExternInstance
from p4engine.middle.layout import Layout, c_int, container_bytes

CACHE_LINE = 64
# Record, member, offset, bytes, width.
Access: TypeAlias = tuple[int, str, int, int, int]


class Records:
    """Registers grouped by their number of elements.

    `access` says for each register where it is, `groups` has (stride, count, body of the struct).
    """

    def __init__(self, registers: Sequence[ExternInstance], layout: Layout) -> None:
        access: dict[int, Access] = {}
        self.groups: list[tuple[int, int, str]] = []
        by_count: dict[int, list[ExternInstance]] = {}
        for register in registers:
            by_count.setdefault(register.size, []).append(register)
        for number, (count, members) in enumerate(by_count.items()):
            widths = {r.number: _width(r.type.arguments[0]) for r in members}
            order = sorted(members, key=lambda r: -container_bytes(widths[r.number]))
            lines: list[str] = []
            offset, i = 0, 0
            while i < len(order):
                width = widths[order[i].number]
                j = i
                while j < len(order) and widths[order[j].number] == width:
                    j += 1
                step = container_bytes(width)
                layout.c_type(Bits(width))
                for k in range(i, j):
                    access[order[k].number] = (
                        number,
                        f"a{i}[{k - i}]",
                        offset + step * (k - i),
                        step,
                        width,
                    )
                lines.append(f"{c_int(width)} a{i}[{j - i}];")
                offset += step * (j - i)
                i = j
            stride = offset
            if stride > CACHE_LINE // 2:
                stride = (stride + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
            else:
                align = max((container_bytes(w) for w in widths.values()), default=1)
                align = min(align, 16)
                stride = (stride + align - 1) // align * align
            if stride > offset:
                lines.append(f"uint8_t pad[{stride - offset}];")
            self.groups.append((stride, count, " ".join(lines)))
        self.access = [access[number] for number in range(len(registers))]


def _width(type_: Type) -> int:
    return width_of(type_) or 0
