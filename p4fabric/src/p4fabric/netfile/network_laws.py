"""Laws of network files in virtual time: hosts, ports, switches and flows of a run's tables."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from p4fabric.netfile.law import Held, Verdict, law, laws_in

DROPS = ("ingress_drops", "egress_drops", "no_port", "no_group", "failed", "loop_drops")
LINK_DROPS = ("queue_drops", "losses", "down_drops")
COPIES = ("copies", "clones", "no_memory")
LEAST_FRAME = 14  # bytes, of an Ethernet header


@dataclass(frozen=True)
class Network:
    """`tables`: rows by the table's name. `drained`: nothing was on its way at the end."""

    tables: Mapping[str, Sequence[Mapping[str, Any]]]
    drained: bool

    def rows(self, table: str) -> Sequence[Mapping[str, Any]]:
        return self.tables.get(table, ())


@law(
    "octets",
    "A host's frames and octets are those of its link, and an octet count fits its frames.",
    "hosts.sent = ports.packets + queue_drops (+ down_drops); hosts.received <= packets - losses +"
    " duplicates, and = when all has drained; bytes alike",
    "there are no hosts",
)
def octets(run: Network, held: Held) -> None:
    hosts = {row["host"]: row for row in run.rows("hosts")}
    for row in run.rows("ports"):
        place = f"{row['switch']} port {row['port']} {row['direction']}"
        held.at_most(place, "least octets", LEAST_FRAME * row["packets"], "octets", row["bytes"])
        host = hosts.get(row["neighbour"])
        if host is None:
            continue
        full, down = row["queue_drops"], row["down_drops"]
        if row["direction"] == "ingress":
            put = row["packets"] + full
            held.at_most(place, "frames in", put, "frames sent", host["sent"])
            held.at_most(place, "frames sent", host["sent"], "in and dropped", put + down)
            if not full and not down:
                held.equal(place, "octets sent", host["sent_bytes"], "octets", row["bytes"])
            continue
        out = row["packets"] - row["losses"] + row["duplicates"]
        held.at_most(place, "frames received", host["received"], "frames out", out)
        if run.drained and not down:
            held.equal(place, "frames received", host["received"], "frames out", out)
            if not row["losses"] and not row["duplicates"]:
                held.equal(place, "octets received", host["received_bytes"], "octets", row["bytes"])


@law(
    "switches",
    "What enters a switch leaves it, or is dropped for one cause.",
    "switches.received = sent + drops of the program + queue_drops and down_drops + losses -"
    " duplicates of its ports, where nothing was copied and all has drained",
    "all switches copy packets, or packets were on their way at the end",
)
def switches(run: Network, held: Held) -> None:
    lost: Counter[str] = Counter()
    for row in run.rows("ports"):
        if row["direction"] == "egress":
            dropped = sum(row[each] for each in LINK_DROPS)
            lost[row["switch"]] += dropped - row["duplicates"]
    for row in run.rows("switches"):
        if run.drained and not any(row[each] for each in COPIES):
            left = row["sent"] + sum(row[each] for each in DROPS) + lost[row["switch"]]
            held.equal(row["switch"], "received", row["received"], "sent and dropped", left)


@law(
    "drops",
    "The drops that are told are those of the switches and of their ports.",
    "sum of drops.packets = sum of the counters of switches, and of ports",
    "there are no switches",
)
def drops(run: Network, held: Held) -> None:
    told: Counter[tuple] = Counter()
    for row in run.rows("drops"):
        told[row["switch"], row["port"]] += row["packets"]
    ports: Counter[tuple] = Counter()
    for row in run.rows("ports"):
        ports[row["switch"], row["port"]] += sum(row[each] for each in LINK_DROPS)
    for row in run.rows("switches"):
        ports[row["switch"], None] += sum(row[each] for each in DROPS)
    for key, count in ports.items():
        held.equal(key, "drops told", told[key], "counted", count)


