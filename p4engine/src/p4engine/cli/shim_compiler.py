"""The stand-in of p4c-bm2-ss: P4 source to P4Info, and to a file that the stand-in of
simple_switch runs.

The file has the place of BMv2's JSON. It is JSON too, and holds the program's source
(p4runtime/device_config.py), so controllers can send it to a switch as they send BMv2's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from p4engine.backend.build import compile_program
from p4engine.cli.main import define
from p4engine.frontend.diagnostics import P4Error

# Options that change nothing here: the language, the architecture, what p4c prints.
SILENT_VALUES = (
    "--p4v",
    "--std",
    "--target",
    "--arch",
    "--p4runtime-format",
    "-T",
    "-b",
    "-a",
    "-x",
)
SILENT = ("--emit-externs", "--preserve-empty", "-v", "--Wwarn", "--Wdisable", "-E")


def hidden(option: str) -> str:
    """Attribute in which argparse keeps an option that is not in the help."""
    return "_" + option.strip("-").replace("-", "_")


def parser(name: str) -> argparse.ArgumentParser:
    """Parser of the command line."""
    made = argparse.ArgumentParser(prog=name, description=f"Stand-in of p4engine for {name}.")
    made.add_argument("program")
    made.add_argument("-o", "--output", type=Path)
    made.add_argument("-D", dest="define", type=define, action="append", default=[])
    made.add_argument("-I", dest="include", action="append", default=[])
    made.add_argument("--p4runtime-files", "--p4runtime-file", default="", metavar="FILES")
    made.add_argument("--version", action="version", version=f"{name}: stand-in of p4engine")
    for option in SILENT_VALUES:
        made.add_argument(option, dest=hidden(option), help=argparse.SUPPRESS)
    for option in SILENT:
        made.add_argument(option, action="store_true", dest=hidden(option), help=argparse.SUPPRESS)
    return made


def p4info_bytes(message: object, path: Path, kind: str | None) -> bytes:
    """P4Info in the format that `kind` or the file's name asks for."""
    from google.protobuf import json_format, text_format

    if kind == "json" or (kind is None and path.suffix == ".json"):
        return json_format.MessageToJson(message).encode()  # type: ignore[arg-type]
    if kind == "binary" or (kind is None and path.suffix == ".bin"):
        data: bytes = message.SerializeToString(deterministic=True)  # type: ignore[attr-defined]
        return data
    head = "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"
    return (head + text_format.MessageToString(message)).encode()  # type: ignore[arg-type]


def main(argv: list[str]) -> int:
    """NAME [OPTIONS] PROGRAM.p4; returns the exit code."""
    name, *words = argv
    arguments = parser(name).parse_args(words)
    version = arguments._p4v or arguments._std or "16"
    if version.removeprefix("p4-") != "16":
        print(f"{name} (p4engine): P4_{version} is not supported, only P4_16", file=sys.stderr)
        return 1
    source = (arguments.program, dict(arguments.define), arguments.include)
    try:
        compiled = compile_program(*source)
        for warning in compiled.warnings:
            print(warning, file=sys.stderr)
        from p4engine.p4runtime.device_config import encode
        from p4engine.p4runtime.p4info import p4info

        output = arguments.output or Path(arguments.program).with_suffix(".json").name
        Path(output).write_bytes(encode(*source))
        for file in filter(None, arguments.p4runtime_files.split(",")):
            kind = arguments._p4runtime_format
            Path(file).write_bytes(p4info_bytes(p4info(*source), Path(file), kind))
    except P4Error as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{name} (p4engine): {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
