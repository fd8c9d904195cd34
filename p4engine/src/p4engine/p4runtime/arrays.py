"""Counters, meters, registers and value sets: what a request addresses by an index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4engine.p4runtime.catalog import Array, Catalog, ValueSet
from p4engine.p4runtime.matches import decode_field, encode_match, encoded, number
from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.p4runtime.status import Code, Refused, invalid, unimplemented
from p4engine.p4runtime.transactions import Undo
from p4engine.values.matches import Match, anything

PER_SECOND = 1e6  # the engine's meters have rates per microsecond
LARGEST = 2**63 - 1
CHUNK = 1024  # elements of a register that are read at once


class Arrays:
    """`program` has the calls of `pipeline.Pipeline`."""

    def __init__(self, catalog: Catalog, program: Any) -> None:
        self.catalog = catalog
        self.program = program
        self.value_sets: dict[int, list[list[Match]]] = {}

    # ---- registers ----

    def write_register(self, kind: str, entry: Any) -> None:
        """Set one element."""
        register = self._target(kind, "registers", entry.register_id, entry)
        what = f"register {register.name}"
        given = entry.data.WhichOneof("data")
        wanted = register.kind if register.kind in ("bool", "struct") else "bitstring"
        if given != wanted:
            invalid(f"{what}: the data is a {wanted}, not {given or 'missing'}")
        if given == "bool":
            value = int(entry.data.bool)
        elif given == "struct":
            value = _joined(entry.data.struct.members, register.parts, what)
        else:
            value = number(entry.data.bitstring, register.width, what)
            if register.kind == "int" and value >> (register.width - 1):
                value -= 1 << register.width
        for index in _indices(register, entry):
            self.program.register_write(register.name, index, value)

    def undo_register(self, kind: str, entry: Any) -> Undo:
        """The undo of a `write_register` that comes now."""
        register = self._target(kind, "registers", entry.register_id, entry)
        at = _indices(register, entry)
        old = self.program.register_read(register.name, at.start, len(at))
        return lambda: self.program.register_write(register.name, at, old)

    def read_registers(self, entry: Any) -> Iterator[Any]:
        """One element, all of a register, or all of all registers."""
        for register in self._asked("registers", entry.register_id, entry):
            indices = _indices(register, entry)
            for start in range(indices.start, indices.stop, CHUNK):
                count = min(CHUNK, indices.stop - start)
                values = self.program.register_read(register.name, start, count)
                for index, value in enumerate(values, start):
                    made = p4runtime_pb2.Entity()
                    made.register_entry.register_id = register.id
                    made.register_entry.index.index = index
                    data = made.register_entry.data
                    if register.kind == "bool":
                        data.bool = bool(value)
                    elif register.kind == "struct":
                        for part in _parted(value, register.parts):
                            data.struct.members.add(bitstring=encoded(part))
                    else:
                        data.bitstring = encoded(value & ((1 << register.width) - 1))
                    yield made

    # ---- counters ----

    def write_counter(self, kind: str, entry: Any) -> None:
        """Set one element, or without an index all; without data nothing changes."""
        counter = self._target(kind, "counters", entry.counter_id, entry)
        data = check_count(entry.data, f"counter {counter.name}")
        if not entry.HasField("data"):
            return
        for index in _indices(counter, entry):
            self.program.counter_write(counter.name, index, data.packet_count, data.byte_count)

    def undo_counter(self, kind: str, entry: Any) -> Undo:
        """The undo of a `write_counter` that comes now."""
        name = self._target(kind, "counters", entry.counter_id, entry).name
        indices = _indices(self.catalog.counters[entry.counter_id], entry)
        old = [(index, self.program.counter_read(name, index)) for index in indices]

        def restore() -> None:
            for index, count in old:
                self.program.counter_write(name, index, **count)

        return restore

    def read_counters(self, entry: Any) -> Iterator[Any]:
        """One element, all of a counter, or all of all counters."""
        for counter in self._asked("counters", entry.counter_id, entry):
            for index in _indices(counter, entry):
                value = self.program.counter_read(counter.name, index)
                made = p4runtime_pb2.Entity()
                made.counter_entry.counter_id = counter.id
                made.counter_entry.index.index = index
                put_count(made.counter_entry.data, value)
                yield made

    # ---- meters ----

    def write_meter(self, kind: str, entry: Any) -> None:
        """Set one element, or all; without a configuration all packets are green again."""
        meter = self._target(kind, "meters", entry.meter_id, entry)
        config = entry.config if entry.HasField("config") else None
        rates = decode_rates(config, meter.kind, f"meter {meter.name}")
        if entry.HasField("counter_data"):
            check_zero(entry.counter_data, f"meter {meter.name}")
        for index in _indices(meter, entry):
            self.program.meter_set(meter.name, index, rates)
            if entry.HasField("counter_data"):
                self.program.meter_counts_set(meter.name, index)

    def undo_meter(self, kind: str, entry: Any) -> Undo:
        """The undo of a `write_meter` that comes now."""
        name = self._target(kind, "meters", entry.meter_id, entry).name
        indices = _indices(self.catalog.meters[entry.meter_id], entry)
        get, counts = self.program.meter_get, self.program.meter_counts
        old = [(index, get(name, index), counts(name, index)) for index in indices]

        def restore() -> None:
            for index, rates, counted in old:
                self.program.meter_set(name, index, rates)
                self.program.meter_counts_set(name, index, counted)

        return restore

    def read_meters(self, entry: Any) -> Iterator[Any]:
        """One element, all of a meter, or all of all meters."""
        for meter in self._asked("meters", entry.meter_id, entry):
            for index in _indices(meter, entry):
                made = p4runtime_pb2.Entity()
                made.meter_entry.meter_id = meter.id
                made.meter_entry.index.index = index
                rates = self.program.meter_get(meter.name, index)
                if rates is not None:
                    encode_rates(rates, made.meter_entry.config)
                if entry.HasField("counter_data"):
                    counts = self.program.meter_counts(meter.name, index)
                    put_colours(made.meter_entry.counter_data, counts)
                yield made

    # ---- value sets ----

    def write_value_set(self, kind: str, entry: Any) -> None:
        """Replace all members."""
        if kind != "MODIFY":
            invalid("a value set can only be modified: all its members at once")
        found: ValueSet = self.catalog.find("value_sets", entry.value_set_id)
        if len(entry.members) > found.size:
            raise Refused(
                Code.RESOURCE_EXHAUSTED, f"value set {found.name} has room for {found.size}"
            )
        members = [self._member(found, member) for member in entry.members]
        if len({tuple(member) for member in members}) < len(members):
            raise Refused(Code.ALREADY_EXISTS, f"value set {found.name}: a member is given twice")
        self._set_members(found, members)

    def undo_value_set(self, kind: str, entry: Any) -> Undo:
        """The undo of a `write_value_set` that comes now."""
        found = self.catalog.find("value_sets", entry.value_set_id)
        old = self.value_sets.get(found.id, [])
        return lambda: self._set_members(found, old)

    def _set_members(self, value_set: ValueSet, members: list[list[Match]]) -> None:
        self.program.value_set_clear(value_set.name)
        for member in members:
            self.program.value_set_add(value_set.name, [match.plain() for match in member])
        self.value_sets[value_set.id] = members

    @staticmethod
    def _member(value_set: ValueSet, member: Any) -> list[Match]:
        what = f"value set {value_set.name}"
        given = {field.field_id: field for field in member.match}
        if set(given) - {field.id for field in value_set.fields}:
            invalid(f"{what}: there is no such field")
        result: list[Match] = []
        for field in value_set.fields:
            if field.kind not in ("exact", "ternary"):
                unimplemented(f"{what}: fields are exact or ternary, not {field.kind}")
            if field.id in given:
                result.append(decode_field(field, given[field.id], what))
            elif field.kind == "exact":
                invalid(f"{what}: a value for {field.name or 'the field'} is missing")
            else:
                result.append(anything(field))
        return result

    def read_value_sets(self, entry: Any) -> Iterator[Any]:
        """One value set, or all."""
        asked = [entry.value_set_id] if entry.value_set_id else sorted(self.catalog.value_sets)
        for id_ in asked:
            found = self.catalog.find("value_sets", id_)
            made = p4runtime_pb2.Entity()
            made.value_set_entry.value_set_id = id_
            for member in self.value_sets.get(id_, []):
                encode_match(found.fields, member, made.value_set_entry.members.add().match)
            yield made

    def clear(self) -> None:
        """Everything as it was when the program was loaded."""
        for register in self.catalog.registers.values():
            self.program.register_reset(register.name)
        for counter in self.catalog.counters.values():
            self.program.counter_reset(counter.name)
        for meter in self.catalog.meters.values():
            self.program.meter_set(meter.name, None, None)
        for value_set in self.catalog.value_sets.values():
            self.program.value_set_clear(value_set.name)
        self.value_sets.clear()

    # ---- what a request addresses ----

    def _target(self, kind: str, objects: str, id_: int, entry: Any) -> Array:
        if kind != "MODIFY":
            invalid(f"elements of {objects} can only be modified")
        found: Array = self.catalog.find(objects, id_)
        _indices(found, entry)
        return found

    def _asked(self, objects: str, id_: int, entry: Any) -> list[Array]:
        if id_:
            return [self.catalog.find(objects, id_)]
        if entry.HasField("index"):
            invalid(f"an index means nothing without a number of one of the {objects}")
        return [found for _, found in sorted(getattr(self.catalog, objects).items())]


def _indices(array: Array, entry: Any) -> range:
    if not entry.HasField("index"):
        return range(array.size)
    index = entry.index.index
    if index < 0:
        invalid(f"{array.name}: the index {index} is negative")
    if index >= array.size:
        raise Refused(
            Code.OUT_OF_RANGE, f"{array.name} has elements 0 to {array.size - 1}, not {index}"
        )
    return range(index, index + 1)


def check_count(data: Any, what: str) -> Any:
    """A CounterData that can be written."""
    if data.packet_count < 0 or data.byte_count < 0:
        invalid(f"{what}: a count cannot be negative")
    return data


def put_count(target: Any, value: dict[str, int]) -> None:
    """The engine's counts into a CounterData; what is past its 63 bits stays at the largest."""
    target.SetInParent()
    target.packet_count = min(value["packets"], LARGEST)
    target.byte_count = min(value["bytes"], LARGEST)


