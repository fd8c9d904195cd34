"""P4Runtime for a switch process: its command line's options, put together.

Anybody who can open the address can program the switch, unless there are certificates
(certificates.py). So it is on the machine itself unless the user names another address.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from p4engine.frontend.diagnostics import Diagnostic, P4Error
from p4engine.p4runtime.certificates import certificates_of, exposure
from p4engine.p4runtime.device import Device
from p4engine.p4runtime.device_config import encode
from p4engine.p4runtime.p4info import p4info
from p4engine.p4runtime.service import Service

LOOPBACK = "127.0.0.1"
CLONE_NEWNET = 0x40000000


def full_address(text: str) -> str:
    """The address for gRPC of "9559", "HOST:9559", "[::1]:9559" or "unix:/path"."""
    if text.startswith("unix:"):
        return text
    host, colon, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535 or (colon and not host):
        message = f"{text!r} is not an address for P4Runtime: PORT, HOST:PORT or unix:PATH"
        raise P4Error([Diagnostic("error", message, "", 0, 0, "")])
    return f"{host or LOOPBACK}:{port}"


def enter_namespace(path: str) -> None:
    """Move the calling thread into a network namespace."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(number, CLONE_NEWNET):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(number)


def controllers_of(
    arguments: argparse.Namespace,
) -> Callable[[Any], AbstractContextManager[None]]:
    """The argument `controllers` of `switch.serve`, from the options of the switch command.

    Raises P4Error: the address or the certificates make no sense, or P4Info cannot be made.
    """
    address = full_address(arguments.p4runtime)
    certificates = certificates_of(arguments)
    if warning := exposure(address, certificates):
        print(f"warning: {warning}", file=sys.stderr, flush=True)
    source = (arguments.program, dict(arguments.define), arguments.include)
    info, config = p4info(*source), encode(*source)
    path = arguments.p4runtime_netns

    @contextmanager
    def controllers(switch: Any) -> Iterator[None]:
        with_packets = arguments.cpu_port is not None
        service = Service(
            Device(switch, info, switch.loop.locked, config=config),
            address,
            device_id=arguments.device_id,
            inject=switch.inject if with_packets else None,
            idle_timer=True,
            enter=(lambda: enter_namespace(path)) if path else (lambda: None),
            certificates=certificates,
        )
        try:
            if with_packets:
                switch.loop.from_cpu_port(service.packet)
            switch.pipeline.on_digest(lambda name, _, values: service.digest(name, values))
            yield
        finally:
            service.close()

    return controllers
