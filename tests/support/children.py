"""A stand-in for the process of a host, which a spawner's child calls in tests."""

from __future__ import annotations

import json
import os
import socket
import sys
import time

from testbed.hosts import progress_board as board
from testbed.protocols.host_spec import HostSpec


def host(arguments: dict, descriptors: list[int]) -> int:
    """A stand-in for testbed.hosts.host_process: keeps to the control protocol, sends no packet.

    The extra option `behaviour` says how it goes wrong: "die", "fail", "freeze" (no sign of life),
    "idle" (signs of life, but no progress), "early" (ends before it is ready); "" is a good one.
    """
    control = socket.socket(fileno=descriptors[0])
    row = board.open_board(descriptors[1], arguments["rows"])[arguments["row"]]
    spec = HostSpec.from_json(arguments["spec"])
    behaviour = spec.options.extra["behaviour"]
    if behaviour == "early":
        sys.exit("cannot open the socket")
    control.send(json.dumps({"ready": True, "pid": os.getpid()}).encode())
    start_ns = json.loads(control.recv(65536))["start_ns"]
    while time.monotonic_ns() < start_ns:
        time.sleep(0.001)
    print("began", flush=True)
    for iteration in range(1, spec.job.iterations + 1):
        row[board.HEARTBEAT_NS] = time.monotonic_ns()
        if behaviour == "die":
            print("cannot go on", flush=True)
            os._exit(7)
        if behaviour == "fail":
            control.send(json.dumps({"failed": "wrong value: job a, iteration 0"}).encode())
        while behaviour in ("freeze", "idle"):
            time.sleep(0.01)
            if behaviour == "idle":
                row[board.HEARTBEAT_NS] = time.monotonic_ns()
        row[board.ITERATION] = iteration
        time.sleep(0.01)
    done = {"done": {"end_ns": time.monotonic_ns() - start_ns, "start_ns": start_ns}}
    if spec.is_worker:
        control.send(json.dumps(done).encode())
    control.settimeout(0.02)
    while True:
        row[board.HEARTBEAT_NS] = time.monotonic_ns()
        try:
            control.recv(65536)
            break
        except TimeoutError:
            pass
    if not spec.is_worker:
        control.send(json.dumps(done).encode())
    return 0
