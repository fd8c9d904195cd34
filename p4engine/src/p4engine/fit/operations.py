"""Operations that no stage of the pipeline can do."""

from __future__ import annotations

from p4engine.fit.values import Value
from p4engine.frontend import ast

HASHES = ("crc16", "crc32", "identity", "xor16", "crc16_custom", "crc32_custom", "random")


def _power(value: Value | None) -> bool:
    """Is it a constant, and a power of two (or 0)?"""
    return (
        value is not None
        and value.kind == "const"
        and isinstance(value.data, int)
        and value.data & (value.data - 1) == 0
    )


def operator_missing(op: str, left: Value, right: Value) -> str:
    """What an operator on these would be that is not there; "" for what is there."""
    if left.kind == "const" and right.kind == "const":
        return ""
    if op == "*" and not _power(left) and not _power(right):
        return "a multiplication"
    if op in ("/", "%") and not _power(right):
        return "a division" if op == "/" else "a remainder (%)"
    if op in ("<<", ">>") and right.kind != "const":
        return "a shift by a number that is not constant"
    return ""


def extern_missing(
    name: str, values: dict[str, Value | None], algorithm: ast.Const | None
) -> list[str]:
    """What a call of an extern function needs that is not there; `values` are those of scalar
    arguments by parameter, `algorithm` is a hash's."""
    found = []
    if name.endswith("_with_payload"):
        found.append("a checksum over the payload")
    elif name == "truncate":
        found.append("truncate()")
    elif name == "hash":
        if isinstance(algorithm, ast.Symbol) and algorithm.name not in HASHES:
            found.append(f"the hash {algorithm.name}")
        if not _power(values.get("max")):
            found.append("a hash modulo something that is no power of two")
    elif name == "random":
        low, high = (getattr(values.get(n), "data", None) for n in ("lo", "hi"))
        if low != 0 or not isinstance(high, int) or high & (high + 1):
            found.append("random() from a range other than 0 to 2^n - 1")
    return found
