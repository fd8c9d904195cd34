"""Registers, counters, meters and value sets of an instance, from the control plane."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from ctypes import c_uint64
from typing import Any

from p4engine.program_info import Key, Register, Table, ValueSet
from p4engine.switch.pipeline_abi import NO_RATES, SINGLE_RATE, TWO_RATES, Count, Rates
from p4engine.switch.pipeline_instance import Instance
from p4engine.values.matches import key_words
from p4engine.values.numbers import (
    ControlError,
    from_words,
    number,
    to_words,
    word_array,
    word_count,
)

COLOURS = 3


class Arrays(Instance):
    """An array that a program addresses by number."""

    # ---- registers ----

    def register_read(self, name: str, start: int = 0, count: int | None = None) -> list[int]:
        """Elements start .. start + count; int<W> registers give signed numbers."""
        r = self.names.register(name)
        words = self._read_words(r, start, count)
        n = word_count(r.width)
        values = (
            words.tolist()
            if n == 1
            else [from_words(words[i : i + n], r.width) for i in range(0, len(words), n)]
        )
        if r.signed:
            half, full = 1 << (r.width - 1), 1 << r.width
            values = [v - full if v >= half else v for v in values]
        return values

    def register_words(
        self, name: str, start: int = 0, count: int | None = None
    ) -> array[int] | list[int]:
        """The same in one piece of memory, for many elements: array("Q"), unsigned, of a register
        of at most 64 bits. Over a control connection it is a list."""
        r = self.names.register(name)
        if word_count(r.width) != 1:
            raise ControlError(f"{r.name} has elements of {r.width} bits; at most 64 fit a word")
        return self._read_words(r, start, count)

    def _read_words(self, r: Register, start: int, count: int | None) -> array[int]:
        start, count = self._range(r, start, count)
        words = array("Q", bytes(8 * word_count(r.width) * count))
        room, _ = words.buffer_info()  # not as a ctypes array: its type would be made anew
        status = self.lib.p4_register_read(self.handle, r.id, start, count, room)
        self._check(status, f"register {r.name}")
        return words

    @staticmethod
    def _range(r: Register, start: int, count: int | None) -> tuple[int, int]:
        if count is None:
            count = r.size - start
        if start < 0 or count < 0 or start + count > r.size:
            raise ControlError(
                f"{r.name} has elements 0 to {r.size - 1}; {start} to {start + count - 1} asked"
            )
        return start, count

    def register_write(self, name: str, index: Any, values: Any) -> None:
        """Write one element (int), or elements start..stop (pair or range) with one value or a
        list."""
        r = self.names.register(name)
        what = f"register {r.name}"
        if isinstance(index, range):
            if index.step != 1:
                raise ControlError(f"{what}: a range of step 1 is needed")
            index = (index.start, index.stop)
        if isinstance(index, int):
            many = isinstance(values, Sequence) and not isinstance(values, str | bytes)
            many = many or (hasattr(values, "tolist") and getattr(values, "ndim", 0) > 0)
            start, stop = index, index + (len(values) if many else 1)
        else:
            start, stop = index
        start, count = self._range(r, start, stop - start)
        if hasattr(values, "tolist"):
            values = values.tolist()
        width, signed = r.width, r.signed
        if isinstance(values, Sequence) and not isinstance(values, str | bytes):
            if len(values) != count:
                raise ControlError(f"{what}: {count} elements, but {len(values)} values")
            words: list[int] = []
            for value in values:
                words += to_words(number(value, width, what, signed), width)
            status = self.lib.p4_register_write(self.handle, r.id, start, count, word_array(words))
        else:
            words = to_words(number(values, width, what, signed), width)
            status = self.lib.p4_register_fill(self.handle, r.id, start, count, word_array(words))
        self._check(status, what)

    def register_reset(self, name: str) -> None:
        """All elements to what they are at the beginning: 0 where the program does not say."""
        r = self.names.register(name)
        self.register_write(name, (0, r.size), r.initial)

    # ---- counters and meters ----

    def counter_read(self, name: str, index: int = 0) -> dict[str, int]:
        """{"packets", "bytes"} of one element; for a direct counter `index` is the entry's
        handle."""
        value = Count()
        counter = self.names.counter(name)
        if isinstance(counter, Table):
            status = self.lib.p4_direct_counter_read(
                self.handle, counter.id, index, ctypes.byref(value)
            )
        else:
            if index < 0:
                raise ControlError(f"counter {name}[{index}]: the index is out of range")
            status = self.lib.p4_counter_read(
                self.handle, counter.id, index, 1, ctypes.byref(value)
            )
        self._check(status, f"counter {name}[{index}]")
        return {"packets": value.packets, "bytes": value.bytes}

    def counter_write(self, name: str, index: int, packets: int = 0, bytes: int = 0) -> None:
        """Set one element; `index` as for `counter_read`."""
        value = Count(packets, bytes)
        counter = self.names.counter(name)
        if isinstance(counter, Table):
            status = self.lib.p4_direct_counter_write(
                self.handle, counter.id, index, ctypes.byref(value)
            )
        else:
            status = self.lib.p4_counter_write(self.handle, counter.id, index, ctypes.byref(value))
        self._check(status, f"counter {name}[{index}]")

    def counter_reset(self, name: str) -> None:
        """Set all elements to 0; of a direct counter, those of all its table's entries."""
        counter = self.names.counter(name)
        if isinstance(counter, Table):
            status = self.lib.p4_direct_counter_reset(self.handle, counter.id)
        else:
            status = self.lib.p4_counter_reset(self.handle, counter.id)
        self._check(status, f"counter {name}")

    def meter_set(
        self, name: str, index: int | None, rates: Sequence[tuple[float, float]] | None
    ) -> None:
        """rates: [(committed per microsecond, burst), (peak per microsecond, burst)], or None: as
        if never set. A third pair, (0, excess burst), makes it a single-rate meter (RFC 2697),
        where peak is the same as committed. index None: all; for a direct meter it is the entry's
        handle."""
        if rates is not None and len(rates) not in (2, 3):
            raise ControlError(f"meter {name}: two rates are needed, committed and peak")
        value = Rates(set=NO_RATES if rates is None else TWO_RATES)
        for rate, burst in rates or ():
            if not (rate >= 0 and burst >= 0):
                raise ControlError(f"meter {name}: rates and bursts cannot be negative")
        for i, (rate, burst) in enumerate((rates or ())[:2]):
            value.rate[i], value.burst[i] = rate, burst
        if rates is not None and len(rates) == 3:
            if tuple(rates[0]) != tuple(rates[1]):
                raise ControlError(f"meter {name}: a meter with an excess burst has a single rate")
            value.set, value.burst[1] = SINGLE_RATE, rates[2][1]
        meter = self.names.meter(name)
        if isinstance(meter, Table):
            status = self.lib.p4_direct_meter_set(
                self.handle, meter.id, -1 if index is None else index, ctypes.byref(value)
            )
        else:
            if index is None:
                status = self.lib.p4_meter_set_all(self.handle, meter.id, ctypes.byref(value))
            else:
                status = self.lib.p4_meter_set(self.handle, meter.id, index, ctypes.byref(value))
        self._check(status, f"meter {name}[{index}]")

    def meter_get(self, name: str, index: int) -> list[tuple[float, float]] | None:
        """The (rate, burst) as `meter_set` takes them, or None if the meter was never set."""
        value = Rates()
        meter = self.names.meter(name)
        if isinstance(meter, Table):
            status = self.lib.p4_direct_meter_get(self.handle, meter.id, index, ctypes.byref(value))
        else:
            status = self.lib.p4_meter_get(self.handle, meter.id, index, ctypes.byref(value))
        self._check(status, f"meter {name}[{index}]")
        if value.set == NO_RATES:
            return None
        committed = (value.rate[0], value.burst[0])
        if value.set == SINGLE_RATE:
            return [committed, committed, (0.0, value.burst[1])]
        return [committed, (value.rate[1], value.burst[1])]

    def meter_counts(self, name: str, index: int) -> list[dict[str, int]]:
        """[green, yellow, red]: {"packets", "bytes"} that have got the colour; `index` as for
        `counter_read`."""
        values = (Count * COLOURS)()
        self._meter_counts("get", name, index, values)
        return [{"packets": each.packets, "bytes": each.bytes} for each in values]

    def meter_counts_set(
        self, name: str, index: int, counts: Sequence[dict[str, int]] | None = None
    ) -> None:
        """Set what `meter_counts` gives; None: to 0."""
        values = (Count * COLOURS)()
        for value, count in zip(values, counts or (), strict=False):
            value.packets, value.bytes = count["packets"], count["bytes"]
        self._meter_counts("set", name, index, values)

    def _meter_counts(self, do: str, name: str, index: int, values: Any) -> None:
        meter = self.names.meter(name)
        direct = "direct_" if isinstance(meter, Table) else ""
        function = getattr(self.lib, f"p4_{direct}meter_counts_{do}")
        self._check(function(self.handle, meter.id, index, values), f"meter {name}[{index}]")

    # ---- value sets ----

    def value_set_add(self, name: str, match: Sequence[Any]) -> None:
        """Add a member: one number, (value, mask) or None per field."""
        v = self.names.value_set(name)
        words = word_array(self._member_words(v, match))
        status = self.lib.p4_value_set_add(self.handle, v.id, words)
        self._check(status, f"value_set {v.name}")

    def value_set_clear(self, name: str) -> None:
        """Remove all members."""
        self.lib.p4_value_set_clear(self.handle, self.names.value_set(name).id)

    def value_set_get(self, name: str) -> list[list[tuple[int, int]]]:
        """The members: a (value, mask) per field, in the order in which they were added."""
        v = self.names.value_set(name)
        words = (c_uint64 * (2 * sum(word_count(width) for width in v.widths) + 1))()
        members: list[list[tuple[int, int]]] = []
        while self.lib.p4_value_set_get(self.handle, v.id, len(members), words) == 0:
            at, member = 0, []
            for width in v.widths:
                n = word_count(width)
                value, mask = words[at : at + n], words[at + n : at + 2 * n]
                member.append((from_words(value, width), from_words(mask, width)))
                at += 2 * n
            members.append(member)
        return members

    def value_set_remove(self, name: str, match: Sequence[Any]) -> None:
        """Remove the members that are equal to `match`, which is as for `value_set_add`."""
        v = self.names.value_set(name)
        gone = self._member_words(v, match)
        kept = [each for each in self.value_set_get(name) if self._member_words(v, each) != gone]
        self.value_set_clear(name)
        for member in kept:
            self.value_set_add(name, member)

    @staticmethod
    def _member_words(v: ValueSet, match: Sequence[Any]) -> list[int]:
        if len(match) != len(v.widths):
            raise ControlError(f"value_set {v.name} has {len(v.widths)} fields")
        words: list[int] = []
        for width, value in zip(v.widths, match, strict=True):
            words += key_words(Key("", "ternary", width), value, f"value_set {v.name}")
        return words
