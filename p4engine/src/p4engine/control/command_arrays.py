"""The commands on registers, counters, meters and value sets."""

from __future__ import annotations

from p4engine.control.command_set import CommandSet
from p4engine.control.command_values import CommandError, fit, whole
from p4engine.program_info import ValueSet
from p4engine.values.numbers import number


class ArrayCommands(CommandSet):
    """register_*, counter_*, meter_*, pvs_*."""

    # ---- registers ----

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

    # ---- counters ----

    def do_counter_read(self, words: list[str]) -> str:
        """counter_read COUNTER INDEX"""
        index = whole(words[1], "index")
        got = self.switch.counter_read(words[0], index)
        return f"{words[0]}[{index}] = {got['packets']} packets, {got['bytes']} bytes"

    def do_counter_write(self, words: list[str]) -> None:
        """counter_write COUNTER INDEX PACKETS BYTES"""
        index, packets, octets = (whole(w, "counter_write") for w in words[1:])
        self.switch.counter_write(words[0], index, packets, octets)

    def do_counter_reset(self, words: list[str]) -> None:
        """counter_reset COUNTER"""
        self.switch.counter_reset(words[0])

    # ---- meters ----

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
        """meter_set_rates METER INDEX RATE:BURST..."""
        self.switch.meter_set(words[0], whole(words[1], "index"), self._rates(words[2:]))

    def do_meter_array_set_rates(self, words: list[str]) -> None:
        """meter_array_set_rates METER RATE:BURST..."""
        self.switch.meter_set(words[0], None, self._rates(words[1:]))

    def do_meter_get_rates(self, words: list[str]) -> str:
        """meter_get_rates METER INDEX"""
        index = whole(words[1], "index")
        rates = self.switch.meter_get(words[0], index)
        text = "not set" if rates is None else " ".join(f"{r:g}:{b:g}" for r, b in rates)
        return f"{words[0]}[{index}]: {text}"

    # ---- value sets ----

    def do_show_pvs(self, _words: list[str]) -> str:
        """show_pvs"""
        sets = sorted(self.names.info.value_sets, key=lambda each: each.name)
        return "\n".join(f"{v.name} [{', '.join(map(str, v.widths))} bits]" for v in sets)

    def do_pvs_add(self, words: list[str]) -> None:
        """pvs_add VALUE_SET VALUE"""
        value_set = self.names.value_set(words[0])
        self.switch.value_set_add(value_set.name, self._member(value_set, words[1]))

    def do_pvs_remove(self, words: list[str]) -> None:
        """pvs_remove VALUE_SET VALUE"""
        value_set = self.names.value_set(words[0])
        self.switch.value_set_remove(value_set.name, self._member(value_set, words[1]))

    def do_pvs_get(self, words: list[str]) -> str:
        """pvs_get VALUE_SET"""
        value_set = self.names.value_set(words[0])
        lines = []
        for member in self.switch.value_set_get(value_set.name):
            value, mask = 0, 0
            for (part, part_mask), width in zip(member, value_set.widths, strict=True):
                value, mask = value << width | part, mask << width | part_mask
            full = mask == (1 << sum(value_set.widths)) - 1
            lines.append(f"{value:#x}" if full else f"{value:#x}&&&{mask:#x}")
        return "\n".join(lines)

    def do_pvs_clear(self, words: list[str]) -> None:
        """pvs_clear VALUE_SET"""
        self.switch.value_set_clear(self.names.value_set(words[0]).name)

    @staticmethod
    def _member(value_set: ValueSet, text: str) -> list[int]:
        """The fields of a member, from one number that holds them one behind the other."""
        left, fields = fit(text, sum(value_set.widths), f"value set {value_set.name}"), []
        for width in reversed(value_set.widths):
            fields.append(left & ((1 << width) - 1))
            left >>= width
        return fields[::-1]
