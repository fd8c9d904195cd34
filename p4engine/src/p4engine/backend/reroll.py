"""Runs of statements that differ only in numbers become loops.

P4 has no arrays of fields, so programs repeat a few statements for each of many fields or
registers. The layout gives neighbouring fields consecutive array indices; here a run of C
statements with period p whose integer literals advance by constant steps is written as one loop.
The loop does exactly what the run did, statement by statement, so no analysis of data flow is
needed; the C compiler then turns it into vector code, which it does far more reliably for a loop
than for straight-line code, and compiles it faster.

Bounds checks of registers appear as P4_IN(index, size). If all checks of a loop are the same and
nothing in the loop assigns to the index, the loop is written twice under one check, so that the
loop itself is free of branches.
"""

from __future__ import annotations

import re

MINIMUM = 4  # repetitions worth a loop
MAX_PERIOD = 12
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|\d\w*|\s+|[^\s\w]')
_GUARD = re.compile(r"P4_IN\(([^()]*), (\w+)\)")
_PLAIN = re.compile(r"\d+")

Split = tuple[tuple[str, ...], tuple[int, ...]]  # shape and numbers of a statement


def _split(statement: str) -> Split:
    """(shape, numbers): the tokens with decimal literals replaced, and those literals."""
    shape, numbers = [], []
    for token in _TOKENS.findall(statement):
        if _PLAIN.fullmatch(token):
            shape.append("#")
            numbers.append(int(token))
        else:
            shape.append(token)
    return tuple(shape), tuple(numbers)


def reroll(statements: list[str], depth: int) -> list[str]:
    """The list with runs replaced by loops; `depth` makes the names of nested loops' counters
    differ."""
    if len(statements) < MINIMUM:
        return statements
    split = [_split(s) for s in statements]
    ids: dict[tuple[str, ...], int] = {}
    shapes = [ids.setdefault(shape, len(ids)) for shape, _ in split]
    out: list[str] = []
    i = 0
    while i < len(statements):
        best = (0, 0)  # repetitions, period
        for period in range(1, min(MAX_PERIOD, (len(statements) - i) // MINIMUM) + 1):
            count = _repetitions(shapes, split, i, period)
            if count >= MINIMUM and count * period > best[0] * best[1]:
                best = (count, period)
        count, period = best
        if not count or "goto" in "".join(statements[i : i + period]):
            out.append(statements[i])
            i += 1
            continue
        out.append(_loop(split, i, period, count, depth))
        i += count * period
    return out


def _repetitions(shapes: list[int], split: list[Split], start: int, period: int) -> int:
    """The number of times that the `period` statements at `start` repeat with constant steps of
    their numbers."""
    count = 1
    steps: list[tuple[int, ...]] | None = None
    while start + (count + 1) * period <= len(shapes):
        a, b = start + (count - 1) * period, start + count * period
        if shapes[a : a + period] != shapes[b : b + period]:
            break
        now = [
            tuple(y - x for x, y in zip(split[a + k][1], split[b + k][1], strict=True))
            for k in range(period)
        ]
        if steps is None:
            steps = now
        elif steps != now:
            break
        count += 1
    return count


def _loop(split: list[Split], start: int, period: int, count: int, depth: int) -> str:
    counter = f"i{depth}"
    body = []
    for k in range(period):
        shape, first = split[start + k]
        second = split[start + period + k][1]
        numbers = iter(zip(first, second, strict=True))
        text = []
        for token in shape:
            if token != "#":
                text.append(token)
                continue
            a, b = next(numbers)
            if a == b:
                text.append(str(a))
            elif a == 0 and b == 1:
                text.append(counter)
            else:
                text.append(f"({a} + {b - a} * {counter})")
        body.append("".join(text))
    inside = "\n".join(body)
    head = f"for (int {counter} = 0; {counter} < {count}; {counter}++) {{\n"
    guards = {m.group(): m.group(1) for m in _GUARD.finditer(inside)}
    if len(guards) == 1:
        ((guard, index),) = guards.items()
        if counter not in index and not _assigned(index, inside):
            yes, no = inside.replace(guard, "1"), inside.replace(guard, "0")
            return f"if ({guard}) {{ {head}{yes}\n}} }}\nelse {{ {head}{no}\n}} }}"
    return f"{head}{inside}\n}}"


def _assigned(index: str, text: str) -> bool:
    """Could `text` change the variable named by the C expression `index`?"""
    for name in set(re.findall(r"[A-Za-z_][\w>.-]*(?:\[[^\]]*\])?", index)):
        parts = re.split(r"(->|\.)", name)
        for end in range(1, len(parts) + 1, 2):
            prefix = re.escape("".join(parts[:end]))
            if re.search(rf"(?<![\w>.]){prefix}\s*=(?!=)", text):
                return True
        if re.search(rf"&\s*{re.escape(name)}\b", text):
            return True
    return False
