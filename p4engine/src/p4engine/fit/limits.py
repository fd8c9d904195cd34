"""What the pipeline has: every figure that a program is compared with.

The figures of the target `tofino-like` are public ones of the first Tofino: the sizes of memory
blocks and their number per stage, 12 stages, one access per register and packet by an ALU that
compares twice and works on two halves of 32 bits, a packet header vector (PHV) of 4096 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

BLOCK_BITS = 128 * 1024  # of SRAM: 1024 words of 128 bits
TCAM_KEY_BITS, TCAM_ENTRIES = 44, 512  # of a block


def _limit(default: int, text: str) -> int:
    made: int = field(default=default, metadata={"text": text})
    return made


@dataclass(frozen=True)
class Limits:
    """Of one pipeline. All are counts or bits, from 0."""

    stages: int = _limit(12, "stages, shared by ingress and egress")
    accesses: int = _limit(1, "accesses of a packet to one array")
    sram_bits: int = _limit(80 * BLOCK_BITS, "bits of SRAM in a stage")
    tcam_bits: int = _limit(24 * TCAM_KEY_BITS * TCAM_ENTRIES, "bits of TCAM in a stage")
    phv_bits: int = _limit(4096, "bits of the packet header vector")
    arrays_per_stage: int = _limit(4, "arrays that one stage can read and write")
    element_bits: int = _limit(64, "bits of an array's element")
    operand_bits: int = _limit(32, "bits of a number that is added or compared by size")
    conditions: int = _limit(2, "comparisons with an array's old value in one access")
    operations: int = _limit(1, "operations in a row on an array's old value in one access")
    match_delay: int = _limit(1, "stages from a value to the table or array that it selects from")
    action_delay: int = _limit(1, "stages from a value to an operation on it")
    control_delay: int = _limit(0, "stages from a table to what runs only if it hit")

    @property
    def half_bits(self) -> int:
        """Bits of one of the two halves of an element."""
        return self.element_bits // 2


TARGETS = {"tofino-like": Limits()}


def describe() -> list[tuple[str, int, str]]:
    """Name, default and meaning of each limit, in the order of the report."""
    return [(f.name, getattr(Limits(), f.name), f.metadata["text"]) for f in fields(Limits)]