COLOURS = ("green", "yellow", "red")


def check_zero(data: Any, what: str) -> None:
    """A MeterCounterData that can be written: it only sets to 0."""
    for name in COLOURS:
        count = getattr(data, name)
        if count.packet_count or count.byte_count:
            invalid(f"{what}: counts per colour can only be set to 0")


def put_colours(target: Any, counts: list[dict[str, int]]) -> None:
    """The engine's counts into a MeterCounterData."""
    for name, count in zip(COLOURS, counts, strict=True):
        put_count(getattr(target, name), count)


def decode_rates(config: Any, kind: str, what: str) -> list[tuple[float, float]] | None:
    """A MeterConfig (None: all is green) to the engine's rates.

    Args:
        kind: the name of the meter's MeterSpec.Type.
    """
    if config is None:
        return None
    values = (config.cir, config.cburst, config.pir, config.pburst, config.eburst)
    if min(values) < 0:
        invalid(f"{what}: a rate or burst cannot be negative")
    if config.cir > config.pir:
        invalid(f"{what}: the committed rate is above the peak rate")
    if kind != "SINGLE_RATE_THREE_COLOR" and config.eburst:
        invalid(f"{what}: only a meter of the type SINGLE_RATE_THREE_COLOR has an excess burst")
    rates = [
        (config.cir / PER_SECOND, float(config.cburst)),
        (config.pir / PER_SECOND, float(config.pburst)),
    ]
    if kind == "TWO_RATE_THREE_COLOR":
        return rates
    if (config.cir, config.cburst) != (config.pir, config.pburst):
        invalid(f"{what}: in a meter of the type {kind}, pir is cir and pburst is cburst")
    return [*rates, (0.0, float(config.eburst))] if config.eburst else rates


def encode_rates(rates: list[tuple[float, float]], target: Any) -> None:
    """The engine's rates into a MeterConfig."""
    target.SetInParent()
    (target.cir, target.cburst), (target.pir, target.pburst) = (
        (round(rate * PER_SECOND), round(burst)) for rate, burst in rates[:2]
    )
    if len(rates) == 3:
        target.eburst = round(rates[2][1])


def _joined(members: Any, widths: tuple[int, ...], what: str) -> int:
    """The number that a struct is for the program, the first field uppermost."""
    if len(members) != len(widths):
        invalid(f"{what}: the struct has {len(widths)} members, not {len(members)}")
    value = 0
    for member, width in zip(members, widths, strict=True):
        if member.WhichOneof("data") != "bitstring":
            invalid(f"{what}: the members are bitstrings")
        value = value << width | number(member.bitstring, width, what)
    return value


def _parted(value: int, widths: tuple[int, ...]) -> Iterator[int]:
    """The members of a struct, in their order."""
    left = sum(widths)
    for width in widths:
        left -= width
        yield value >> left & ((1 << width) - 1)