@law(
    "queues",
    "A port's queues carry what the port carries, and are never longer than its longest length.",
    "sum of priorities.packets and bytes = ports.packets and bytes; queues.packets <="
    " ports.queue_max; queue_mean is their mean; busy <= 1",
    "there are no ports",
)
def queues(run: Network, held: Held) -> None:
    ports = {(row["switch"], row["port"], row["direction"]): row for row in run.rows("ports")}
    for key, row in ports.items():
        held.at_most(key, "busy", row["busy"], "the whole time", 1)
        if row["queue_mean"] is not None:
            held.at_most(key, "mean queue", row["queue_mean"], "longest", row["queue_max"])
    sums: Counter[tuple] = Counter()
    for row in run.rows("priorities"):
        for column in ("packets", "bytes"):
            sums[row["switch"], row["port"], column] += row[column]
    for (switch, number, column), count in sums.items():
        port = ports.get((switch, number, "egress"))
        if port is not None:
            place = switch, "port", number
            held.equal(place, f"{column} of queues", count, "of the port", port[column])
    for row in run.rows("queues"):
        which = row["switch"], row["port"], row["direction"]
        if which in ports:
            most = ports[which]["queue_max"]
            held.at_most(which, "packets waiting", row["packets"], "longest", most)


@law(
    "flows",
    "A flow's losses, rates and latencies follow from its counts and their order.",
    "lost = sent - received + duplicates; loss = lost / sent; min <= p50 <= p99 <= max;"
    " 8 received_bytes = sum of throughput x time",
    "no flow was measured",
)
def flows(run: Network, held: Held) -> None:
    received: Counter[str] = Counter()
    whole: set[str] = set()
    for row in run.rows("flows"):
        if row["received"] is None:
            continue
        place = f"flow {row['flow']} at {row['host']}"
        if row["what"] == "packets" and row["host"] == row["to"]:
            received[row["flow"]] += row["received_bytes"]
            whole.add(row["flow"])
        if row["lost"] is not None:
            missing = row["sent"] - row["received"] + row["duplicates"]
            held.equal(place, "lost", row["lost"], "sent and not received", missing)
            share = row["lost"] / row["sent"] if row["sent"] else None
            held.equal(place, "loss", row["loss"], "lost of sent", share)
        if row["min_ns"] is not None:
            low, middle, high, most = (row[f"{name}_ns"] for name in ("min", "p50", "p99", "max"))
            held.at_most(place, "min", low, "p50", middle)
            held.at_most(place, "p50", middle, "p99", high)
            held.at_most(place, "p99", high, "max", most)
            held.at_most(place, "min", low, "mean", row["mean_ns"])
            held.at_most(place, "mean", row["mean_ns"], "max", most)
    bits: Counter[str] = Counter()
    looks: Counter[str] = Counter()
    last: dict[str, int] = {}
    for row in run.rows("throughput"):
        name, time_ns = row["flow"], row["time_ns"]
        bits[name] += row["throughput_bps"] * (time_ns - last.get(name, 0))
        last[name] = time_ns
        looks[name] += 1
    for name in whole & bits.keys():
        seen = bits[name] // 10**9
        held.at_most(f"flow {name}", "bits at looks", seen, "received", 8 * received[name])


def of_text(row: Mapping[str, str]) -> dict[str, Any]:
    """A row of a table over time, from CSV, in which all values are texts. Raises ValueError."""
    words = ("switch", "direction", "flow")
    return {name: text if name in words else int(text) for name, text in row.items()}


OF_NETWORK_FILES = laws_in(sys.modules[__name__])


def of_network(tables: dict[str, Any], drained: bool) -> list[Verdict]:
    """Hold the tables of a network file's run against their laws, each a list of rows. drained: no
    packet was on its way at the end."""
    found = []
    for each in OF_NETWORK_FILES:
        held = Held()
        each.check(Network(tables, drained), held)
        found.append(Verdict.of(each, held))
    return found
