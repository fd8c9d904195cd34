"""The `call` command: one control call to a switch process."""

from __future__ import annotations

import argparse
import json

from p4engine.control.client import Client


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `call`."""
    parser.add_argument("socket", help="the control socket of the switch")
    parser.add_argument("name", help="of the call, for example table_dump")
    parser.add_argument("arguments", nargs="*", type=_argument, help="text or JSON")


def _argument(text: str) -> object:
    """JSON where it is JSON (numbers, lists), else the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def main(arguments: argparse.Namespace) -> int:
    """p4engine call SOCKET NAME [ARGUMENT...]."""
    with Client(arguments.socket) as client:
        result = client.call(arguments.name, *arguments.arguments)
    print("\n".join(result) if arguments.name == "trace_lines" else json.dumps(result))
    return 0
