"""Runs STF tests in process: no root, no network, no other switch.

The rules are those of p4c's driver for BMv2, because tests are written against it:

- Statements are carried out in order; what is expected is compared at the end, port by port, in
the order of leaving. As many packets must leave a port as are expected there, no more. - Only
ports that a `packet` or `expect` names exist for a test: what leaves elsewhere is not seen.
(`no_packet` makes all ports count.) - An expected packet may be shorter than what leaves, unless
it ends in `$`; `*` is any digit; with no data at all any packet will do. - Names are found in
full or as what they end in. A key that is not named matches anything (an exact key 0). Digits of
a ternary key's value are compared, those that are not written are not; the digits before the
first `*` of an lpm key are its prefix. - The higher priority wins (p4c hands 10000 minus it to
BMv2, where the lower wins). - A command that BMv2 refuses (a duplicate entry, a value that does
not fit) changes nothing and is a warning; a name that does not exist ends the test. -
`check_counter` is checked when it stands there. `wait` and `remove` do nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from p4engine.backend.build import Compiled, compile_program
from p4engine.control.command_values import fit
from p4engine.control.commands import Commands
from p4engine.frontend.diagnostics import P4Error
from p4engine.program_info import Table
from p4engine.stf.stf_parser import DIRECT, Statement, StfError, parse
from p4engine.stf.stf_values import find_key, find_name, match_value
from p4engine.switch.library import Switch
from p4engine.values.matches import anything
from p4engine.values.numbers import ControlError

PACKET_TIME_NS = 100_000  # between two packets
COMMAND_TIME_NS = 1_000_000_000  # p4c's driver waits a second after commands
LOWEST_PRIORITY = 10_000
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
}


@dataclass
class Difference:
    """The first packet that is not what it should be; `sent` is None if it did not leave."""

    port: int
    index: int
    line: int | None
    expected: str | None
    sent: bytes | None
    reason: str


@dataclass
class Result:
    """Result of one test. `status`: "pass", "fail" or "error" (it could not be run)."""

    test: Path
    status: str = "pass"
    message: str = ""
    warnings: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)  # by commands that read something
    difference: Difference | None = None
    packets: int = 0
    expected: int = 0

    @property
    def code(self) -> int:
        """The exit code."""
        return {"pass": 0, "fail": 1, "error": 2}[self.status]


# ---- running ----


class Run:
    """One test on a fresh instance of a compiled program."""

    def __init__(self, compiled: Compiled, statements: Sequence[Statement], seed: int = 0):
        self.switch = Switch(compiled, seed=seed)
        self.switch.pipeline.on_log(lambda text: self.log.append(text))
        self.log: list[str] = []
        self.commands = Commands(self.switch)
        self.info = self.commands.info
        self.statements = statements
        self.now_ns = COMMAND_TIME_NS
        self.pause_ns = 0
        self.expected: dict[int, list[Statement]] = {}
        self.sent: dict[int, list[bytes]] = {}
        self.entries: dict[str, int] = {}
        self.warnings: list[str] = []
        self.printed: list[str] = []
        self.failures: list[str] = []
        self.after_packet: Callable[[], None] = lambda: None

    def close(self) -> None:
        self.switch.close()

    def run(self) -> None:
        """Carry out all statements. Raises StfError for a test that does not fit the program."""
        for s in self.statements:
            try:
                self._statement(s)
            except StfError as error:
                raise StfError(f"line {s.line}: {error}") from None
            except ControlError as error:
                self.warnings.append(f"line {s.line}: refused: {error}")
            except (ValueError, OverflowError) as error:
                raise StfError(f"line {s.line}: {error}") from None
        self._take(self.switch.run(self.now_ns + COMMAND_TIME_NS))

    def _statement(self, s: Statement) -> None:
        if s.kind == "packet":
            self._packet(s)
        elif s.kind == "expect":
            self.expected.setdefault(s.port, []).append(s)
        elif s.kind == "add":
            self.pause_ns = COMMAND_TIME_NS
            self._add(s)
        elif s.kind == "setdefault":
            self.pause_ns = COMMAND_TIME_NS
            self._set_default(s)
        elif s.kind == "check_counter":
            self._check_counter(s)
        elif s.kind in DIRECT:
            self.pause_ns = COMMAND_TIME_NS
            printed = self.commands.call(s.kind, list(s.words))
            if printed:
                self.printed.append(f"line {s.line}: {printed}")
        elif s.kind == "remove":
            self.warnings.append(f"line {s.line}: remove does nothing, as in p4c's driver")

    def _packet(self, s: Statement) -> None:
        if len(s.data or "") % 2:
            raise ControlError("an odd number of digits; the packet is not sent")
        self.now_ns += PACKET_TIME_NS + self.pause_ns
        self.pause_ns = 0
        self.switch.receive(s.port, bytes.fromhex(s.data or ""), self.now_ns)
        self._take(self.switch.advance(self.now_ns))
        self.after_packet()

    def _take(self, packets: list[tuple[int, int, bytes]]) -> None:
        for _, port, data in packets:
            self.sent.setdefault(port, []).append(data)

    def _table(self, name: str) -> Table:
        tables = [(table.name, table) for table in self.info.tables]
        return find_name(tables, name, "table", any_ending=True)

    def _action(self, table: Table, s: Statement) -> tuple[str, list[int]]:
        actions = [(action.name, action) for action in table.actions]
        owner = f"table {table.name}"
        action = find_name(actions, s.action, "action", owner, any_ending=True)
        expected = action.params
        given: dict[str, str] = {}
        for i, (name, value) in enumerate(s.arguments):
            if name is None and i < len(expected):
                name = expected[i].name
            if name is None or name not in [p.name for p in expected]:
                has = ", ".join(p.name for p in expected) or "none"
                raise StfError(f"action {action.name} has no parameter {name or i + 1}; {has}")
            given[name] = value
        values = []
        for p in expected:
            if p.name not in given:
                raise StfError(f"action {action.name} needs a value for {p.name}")
            values.append(fit(given[p.name], p.width, f"parameter {p.name}"))
        return action.name, values

    def _add(self, s: Statement) -> None:
        table = self._table(s.table)
        keys = table.match_keys
        match = [anything(key) for key in keys]
        named = [(find_key(table, name), value) for name, value in s.matches]
        action, values = self._action(table, s)
        for at, value in named:
            match[at] = match_value(keys[at], value, table.name)
        priority = None
        if table.ordered:
            priority = LOWEST_PRIORITY - (s.priority or 0)
        handle = self.switch.table_add(table.name, action, match, values, priority)
        if s.entry:
            self.entries[s.entry] = handle

    def _set_default(self, s: Statement) -> None:
        table = self._table(s.table)
        action, values = self._action(table, s)
        self.switch.table_set_default(table.name, action, values)

    def _check_counter(self, s: Statement) -> None:
        index = s.words[0]
        if index in self.entries:
            number = self.entries[index]
        elif index.lstrip("$") in self.entries:
            number = self.entries[index.lstrip("$")]
        else:
            number = int(index, 0)
        direct = [t.direct_counter for t in self.info.tables if t.direct_counter is not None]
        names = [*(counter.name for counter in self.info.counters), *direct]
        name = find_name([(n, n) for n in names], s.table, "counter", any_ending=True)
        got = self.switch.counter_read(name, number)
        if len(s.words) == 1:
            return
        kind, comparison, limit = s.words[1:]
        if not COMPARE[comparison](got[kind], int(limit, 0)):
            self.failures.append(
                f"line {s.line}: {name}({index}) {kind} is {got[kind]}, not {comparison} {limit}"
            )

    # ---- the verdict ----

    def difference(self) -> Difference | None:
        """The first packet that differs, port by port."""
        ports = {s.port for s in self.statements if s.kind in ("packet", "expect")}
        if any(s.kind == "no_packet" for s in self.statements):
            ports |= set(self.sent)
        found = None
        for port in sorted(ports):
            wanted, sent = self.expected.get(port, []), self.sent.get(port, [])
            for i, (s, data) in enumerate(zip(wanted, sent, strict=False)):
                reason = compare(s.data, data)
                if reason:
                    return Difference(port, i, s.line, s.data, data, reason)
            counts = f"{len(wanted)} packets are expected on port {port}, {len(sent)} left"
            if len(wanted) > len(sent):
                counts += self._extra_packets()
            if len(wanted) > len(sent) and found is None:
                s = wanted[len(sent)]
                found = Difference(port, len(sent), s.line, s.data, None, counts)
            elif len(sent) > len(wanted) and found is None:
                found = Difference(port, len(wanted), None, None, sent[len(wanted)], counts)
        return found

    def _extra_packets(self) -> str:
        """A place where a missing packet may have gone."""
        more = [p for p, d in sorted(self.sent.items()) if len(d) > len(self.expected.get(p, []))]
        if not more:
            return ""
        return f"; more than expected left on port {', '.join(map(str, more))}"


def compare(expected: str | None, sent: bytes) -> str:
    """Reason why the packet is not the expected one; empty if it is."""
    if expected is None:
        return ""
    exact = expected.endswith("$")
    digits, got = expected.rstrip("$"), sent.hex().upper()
    for i, (want, have) in enumerate(zip(digits, got, strict=False)):
        if want not in ("*", have):
            return f"digit {i} (byte {i // 2}) is {have}, not {want}"
    if len(got) < len(digits):
        return f"{len(got) / 2:g} bytes left, {len(digits) / 2:g} are expected"
    if exact and len(got) > len(digits):
        return f"{len(got) / 2:g} bytes left, exactly {len(digits) / 2:g} are expected"
    return ""


def run_test(compiled: Compiled, test: str | Path, seed: int = 0) -> Result:
    """Run one test file on a compiled program. Never raises for what is in the file."""
    result = Result(Path(test))
    try:
        text = Path(test).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        result.status, result.message = "error", f"cannot read {test}: {error.strerror}"
        return result
    run = None
    try:
        statements = parse(text, str(test))
        run = Run(compiled, statements, seed)
        run.run()
        result.packets = sum(s.kind == "packet" for s in statements)
        result.expected = sum(map(len, run.expected.values()))
        failed = run.switch.stats()["failed"]
        result.difference = run.difference()
        if result.difference is not None:
            result.status = "fail"
        elif run.failures or failed:
            result.status = "fail"
            result.message = "\n".join(run.failures) or f"an assertion failed: {run.log[-1:]}"
    except P4Error as error:
        result.status, result.message = "error", str(error)
    except Exception as error:  # a defect here must not end the other tests
        if os.environ.get("P4ENGINE_DEBUG"):
            raise
        result.status = "error"
        result.message = f"internal error of the runner: {type(error).__name__}: {error}"
    finally:
        if run is not None:
            result.warnings, result.printed = run.warnings, run.printed
            run.close()
    return result


def compile_for(program: Path, defines: dict[str, str], includes: Sequence[str]) -> Compiled:
    """Like compile_program, with a clear error for a file that is not there."""
    if not program.is_file():
        raise StfError(f"there is no P4 program {program}")
    return compile_program(program, defines, includes)
