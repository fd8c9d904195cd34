"""Control commands as text, one per line, spelled as for BMv2's simple_switch_CLI.

    table_add ipv4_lpm forward 10.0.1.0/24 => 00:00:00:00:01:01 2
    table_add acl drop 0x0800&&&0xffff 1024->65535 => 10
    mc_mgrp_create 1
    mc_node_create 0 1 2 3
    mc_node_associate 1 0
    mirroring_add 5 3
    register_write seen 0 1

Command files of other switches, exercises and STF tests thereby run here unchanged. A `Commands`
keeps what the commands' own handles mean (multicast nodes) and passes everything on to a switch:
a `library.Switch` or a `control.Client`, which have the same calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from p4engine.control.command_copies import CopyCommands
from p4engine.control.command_values import CommandError, fit, match_value, whole
from p4engine.frontend.diagnostics import did_you_mean
from p4engine.program_info import Action, ProgramInfo, Table
from p4engine.values.matches import Match
from p4engine.values.names import Names
from p4engine.values.numbers import ControlError, number


class Commands:
    """Carries out command lines on `switch`.

    `run` returns what a command prints (None for nothing) and raises ControlError with one clear
    line; the switch is then as before. Names are those of the program, full or by an unambiguous
    suffix.
    """

    def __init__(self, switch: Any):
        self.switch = switch
        self.info = ProgramInfo.from_json(switch.info()["program"])
        self.names = Names(self.info)
        self.calls: dict[str, Callable[[list[str]], str | None]] = {
            name[3:]: getattr(owner, name)
            for owner in (self, CopyCommands(switch))
            for name in dir(owner)
            if name.startswith("do_")
        }

    def run(self, line: str) -> str | None:
        """Carry out one line; comments (#) and empty lines do nothing."""
        words = line.split("#", 1)[0].split()
        if not words:
            return None
        return self.call(words[0], words[1:])

    def call(self, name: str, arguments: list[str]) -> str | None:
        """Carry out one command given in words."""
        function = self.calls.get(name.lower())
        if function is None:
            hint = did_you_mean(name, self.calls)
            raise CommandError(f"there is no command {name!r}{hint}")
        try:
            return function(arguments)
        except IndexError:
            spelling = (function.__doc__ or "").strip().splitlines()[0]
            raise CommandError(f"{name} needs more arguments: {spelling}") from None

    def run_file(self, path: str | Path) -> list[str]:
        """Carry out a file; returns what its commands print. The first failure ends it."""
        try:
            lines = Path(path).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CommandError(f"cannot read {path}: {reason}") from None
        printed = []
        for count, line in enumerate(lines, 1):
            try:
                text = self.run(line)
            except ControlError as error:
                raise CommandError(f"{path}:{count}: {error}\n    {line.strip()}") from None
            if text is not None:
                printed.append(text)
        return printed

    # ---- entries ----

    @staticmethod
    def params(action: Action, texts: Sequence[str]) -> list[int]:
        """Values of an action's parameters in order."""
        expected = action.params
        if len(texts) != len(expected):
            names = ", ".join(p.name for p in expected) or "nothing"
            raise CommandError(
                f"action {action.name} takes {len(expected)} parameters ({names}),"
                f" {len(texts)} given"
            )
        return [
            fit(text, p.width, f"action {action.name}, parameter {p.name}")
            for p, text in zip(expected, texts, strict=True)
        ]

    def match(self, table: Table, texts: Sequence[str]) -> list[Match]:
        """The match of an entry, one value per key."""
        keys = table.match_keys
        if len(texts) != len(keys):
            names = ", ".join(k.name for k in keys) or "none"
            raise CommandError(
                f"table {table.name} has {len(keys)} keys ({names}), {len(texts)} values given"
            )
        return [
            match_value(k, text, f"table {table.name}") for k, text in zip(keys, texts, strict=True)
        ]

    @staticmethod
    def _split(words: list[str]) -> tuple[list[str], list[str]]:
        """What stands before and behind =>."""
        if "=>" not in words:
            return words, []
        at = words.index("=>")
        return words[:at], words[at + 1 :]

    def _priority(self, table: Table, words: list[str]) -> int | None:
        """Take the priority from the end of the words behind =>."""
        if not table.ordered:
            return None
        if not words:
            raise CommandError(
                f"table {table.name} needs a priority as the last word (the lower wins)"
            )
        return whole(words.pop(), "priority")

    # ---- tables ----

    def do_table_add(self, words: list[str]) -> str:
        """table_add TABLE ACTION MATCH... => PARAMETER... [PRIORITY]"""
        table = self.names.table(words[0])
        action = self.names.action(table, words[1])
        match, rest = self._split(words[2:])
        priority = self._priority(table, rest)
        handle = self.switch.table_add(
            table.name,
            action.name,
            self.match(table, match),
            self.params(action, rest),
            priority,
        )
        return f"entry {handle} added to {table.name}"

    def do_table_set_default(self, words: list[str]) -> None:
        """table_set_default TABLE ACTION PARAMETER..."""
        table = self.names.table(words[0])
        action = self.names.action(table, words[1])
        rest = [w for w in words[2:] if w != "=>"]
        self.switch.table_set_default(table.name, action.name, self.params(action, rest))

    def do_table_reset_default(self, words: list[str]) -> None:
        """table_reset_default TABLE"""
        self.switch.table_reset_default(self.names.table(words[0]).name)

    def do_table_modify(self, words: list[str]) -> None:
        """table_modify TABLE ACTION HANDLE PARAMETER..."""
        table = self.names.table(words[0])
        action = self.names.action(table, words[1])
        rest = [w for w in words[3:] if w != "=>"]
        self.switch.table_modify(
            table.name, whole(words[2], "handle"), action.name, self.params(action, rest)
        )

    def do_table_delete(self, words: list[str]) -> None:
        """table_delete TABLE HANDLE"""
        table = self.names.table(words[0])
        self.switch.table_delete(table.name, whole(words[1], "handle"))

    def do_table_clear(self, words: list[str]) -> None:
        """table_clear TABLE"""
        self.switch.table_clear(self.names.table(words[0]).name)

    def do_table_num_entries(self, words: list[str]) -> str:
        """table_num_entries TABLE"""
        return str(self.switch.table_count(self.names.table(words[0]).name))

    def do_table_dump(self, words: list[str]) -> str:
        """table_dump TABLE"""
        lines = []
        for entry in self.switch.table_dump(self.names.table(words[0]).name):
            where = "default" if entry["handle"] < 0 else f"entry {entry['handle']}"
            act = entry.get("action") or f"{'member' if 'member' in entry else 'group'}"
            lines.append(f"{where}: {entry['match']} => {act} {entry.get('params', '')}")
        return "\n".join(lines)

    # ---- action profiles ----

    def do_act_prof_create_member(self, words: list[str]) -> str:
        """act_prof_create_member PROFILE ACTION PARAMETER..."""
        profile = self.names.profile(words[0])
        action = self.names.profile_action(profile, words[1])
        member = self.switch.member_add(profile.name, action.name, self.params(action, words[2:]))
        return f"member {member}"

    def do_act_prof_create_group(self, words: list[str]) -> str:
        """act_prof_create_group PROFILE"""
        return f"group {self.switch.group_add(self.names.profile(words[0]).name)}"

    def do_act_prof_add_member_to_group(self, words: list[str]) -> None:
        """act_prof_add_member_to_group PROFILE MEMBER GROUP"""
        self.switch.group_add_member(
            self.names.profile(words[0]).name,
            whole(words[2], "group"),
            whole(words[1], "member"),
        )

    def _indirect(self, words: list[str], target: str) -> str:
        table = self.names.table(words[0])
        match, rest = self._split(words[1:])
        priority = self._priority(table, rest)
        handle = self.switch.table_add_indirect(
            table.name,
            self.match(table, match),
            priority=priority,
            **{target: whole(rest[0], target)},
        )
        return f"entry {handle} added to {table.name}"

    def do_table_indirect_add(self, words: list[str]) -> str:
        """table_indirect_add TABLE MATCH... => MEMBER [PRIORITY]"""
        return self._indirect(words, "member")

    def do_table_indirect_add_with_group(self, words: list[str]) -> str:
        """table_indirect_add_with_group TABLE MATCH... => GROUP [PRIORITY]"""
        return self._indirect(words, "group")

    # ---- registers, counters, meters ----

    def do_register_read(self, words: list[str]) -> str:
        """register_read REGISTER [INDEX]"""
        name = self.names.register(words[0]).name
        if len(words) > 1:
            index = whole(words[1], "index")
            return f"{name}[{index}] = {self.switch.register_read(name, index, 1)[0]}"
        return f"{name} = {', '.join(map(str, self.switch.register_read(name)))}"

    def do_register_write(self, words: list[str]) -> None:
        """register_write REGISTER INDEX VALUE"""
        register = self.names.register(words[0])
        what = f"register {register.name}"
        value = number(words[2], max(register.width, 64), what, words[2].startswith("-"))
        value &= (1 << register.width) - 1
        if register.signed and value >> (register.width - 1):
            value -= 1 << register.width
        self.switch.register_write(register.name, whole(words[1], f"{what}, index"), value)

    def do_register_reset(self, words: list[str]) -> None:
        """register_reset REGISTER"""
        self.switch.register_reset(self.names.register(words[0]).name)

    def do_counter_read(self, words: list[str]) -> str:
        """counter_read COUNTER INDEX"""
        index = whole(words[1], "index")
        got = self.switch.counter_read(words[0], index)
        return f"{words[0]}[{index}] = {got['packets']} packets, {got['bytes']} bytes"

    def do_counter_write(self, words: list[str]) -> None:
        """counter_write COUNTER INDEX PACKETS BYTES"""
        index, packets, octets = (whole(w, "counter_write") for w in (words[1], words[2], words[3]))
        self.switch.counter_write(words[0], index, packets, octets)

    def do_counter_reset(self, words: list[str]) -> None:
        """counter_reset COUNTER"""
        self.switch.counter_reset(words[0])

    @staticmethod
    def _rates(words: list[str]) -> list[tuple[float, float]]:
        if len(words) != 2:
            raise CommandError("two rates are needed, committed and peak, each RATE:BURST")
        rates = []
        for word in words:
            rate, _, burst = word.partition(":")
            try:
                rates.append((float(rate), float(burst)))
            except ValueError:
                raise CommandError(f"{word!r} is not RATE:BURST (units per microsecond)") from None
        return rates

    def do_meter_set_rates(self, words: list[str]) -> None:
        """meter_set_rates METER INDEX RATE:BURST RATE:BURST"""
        self.switch.meter_set(words[0], whole(words[1], "index"), self._rates(words[2:]))

    def do_meter_array_set_rates(self, words: list[str]) -> None:
        """meter_array_set_rates METER RATE:BURST RATE:BURST"""
        self.switch.meter_set(words[0], None, self._rates(words[1:]))

    def do_meter_get_rates(self, words: list[str]) -> str:
        """meter_get_rates METER INDEX"""
        index = whole(words[1], "index")
        rates = self.switch.meter_get(words[0], index)
        text = "not set" if rates is None else " ".join(f"{r:g}:{b:g}" for r, b in rates)
        return f"{words[0]}[{index}]: {text}"

    # ---- queues ----

    def do_set_queue_rate(self, words: list[str]) -> None:
        """set_queue_rate PACKETS_PER_SECOND [PORT [PRIORITY]]"""
        self.switch.queue_rate(whole(words[0], "rate"), *self._queue(words[1:]))

    def do_set_queue_depth(self, words: list[str]) -> None:
        """set_queue_depth PACKETS [PORT [PRIORITY]]"""
        self.switch.queue_depth(whole(words[0], "depth"), *self._queue(words[1:]))

    @staticmethod
    def _queue(words: list[str]) -> list[int]:
        """Port and priority, as far as they are given."""
        return [whole(word, what) for word, what in zip(words, ("port", "priority"), strict=False)]
