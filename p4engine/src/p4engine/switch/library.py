"""A P4 switch as a Python object: compile a program, feed packets, look at registers.

    from p4engine import compile_program
    from p4engine.switch.library import Switch

    switch = Switch(compile_program("l2.p4"), ports=[1, 2])
    switch.table_add("forward", "to_port", ["02:00:00:00:00:02"], [2])
    switch.receive(1, packet, now_ns=0)
    print(switch.run())                      # [(time in ns, port, bytes), ...]
    print(switch.register_read("seen", 0, 16))

There is no clock and no network: time is what the caller says. A switch process (`process.py`) is
this object with a packet loop, and its control socket offers the same calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from p4engine.program_info import Table
from p4engine.switch import lossless_links
from p4engine.switch.pipeline_arrays import Arrays
from p4engine.switch.pipeline_tables import Tables
from p4engine.switch.replication import Replication
from p4engine.values.numbers import ControlError

# What a program's objects offer, carried out by `Pipeline`.
PROGRAM_CALLS = (
    "table_add",
    "table_add_indirect",
    "table_modify",
    "table_modify_indirect",
    "table_delete",
    "table_clear",
    "table_set_default",
    "table_set_default_indirect",
    "table_reset_default",
    "table_count",
    "table_find",
    "table_get",
    "table_dump",
    "table_set_timeout",
    "table_age",
    "member_add",
    "member_modify",
    "member_delete",
    "group_add",
    "group_delete",
    "group_add_member",
    "group_remove_member",
    "profile_dump",
    "register_read",
    "register_words",
    "register_write",
    "register_reset",
    "counter_read",
    "counter_write",
    "counter_reset",
    "meter_set",
    "meter_get",
    "meter_counts",
    "value_set_add",
    "value_set_get",
    "value_set_remove",
    "value_set_clear",
)
# What the traffic manager offers, beside packets and time.
MANAGER_CALLS = (
    "multicast_group",
    "multicast_delete",
    "multicast_get",
    "multicast_dump",
    "node_add",
    "node_modify",
    "node_delete",
    "node_join",
    "node_leave",
    "lag_set",
    "mirror_session",
    "mirror_get",
    "port_shape",
    "port_shape_get",
    "port_up",
    "port_loopback",
    "deflection_port",
    "cpu_copies",
    "queue_rate",
    "queue_depth",
    "queue_stats",
    "port_stats",
    "port_queues",
    "notes_set",
    "notes",
    "buffer_set",
    "flow_stats",
    "pauses",
    "stats",
    "stats_reset",
    "timestamp",
    "info",
    "reset",
)
# What a traced build tells.
TRACE_CALLS = ("trace", "trace_lines", "trace_stop")
CALLS = PROGRAM_CALLS + MANAGER_CALLS + TRACE_CALLS
_OF_PROGRAM, _OF_SWITCH = frozenset(PROGRAM_CALLS), frozenset(CALLS)


class Pipeline(Tables, Arrays):
    """An instance of a compiled program, with its control plane by names.

    A thin layer over the C functions of runtime/p4rt.h: it finds objects by their P4 names, turns
    numbers into the words that cross the border, and turns statuses into errors that name the
    object. Packets go through the traffic manager. `lib` is the program's ctypes library, `handle`
    its `p4_instance *`."""

    def reset(self) -> None:
        """Tables, profiles, registers, counters, meters and value sets as the program begins with
        them."""
        fresh = Pipeline(self.compiled, seed=self.seed)
        try:
            for table in self.info.tables:
                self._reset_table(table, fresh)
        finally:
            fresh.close()
        for profile in self.info.profiles:
            self.profile_clear(profile.name)
        for register in self.info.registers:
            self.register_reset(register.name)
        for counter in self.info.counters:
            self.counter_reset(counter.name)
        for meter in self.info.meters:
            self.meter_set(meter.name, None, None)
            for index in range(meter.size):
                self.meter_counts_set(meter.name, index)
        for value_set in self.info.value_sets:
            self.value_set_clear(value_set.name)

    def _reset_table(self, table: Table, fresh: Pipeline) -> None:
        if not table.const_default_action:
            self.table_reset_default(table.name)
        if table.direct_counter:
            self.counter_reset(table.direct_counter)
        if table.const_entries:
            for entry in self.entries(table.name)[:-1] if table.direct_meter else ():
                self.meter_set(table.name, entry.handle, None)
                self.meter_counts_set(table.name, entry.handle)
            return
        self.table_clear(table.name)
        for entry in fresh.entries(table.name):
            if entry.match is not None and entry.action is not None:
                self.table_add(table.name, entry.action, entry.match, entry.params, entry.priority)


class Switch(Replication):
    """A compiled program and a traffic manager around it.

    Args:
        compiled: what `compile_program` returned.
        ports: numbers 0..510; None: all of them.
        seed: of `random()` and of the links' losses and jitter.
        timestamp_unit_ns: length of a unit of P4 timestamps; 1000 as on BMv2.
        epoch_ns: the time at which P4 timestamps are 0.
        priority_queues: egress queues of each port, see `Manager`.

    The calls on tables, registers, counters and meters are those of `Pipeline`; objects go by
    their P4 names, full or as an unambiguous suffix.
    """

    def __init__(
        self,
        compiled: Any,
        *,
        ports: Sequence[int] | None = None,
        seed: int = 0,
        timestamp_unit_ns: int = 1000,
        epoch_ns: int = 0,
        priority_queues: int = 1,
    ) -> None:
        self._tm = None
        self.tracer: Any = None
        self._on_install: list[Callable[[], None]] = []
        self.compiled = compiled
        self.pipeline = Pipeline(compiled, seed=seed)
        assert self.pipeline.handle is not None
        super().__init__(
            self.pipeline.lib,
            self.pipeline.handle,
            ports=ports,
            seed=seed,
            timestamp_unit_ns=timestamp_unit_ns,
            epoch_ns=epoch_ns,
            priority_queues=priority_queues,
        )
        self.pipeline.start_clock(self._clock())

    def _clock(self) -> Callable[[], int]:
        """Gives the time of packets. It does not hold on to the switch, whose end is when nobody
        does."""
        lib, address = self.lib, self._tm
        return lambda: int(lib.tm_now(address))

    def now_ns(self) -> int:
        """The time of packets: of the last packet or event, where there is no other clock."""
        return self._clock()()

    def install(self, compiled: Any) -> None:
        """Run another program from now on, or the same one from its beginnings.

        Tables, registers and counts are the new program's. Ports, links, groups, sessions and who
        listens to logs and digests stay. With another program a trace ends, and packets that wait
        in egress queues are dropped (`tm_program_set`).

        Raises ControlError for a program for another architecture: the traffic manager stays.
        """
        new_one, own = compiled.info.architecture, self.compiled.info.architecture
        if new_one != own:
            raise ControlError(
                f"the program is for {new_one}, and the switch for {own}: start a switch with it"
            )
        if compiled.hash != self.compiled.hash:
            self.trace_stop()
        old, new = self.pipeline, Pipeline(compiled, seed=self.pipeline.seed)
        assert new.handle is not None
        new.take_listeners(old)
        new.start_clock(self._clock())
        self.program_set(new.lib, new.handle)
        self.pipeline, self.compiled = new, compiled
        old.close()
        for function in self._on_install:
            function()

    def on_install(self, function: Callable[[], None]) -> None:
        """Call `function` after every `install`: calls that were looked up on the switch before
        belong to the program that has gone."""
        self._on_install.append(function)

    def reset(self) -> None:
        """The program's state as it was at its beginnings (`Pipeline.reset`), and no multicast
        groups, nodes and link aggregation groups; mirror sessions, ports and links stay."""
        self.pipeline.reset()
        self.replication_clear()

    def close(self) -> None:
        super().close()
        pipeline = self.__dict__.get("pipeline")
        if pipeline is not None:
            pipeline.close()

    def __getattr__(self, name: str) -> Any:
        if name in _OF_PROGRAM:
            return getattr(self.__dict__["pipeline"], name)
        raise AttributeError(f"a switch has no {name!r}")

    def batch(self, calls: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Many calls, (name, *args) each, in order; returns their results.

        As `control.Client` has it, so that a control plane can fill either.
        """
        results = []
        for name, *args in calls:
            if name not in _OF_SWITCH:
                raise AttributeError(f"a switch has no {name!r}")
            results.append(getattr(self, name)(*args))
        return results

    # ---- lossless links ----

    def buffer_set(
        self,
        buffer: Mapping[str, Any],
        headroom: Iterable[tuple[int, int]],
        hosts: Iterable[int],
    ) -> None:
        """As `lossless_links.set_buffer`; buffer: the fields of `BufferSettings`, headroom: (port,
        bytes)."""
        settings = lossless_links.BufferSettings(**buffer)
        lossless_links.set_buffer(self, settings, dict(headroom), [*hosts])

    def flow_stats(self, port: int, priority: int) -> dict[str, int]:
        """The counts of `tm_flow` of one class at a port."""
        return lossless_links.flow(self, port, priority)

    def pauses(self) -> list[lossless_links.Paused]:
        """All pauses of far ends, in the order of their begins."""
        return lossless_links.pauses(self)[0]

    # ---- traced builds ----

    def trace(
        self,
        port: int | None = None,
        where: Mapping[str, Any] | None = None,
        packets: int | None = 10,
    ) -> None:
        """Follow the next `packets` packets (None: all from now on); `trace_lines` tells their
        paths.

        Args:
            port: only those that come in there.
            where: only those with these values of extracted fields, {"hdr.ipv4.ttl": 1}; names may
                be shortened to what they end in.

        Raises:
            TraceError: the program was not compiled with trace=True.
        """
        from p4engine.trace.tracer import Tracer

        self.tracer = Tracer(self, port, where, packets)

    def trace_lines(self) -> list[str]:
        """The trace since the last call, as lines of text."""
        return self.tracer.lines() if self.tracer is not None else []

    def trace_stop(self) -> None:
        """End the trace; what it has gathered stays until it is read."""
        if self.tracer is not None:
            self.tracer.stop()

    def info(self) -> dict[str, Any]:
        """The program's objects (as `compiled.info` lists them), the ports, the time unit."""
        return {
            "program": replace(self.compiled.info, trace=None).to_json(),
            "ports": self.ports,
            "priority_queues": self.priority_queues,
            "timestamp_unit_ns": self.timestamp_unit_ns,
        }
