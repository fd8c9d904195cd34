"""The `switch` command: its options, and the process that it becomes."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager

from p4engine.cli.compile_command import compiled_from
from p4engine.process.switch_process import NetworkSwitch, no_controllers, serve
from p4engine.switch.packet_loop import LONGEST_TRAIN
from p4engine.switch.traffic_manager import SwitchError

NEED_P4RUNTIME = (
    "cpu_port",
    "p4runtime_netns",
    "p4runtime_cert",
    "p4runtime_key",
    "p4runtime_clients",
)


def parse_interface(text: str) -> tuple[int, str]:
    """ "1@s1-eth1" -> (1, "s1-eth1")."""
    number, at, name = text.partition("@")
    if not at or not number.isdigit() or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not PORT@INTERFACE, for example 1@s1-eth1")
    return int(number), name


def parse_control(text: str) -> str | socket.socket:
    """A path as it is; "fd:3" -> the inherited socket."""
    kind, colon, number = text.partition(":")
    if not colon or kind != "fd":
        return text
    try:
        return socket.socket(fileno=int(number))
    except (ValueError, OSError):
        raise argparse.ArgumentTypeError(f"{text!r} is not an inherited socket") from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `switch` beside those of the compiler."""
    parser.add_argument(
        "-i",
        "--interface",
        type=parse_interface,
        action="append",
        required=True,
        metavar="PORT@NAME",
        help="a port and its network interface; repeat for each port",
    )
    parser.add_argument(
        "--control",
        required=True,
        metavar="PATH",
        type=parse_control,
        help="the control socket, or fd:N: an inherited, connected one, with which the switch ends",
    )
    parser.add_argument("--seed", type=int, default=0, help="of random() and of emulated losses")
    parser.add_argument("--timestamp-unit-ns", type=int, default=1000, metavar="NS")
    parser.add_argument(
        "--priority-queues",
        type=int,
        default=1,
        metavar="N",
        help="egress queues of each port; a packet's priority selects one, 0 is the lowest",
    )
    parser.add_argument("--cpu", type=int, help="stay on this core")
    parser.add_argument(
        "--trains",
        action="store_true",
        help="send UDP packets that leave together as one buffer (segmentation offload)",
    )
    parser.add_argument(
        "--trace", action="store_true", help="run a build that the trace calls can follow (slow)"
    )
    parser.add_argument(
        "--p4runtime",
        metavar="ADDRESS",
        help="serve P4Runtime there: a port (of 127.0.0.1), HOST:PORT or unix:PATH",
    )
    parser.add_argument(
        "--p4runtime-netns",
        metavar="PATH",
        help="listen in this network namespace instead of the switch's own",
    )
    parser.add_argument(
        "--p4runtime-cert",
        metavar="FILE",
        help="serve P4Runtime over TLS with this certificate (PEM); needs --p4runtime-key",
    )
    parser.add_argument("--p4runtime-key", metavar="FILE", help="the certificate's private key")
    parser.add_argument(
        "--p4runtime-clients",
        metavar="FILE",
        help="take only controllers with a certificate that one of these (PEM) has signed",
    )
    parser.add_argument("--device-id", type=int, default=1, metavar="N", help="for P4Runtime")
    parser.add_argument(
        "--cpu-port", type=int, metavar="N", help="the port of packets from and to controllers"
    )


def main(arguments: argparse.Namespace) -> int:
    """p4engine switch PROGRAM.p4 -i PORT@NAME... --control PATH."""
    compiled = compiled_from(arguments, arguments.trace)
    interfaces = dict(arguments.interface)
    if len(interfaces) < len(arguments.interface):
        raise SwitchError("a port number is given twice")
    if arguments.cpu is not None:
        os.sched_setaffinity(0, {arguments.cpu})
    controllers: Callable[[NetworkSwitch], AbstractContextManager[None]] = no_controllers
    if arguments.p4runtime is not None:
        from p4engine.p4runtime.serve import controllers_of

        controllers = controllers_of(arguments)
    else:
        for option in NEED_P4RUNTIME:
            if getattr(arguments, option) is not None:
                name = option.replace("_", "-")
                raise SwitchError(f"--{name} means something with --p4runtime only")
    control = arguments.control
    where = "" if isinstance(control, socket.socket) else f", control socket {control}"
    return serve(
        compiled,
        interfaces,
        control,
        seed=arguments.seed,
        timestamp_unit_ns=arguments.timestamp_unit_ns,
        priority_queues=arguments.priority_queues,
        cpu_port=arguments.cpu_port,
        trains=LONGEST_TRAIN if arguments.trains else 0,
        controllers=controllers,
        ready=lambda: print(f"switch: ready{where}", flush=True),
    )
