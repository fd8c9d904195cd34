"""The `trace` command: the path of packets through a program, in the program's own terms."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from rich.console import Console
from rich.text import Text

from p4engine.backend.build import Compiled, compile_program
from p4engine.control.commands import Commands
from p4engine.switch.library import Switch
from p4engine.switch.traffic_manager import MAX_PORT
from p4engine.trace.trace_text import Printer
from p4engine.trace.tracer import TraceError, Tracer

PCAP_MAGIC = {
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\xc3\xd4",
    b"\x4d\x3c\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
    b"\x0a\x0d\x0d\x0a",
}
PACKET_TIME_NS = 1_000_000
START_NS = 1_000_000_000
HEX_ROW = 32  # bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `trace`; the program, -D and -I are the caller's."""
    parser.add_argument(
        "--packet",
        action="append",
        default=[],
        metavar="HEX|FILE",
        help="hexadecimal digits, or a file with them, or a pcap file; can be repeated",
    )
    parser.add_argument("--port", type=int, default=0, help="where they come in (default 0)")
    parser.add_argument(
        "--commands", metavar="FILE", help="control commands, as for simple_switch_CLI"
    )
    parser.add_argument("--stf", metavar="FILE", help="take packets and commands from an STF test")
    parser.add_argument("--seed", type=int, default=0, help="of random() (default 0)")


def read_packets(source: str) -> list[bytes]:
    """The packets of one --packet. Raises TraceError."""
    path = Path(source)
    try:
        content = path.read_bytes() if len(source) < 4096 and path.is_file() else None
    except OSError as error:
        raise TraceError(f"cannot read {source}: {error.strerror}") from None
    if content is not None and content[:4] in PCAP_MAGIC:
        try:
            from scapy.error import Scapy_Exception
            from scapy.utils import RawPcapReader
        except ImportError:
            remedy = "pip install 'p4engine[pcap]'"
            raise TraceError(f"{source} is a pcap file; to read it: {remedy}") from None
        try:
            with RawPcapReader(source) as reader:
                return [bytes(data) for data, _ in reader]
        except (Scapy_Exception, EOFError, OSError) as error:
            raise TraceError(f"cannot read the pcap file {source}: {error}") from None
    text = source if content is None else content.decode("ascii", "replace")
    digits = re.sub(r"0[xX]|[\s:_]", "", text)
    if not digits or not re.fullmatch(r"[0-9a-fA-F]*", digits) or len(digits) % 2:
        what = "a file of" if content is not None else "a file or"
        raise TraceError(f"--packet {source[:60]!r} is not {what} an even number of hex digits")
    return [bytes.fromhex(digits)]


def show_packet(console: Console, text: str, data: bytes) -> None:
    """A packet's bytes in rows."""
    console.print(Text(text, "bold"))
    for at in range(0, len(data), HEX_ROW):
        row = data[at : at + HEX_ROW].hex(" ", 2)
        console.print(Text(f"    {at:4}  {row}", "dim"), soft_wrap=True)


def main(arguments: argparse.Namespace) -> int:
    """Carry out the command. Raises P4Error; returns the exit code."""
    console = Console(highlight=False)
    if not arguments.packet and not arguments.stf:
        raise TraceError("there is nothing to trace: give --packet HEX|PCAP or --stf FILE")
    if not 0 <= arguments.port <= MAX_PORT:
        raise TraceError(f"ports are numbered from 0 to {MAX_PORT}, not {arguments.port}")
    packets = [data for source in arguments.packet for data in read_packets(source)]
    compiled = compile_program(
        arguments.program, dict(arguments.define), arguments.include, trace=True
    )
    if arguments.stf:
        _trace_test(console, compiled, arguments)
        return 0
    switch = Switch(compiled, seed=arguments.seed)
    switch.pipeline.on_log(lambda text: console.print(Text(f"           log: {text}", "blue")))
    if arguments.commands:
        for text in Commands(switch).run_file(arguments.commands):
            console.print(Text(text, "dim"))
    tracer = Tracer(switch)
    printer = Printer(compiled.info)
    now_ns = START_NS
    for count, data in enumerate(packets, 1):
        if count > 1:
            console.print()
        show_packet(console, f"packet {count}: {len(data)} bytes on port {arguments.port}", data)
        switch.receive(arguments.port, data, now_ns)
        sent = switch.run(now_ns + PACKET_TIME_NS - 1)
        now_ns += PACKET_TIME_NS
        _print_events(console, printer, tracer)
        if not sent:
            console.print(Text("nothing leaves", "bold red"))
        for _, port, out in sent:
            show_packet(console, f"leaves on port {port}: {len(out)} bytes", out)
    switch.close()
    return 0


def _print_events(console: Console, printer: Printer, tracer: Tracer) -> None:
    for event in tracer.take():
        for line in printer.lines(event):
            console.print(line, soft_wrap=True)


def _trace_test(console: Console, compiled: Compiled, arguments: argparse.Namespace) -> None:
    """All packets of an STF test."""
    from p4engine.stf.stf_parser import parse
    from p4engine.stf.stf_run import Run

    path = Path(arguments.stf)
    try:
        statements = parse(path.read_text(errors="replace"), str(path))
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from None
    run = Run(compiled, statements, arguments.seed)
    tracer = Tracer(run.switch)
    printer = Printer(compiled.info)
    packets = [s for s in statements if s.kind == "packet"]
    done = 0

    def look() -> None:
        nonlocal done
        s = packets[done]
        done += 1
        text = f"{path.name}:{s.line}: {len(s.data or '') // 2} bytes on port {s.port}"
        show_packet(console, text, bytes.fromhex(s.data or ""))
        _print_events(console, printer, tracer)

    run.after_packet = look
    try:
        run.run()
        _print_events(console, printer, tracer)
        for port, sent in sorted(run.sent.items()):
            for data in sent:
                show_packet(console, f"left on port {port}: {len(data)} bytes", data)
    finally:
        run.close()
