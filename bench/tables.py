"""Tables of 100 thousand entries: time to insert, and to look up.

    .venv/bin/python -m bench tables [--entries N] [--kind exact|lpm|ternary|range]

Insertion is measured through the library call by call, through the library in one batch, and
through a control socket in one batch (to another process). Lookups are packets through the bare
pipeline stages of a program that does nothing else, with one entry and with N, so that what the
size of the table costs is the difference.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path

from p4engine.backend.build import Compiled
from p4engine.control.client import Client
from p4engine.control.server import Server
from p4engine.switch.library import CALLS, Switch

from p4engine import compile_program

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> a; bit<32> b; }
struct headers_t { h_t h; }
struct metadata_t { }
parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard) {
    state start { packet.extract(hdr.h); transition accept; }
}
control MyVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    action set(bit<32> value) { hdr.h.b = value; }
    table t { key = { hdr.h.a: KIND; } actions = { set; NoAction; } size = 200000; }
    apply { t.apply(); standard.egress_spec = 511; }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard) { apply { } }
control MyUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }
control MyDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;
"""


def matches(kind: str, count: int) -> list:
    """`count` different matches of a 32-bit key; of ternary and range few kinds of masks."""
    chosen = random.Random(1).sample(range(1 << 24), count)
    if kind == "exact":
        return [v << 8 for v in chosen]
    if kind == "lpm":
        return [(v << 8, 24 if i % 4 else 28) for i, v in enumerate(chosen)]
    if kind == "ternary":
        shifts = (0, 4, 8)
        return [(v << shifts[i % 3], 0xFFFFFF << shifts[i % 3]) for i, v in enumerate(chosen)]
    return [(v << 8, (v << 8) + 200) for v in chosen]


def lookup_ns(switch: Switch, packets: list[bytes]) -> float:
    """Wall time of one packet in the switch without Python's share (measured without a table)."""
    switch.receive(0, packets[0], 0)
    receive, address = switch.lib.tm_receive, switch.address
    buffers = packets
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for b in buffers:
            receive(address, 0, b, 8, 0)
        best = min(best, time.perf_counter() - start)
    return best / len(buffers) * 1e9


def serve(compiled: Compiled, path: str, ready: Event) -> None:
    """A process with a control socket and a switch without ports."""
    switch = Switch(compiled, ports=[])
    server = Server(Path(path), {name: getattr(switch, name) for name in CALLS})
    server.calls["shutdown"] = server.stop
    ready.set()
    server.run()
    server.close()


def through_a_socket(compiled: Compiled, folder: str, calls: list[tuple]) -> float:
    """Seconds for a batch of calls through a control socket."""
    path, ready = f"{folder}/control.sock", multiprocessing.Event()
    process = multiprocessing.Process(target=serve, args=(compiled, path, ready))
    process.start()
    ready.wait(10)
    with Client(path) as client:
        start = time.perf_counter()
        client.batch(calls)
        taken = time.perf_counter() - start
        client.shutdown()
    process.join()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--kind", action="append", choices=["exact", "lpm", "ternary", "range"])
    arguments = parser.parse_args()
    print(
        f"{'kind':8} {'entries':>8} {'insert s':>9} {'batch s':>8} {'socket s':>9}"
        f" {'one ns':>7} {'full ns':>8}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for kind in arguments.kind or ["exact", "lpm", "ternary", "range"]:
            path = Path(folder) / f"{kind}.p4"
            path.write_text(PROGRAM.replace("KIND", kind))
            compiled = compile_program(path)
            some = matches(kind, arguments.entries)
            priority = 1 if kind in ("ternary", "range") else None
            small = Switch(compiled)
            small.table_add("t", "set", [some[0]], [1], priority)
            keys = [
                m[0] if isinstance(m, tuple) else m
                for m in random.Random(2).sample(some, min(2000, len(some)))
            ]
            packets = [k.to_bytes(4, "big") + bytes(4) for k in keys]
            one = lookup_ns(small, packets)
            large = Switch(compiled)
            start = time.perf_counter()
            for m in some:
                large.table_add("t", "set", [m], [7], priority)
            insert = time.perf_counter() - start
            full = lookup_ns(large, packets)
            batched = Switch(compiled)
            start = time.perf_counter()
            calls = [("table_add", "t", "set", [m], [7], priority) for m in some]
            batched.batch(calls)
            batch = time.perf_counter() - start
            socket = through_a_socket(compiled, folder, calls)
            print(
                f"{kind:8} {len(some):8} {insert:9.2f} {batch:8.2f} {socket:9.2f}"
                f" {one:7.0f} {full:8.0f}",
                flush=True,
            )
