"""The `p4info` command: what controllers read of a program, and what they send to have it run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `p4info` beside those of the compiler."""
    parser.add_argument("--binary", action="store_true", help="protobuf's binary format")
    parser.add_argument("-o", "--output", type=Path, help="a file instead of standard output")
    parser.add_argument(
        "--device-config",
        type=Path,
        metavar="FILE",
        help="write there what controllers send to have a switch load the program",
    )


def main(arguments: argparse.Namespace) -> int:
    """p4engine p4info PROGRAM.p4 [--binary] [-o FILE] [--device-config FILE]."""
    from p4engine.p4runtime.device_config import encode
    from p4engine.p4runtime.p4info import p4info

    source = (arguments.program, dict(arguments.define), arguments.include)
    message = p4info(*source)
    if arguments.device_config is not None:
        arguments.device_config.write_bytes(encode(*source))
    if arguments.binary:
        data = message.SerializeToString(deterministic=True)
    else:
        from google.protobuf import text_format

        head = "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"
        data = (head + text_format.MessageToString(message)).encode()
    if arguments.output is not None:
        arguments.output.write_bytes(data)
    else:
        sys.stdout.buffer.write(data)
    return 0
