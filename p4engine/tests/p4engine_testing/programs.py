"""Small P4 programs for the tests of the compiler: a frame to put fragments into, and packets
through it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from p4engine.backend.build import translate
from p4engine.control.server import Server
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.preprocessor.preprocess import preprocess
from p4engine.switch.library import CALLS, Switch

from p4engine import compile_program

FRAME = """
#include <%(include)s>
%(top)s
%(headers)s
struct metadata_t { %(metadata)s }
parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard) {
    %(parser)s
}
control MyVerify(inout headers_t hdr, inout metadata_t meta) { apply { %(verify)s } }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    %(locals)s
    apply { standard.egress_spec = 1; %(apply)s }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    %(egress_locals)s
    apply { %(egress)s }
}
control MyUpdate(inout headers_t hdr, inout metadata_t meta) { apply { %(update)s } }
control MyDeparser(packet_out packet, in headers_t hdr) { apply { %(deparser)s } }
V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;
"""
DEFAULTS = {
    "include": "v1model.p4",
    "top": "",
    "headers": "header h_t { bit<32> a; bit<32> b; bit<32> c; } struct headers_t { h_t h; }",
    "metadata": "bit<8> unused;",
    "parser": "state start { packet.extract(hdr.h); transition accept; }",
    "verify": "",
    "locals": "",
    "apply": "",
    "egress_locals": "",
    "egress": "",
    "update": "",
    "deparser": "packet.emit(hdr);",
}


def source(**parts: str) -> str:
    """A whole program from its parts; see DEFAULTS."""
    unknown = set(parts) - set(DEFAULTS)
    assert not unknown, unknown
    return FRAME % (DEFAULTS | parts)


def switch(folder: Path, options: Mapping[str, Any] | None = None, **parts: str) -> Switch:
    """A switch that runs the program made of `parts`; `options` are those of `Switch`."""
    path = folder / "program.p4"
    path.write_text(source(**parts))
    return Switch(compile_program(path), **(options or {}))


def c_text(folder: Path, **parts: str) -> str:
    """The C that the program made of `parts` becomes."""
    path = folder / "program.p4"
    path.write_text(source(**parts))
    diagnostics = Diagnostics()
    tokens, _ = preprocess(path, {}, (), diagnostics)
    return translate(tokens, diagnostics, "program")[0]


@contextlib.contextmanager
def serving(path: Path, switch: Switch) -> Iterator[threading.Thread]:
    """The control socket of a switch, served in a thread."""
    server = Server(path, {name: getattr(switch, name) for name in CALLS})
    server.calls["shutdown"] = server.stop
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield thread
    finally:
        server.stop()
        thread.join()
        server.close()


def send(s: Switch, data: bytes, port: int = 0, now_ns: int = 0) -> list[tuple[int, bytes]]:
    """The packets that leave for one packet: (port, bytes) in order."""
    s.receive(port, data, now_ns)
    return [(out, bytes(content)) for _, out, content in s.advance(now_ns + 10**9)]


def words(*values: int, size: int = 4) -> bytes:
    """Big-endian fields of `size` bytes each."""
    return b"".join((v % (1 << (8 * size))).to_bytes(size, "big") for v in values)
