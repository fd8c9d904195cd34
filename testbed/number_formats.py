"""The formats in which gradients are added, as data: the values of the option `sum`.

A format says how an addition is done (`adder`) and how many bits a value has in a packet (`bits`).
The definition of an adder has one name in three places:

- testbed/protocols/formats/NAME.py: the host code of workers, servers and algorithms of hosts, in
  Python compiled by numba, which tests compare with numpy;
- p4/NAME.p4: the same for switches;
- here: its number, which is `adder` in machines and ADDER in P4 programs (p4/adder.p4).

The adder int32 is the default: testbed/protocols/values.py and p4/value_memory.p4.
"""

from __future__ import annotations

from dataclasses import dataclass

# Adders
INT32 = 0
FLOAT32 = 1
BFLOAT16 = 2
FLOAT32_EXACT = 3
FPISA = 4
# Numbers that workers send
INTEGERS = 0
SINGLES = 1  # float32
HALVES = 2  # bfloat16
FAR_SINGLES = 3  # float32 whose exponents are further from each other
BLOCKS = 4  # blocks of mx8

BLOCK = 32  # values of mx8 that share a scale
MOST_PACKED = (2**15 - 1) // (2**7 - 1)  # workers whose sums of int8 are int16 (p4/int8.p4)


@dataclass(frozen=True)
class NumberFormat:
    """A format of sums. `ordered`: whether a sum depends on the order of its additions. `adds`:
    the function of the adder's P4 file that a program must call."""

    name: str
    adder: int
    bits: int = 32
    ordered: bool = False
    adds: str = ""

    @property
    def is_wide(self) -> bool:
        """True if an aggregator holds more bits of a sum than a packet, so that no sum of some
        workers may leave it."""
        return self.adder == FLOAT32_EXACT

    @property
    def is_float(self) -> bool:
        """True if workers send floating-point numbers."""
        return self.adder != INT32

    @property
    def is_bytes(self) -> bool:
        """True if workers send integers of 8 bits, where sums are rounded to as many."""
        return self.bits == 8 and not self.is_float

    def sum_bits(self, packed: bool) -> int:
        """Bits of a sum in a switch's registers. packed: two share a word (p4/int8.p4)."""
        if self.adder == FLOAT32_EXACT:  # a whole number, and what is none (p4/exact_memory.p4)
            return 288 + 8
        if self.adder == FPISA:  # mantissa and exponent (p4/fpisa_memory.p4)
            return 32 + 8
        return 16 if packed else 32

    def scales(self, values: int) -> int:
        """Bytes of scales behind so many values in a packet."""
        return values // BLOCK if self.numbers == BLOCKS else 0

    @property
    def least_values(self) -> int:
        """Values that a packet must have: a word of them, or a block."""
        return BLOCK if self.numbers == BLOCKS else 32 // self.bits

    @property
    def together(self) -> list[str]:
        """Names of the formats that a switch program of this one adds: this one, and that of values
        which are not rounded to fewer bits, if there is one."""
        same = (each for each in FORMATS.values() if each.adder == self.adder)
        wider = [each.name for each in same if each.bits == 32 > self.bits]
        return [self.name, *wider]

    @property
    def numbers(self) -> int:
        """The numbers that workers send."""
        if not self.is_float:
            return INTEGERS
        if self.adder == FPISA:
            return FAR_SINGLES
        if self.bits == 8:
            return BLOCKS
        return HALVES if self.bits == 16 else SINGLES


FORMATS = {
    each.name: each
    for each in (
        NumberFormat("int32", INT32),
        NumberFormat("int16", INT32, bits=16),
        NumberFormat("int8", INT32, bits=8),
        NumberFormat("float32", FLOAT32, ordered=True, adds="add_float32"),
        NumberFormat("float32_exact", FLOAT32_EXACT, adds="round_exact"),
        NumberFormat("mx8", FLOAT32_EXACT, bits=8, adds="round_exact"),
        NumberFormat("fpisa", FPISA, ordered=True, adds="add_fpisa"),
        NumberFormat("bfloat16", BFLOAT16, bits=16, ordered=True, adds="add_bfloat16"),
        NumberFormat("bfloat16_in_float32", FLOAT32, bits=16, ordered=True, adds="add_float32"),
    )
}
DEFAULT = "int32"


def format_of(options: object) -> NumberFormat:
    """The format of a system's options. One of another package may have no option `sum`."""
    return FORMATS[getattr(options, "sum", DEFAULT)]
