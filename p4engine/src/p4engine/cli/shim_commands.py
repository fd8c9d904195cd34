"""The stand-in of simple_switch_CLI: BMv2's text commands for the stand-in of simple_switch."""

from __future__ import annotations

import argparse
import sys

from p4engine.cli.shim_switch import control_path
from p4engine.control.client import CallError, Client
from p4engine.control.commands import Commands
from p4engine.switch.traffic_manager import SwitchError
from p4engine.values.numbers import ControlError

PROMPT = "RuntimeCmd: "


def main(argv: list[str]) -> int:
    """NAME [--thrift-port N], commands on standard input."""
    name, *words = argv
    parser = argparse.ArgumentParser(prog=name, description=f"Stand-in of p4engine for {name}.")
    parser.add_argument("--thrift-port", type=int, default=9090)
    parser.add_argument("--thrift-ip", default="localhost", choices=("localhost", "127.0.0.1"))
    parser.add_argument("--json", help=argparse.SUPPRESS)
    parser.add_argument("--pre", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    try:
        client = Client(control_path(arguments.thrift_port))
    except (CallError, SwitchError) as error:
        print(f"{name} (p4engine): port {arguments.thrift_port}: {error}", file=sys.stderr)
        return 1
    with client:
        commands = Commands(client)
        print(PROMPT, end="", flush=True)
        for line in sys.stdin:
            if line.split("#")[0].strip() in ("EOF", "quit", "exit"):
                break
            try:
                said = commands.run(line)
                if said is not None:
                    print(said)
            except (ControlError, CallError) as error:
                print(f"Error: {error}")
            print(PROMPT, end="", flush=True)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
