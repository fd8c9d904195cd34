"""The embedded switch's control interface, on BMv2.

`Client` offers those calls of `p4engine.control.client.Client` that the control plane makes, with
the same arguments and results, and carries them out through p4utils' Thrift API. p4utils wants its
arguments as text and prints what it does; of an error it prints a line and returns nothing. Here
an error is an exception again.

What differs is time: packets go on between two calls, also within a batch. A single register array
is read at one moment.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from p4engine.control.client import CallError

from testbed.bmv2 import connection
from testbed.setup.job_setups import PortStats

WORD = 1 << 64
ERROR_PREFIXES = ("Error", "Invalid", "Could not")


class Client:
    """Control of one switch.

    Args:
        api: p4utils' SimpleSwitchThriftAPI, connected (connection.p4utils_api).
        name: of the switch, for messages.
        close: closes the connection.
        port_stats, process_stats: what the ports have carried and what the process has used, since
            BMv2 does not tell (ports.Ports.read, ports.Ports.stats).

    Every call raises CallError when the switch refuses it or does not answer.
    """

    def __init__(
        self,
        api: Any,
        name: str,
        close: Callable[[], None] = lambda: None,
        port_stats: Callable[[], list[PortStats]] = list,
        process_stats: Callable[[], dict[str, int | None]] = dict,
    ) -> None:
        self.name = name
        self._api = api
        self._groups: dict[int, list[int]] = {}  # nodes of each multicast group
        self._close = close
        self._port_stats = port_stats
        self._process_stats = process_stats

    def close(self) -> None:
        """Close the connection; the switch goes on."""
        self._close()

    def batch(self, calls: Iterable[tuple]) -> list:
        """Carry out calls (name, *args), in order; returns their results. The first that fails ends
        it."""
        results = []
        for name, *arguments in calls:
            if name not in CALLS:
                raise CallError(f"switch {self.name}: BMv2 has no {name!r}")
            results.append(getattr(self, name)(*arguments))
        return results

    # ---- tables ----

    def table_add(
        self,
        table: str,
        action: str,
        match: Sequence[Any],
        parameters: Sequence[Any] = (),
        priority: int | None = None,
    ) -> int:
        """Add an entry; returns its handle. A key is a value, (value, prefix length) for lpm; MAC
        and IPv4 addresses may be text."""
        keys = [_key(value) for value in match]
        words = [str(value) for value in parameters]
        return self._call("table_add", table, action, keys, words, priority or 0)

    def table_set_default(self, table: str, action: str, parameters: Sequence[Any] = ()) -> None:
        """Set a table's default action."""
        self._call("table_set_default", table, action, [str(value) for value in parameters])

    def table_clear(self, table: str) -> None:
        """Remove all entries; the default action stays."""
        self._call("table_clear", table)

    # ---- multicast ----

    def multicast_group(self, group: int, copies: Sequence[tuple[int, int]]) -> None:
        """Set a group to copies (port, rid); replaces its former copies."""
        if group not in self._groups:
            self._call("mc_mgrp_create", group)
        for node in self._groups.get(group, ()):
            self._call("mc_node_dissociate", group, node)
            self._call("mc_node_destroy", node)
        nodes = self._groups[group] = []
        for port, rid in copies:
            nodes.append(self._call("mc_node_create", rid, [port]))
            self._call("mc_node_associate", group, nodes[-1])

    # ---- registers, counters and meters ----

    def register_read(self, register: str, start: int = 0, count: int | None = None) -> list[int]:
        """Elements start .. start + count, as unsigned numbers; those wider than 64 bits cannot be
        read over Thrift."""
        # One element costs as much as a whole array of some hundred.
        values = self._call("register_read", register)
        end = len(values) if count is None else start + count
        if not 0 <= start <= end <= len(values):
            raise CallError(
                f"switch {self.name}: register {register} has {len(values)} elements, not"
                f" {start} .. {end - 1}"
            )
        return [value % WORD for value in values[start:end]]

    def register_write(self, register: str, index: int | tuple[int, int], value: int) -> None:
        """Write one element, or those from the first index up to, not including, the second."""
        where = list(index) if isinstance(index, tuple) else index
        self._call("register_write", register, where, value)

    def counter_read(self, counter: str, index: int = 0) -> dict[str, int]:
        """{"packets", "bytes"} of one element."""
        size, packets = self._call("counter_read", counter, index)
        return {"packets": packets, "bytes": size}

    def meter_set(
        self, meter: str, index: int | None, rates: Sequence[tuple[float, float]]
    ) -> None:
        """rates: [(committed per microsecond, burst), (peak per microsecond, burst)]; index None:
        all."""
        whole = [(rate, int(burst)) for rate, burst in rates]
        if index is None:
            self._call("meter_array_set_rates", meter, whole)
        else:
            self._call("meter_set_rates", meter, index, whole)

    # ---- queues, and what the switch knows of itself ----

    def queue_rate(self, packets_per_second: int, port: int) -> None:
        """Rate of a port's egress queue; 0 is unlimited."""
        self._call("set_queue_rate", packets_per_second, port)

    def queue_depth(self, packets: int, port: int) -> None:
        """Packets that a port's egress queue holds."""
        self._call("set_queue_depth", packets, port)

    def stats(self) -> dict[str, int | None]:
        """{"timestamp"}: the time of the program's clock, in us; and the counters of the process
        and its ports, under the embedded switch's names."""
        return {"timestamp": self.timestamp(), **self._guarded(self._process_stats, "stats")}

    def timestamp(self) -> int:
        """The program's clock, in us."""
        # p4utils prints it and returns nothing.
        return self._guarded(self._api.sswitch_client.get_time_elapsed_us, "timestamp")

    def port_stats(self) -> list[PortStats]:
        """Rows as the embedded switch's: port, direction, counters; None for what BMv2 does not
        count."""
        return self._guarded(self._port_stats, "port_stats")

    # ---- how ----

    def _call(self, name: str, *arguments: Any) -> Any:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            result = self._guarded(getattr(self._api, name), name, *arguments)
        lines = printed.getvalue().strip().splitlines()
        if lines and lines[-1].startswith(ERROR_PREFIXES):
            words = ", ".join(map(str, arguments))
            raise CallError(f"switch {self.name}: {name}({words}): {lines[-1]}")
        return result

    def _guarded(self, call: Callable[..., Any], name: str, *arguments: Any) -> Any:
        from thrift.Thrift import TException

        try:
            return call(*arguments)
        except (OSError, TException) as error:
            cause = getattr(error, "inner", None) or error  # Thrift's says less
            why = str(cause) or type(cause).__name__
            if isinstance(cause, TimeoutError):
                # The next call would take a late answer for its own.
                self._close()
                why = f"no answer for {connection.CALL_TIMEOUT_S} s"
            raise CallError(f"switch {self.name} (simple_switch): {name}: {why}") from None


CALLS = frozenset(
    (
        *("table_add", "table_set_default", "table_clear", "multicast_group"),
        *("register_read", "register_write", "counter_read", "meter_set"),
        *("queue_rate", "queue_depth", "stats", "timestamp", "port_stats"),
    )
)


def _key(value: Any) -> str:
    """A key as p4utils reads it."""
    if isinstance(value, tuple):
        return f"{value[0]}/{value[1]}"
    return str(value)
