"""Functions that a spawner's children call in tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time

from testbed.hosts import progress_board as board
from testbed.protocols.host_spec import HostSpec

PRELOADED = False


def preload() -> None:
    global PRELOADED
    PRELOADED = True


NOTED: list[int] = []


def note(numbers: list[int]) -> None:
    NOTED.extend(numbers)


def echo(arguments: dict, descriptors: list[int]) -> None:
    print("to the log")
    answer = {"length": len(arguments["text"]), "preloaded": PRELOADED, "noted": NOTED}
    os.write(descriptors[0], json.dumps(answer).encode())


def take_all_memory(*_: object) -> None:
    bytearray(1 << 62)


def fill_disk(arguments: dict, descriptors: list[int]) -> None:
    """Write more than goes into a folder. What it says before has room for a traceback beside it,
    in the log's last block."""
    print(arguments["words"], end="", flush=True)
    with open(f"{arguments['folder']}/file", "wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass


def fail(arguments: dict, descriptors: list[int]) -> None:
    raise ZeroDivisionError


def three(arguments: dict, descriptors: list[int]) -> int:
    return 3


def end_by_signal(arguments: dict, descriptors: list[int]) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def leave(arguments: dict, descriptors: list[int]) -> None:
    sys.exit("no such thing")


def sleep(arguments: dict, descriptors: list[int]) -> None:
    time.sleep(600)


def stubborn(arguments: dict, descriptors: list[int]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)


def lead(arguments: dict, descriptors: list[int]) -> None:
    """Lead a session with another process in it, which outlives this one if nobody ends it; say
    which."""
    os.setsid()
    other = os.fork()
    if other == 0:
        time.sleep(600)
        os._exit(0)
    os.write(descriptors[0], b"%d\n" % other)
    if not arguments["ends"]:
        time.sleep(600)


def talk_and_sleep(arguments: dict, descriptors: list[int]) -> None:
    print("before the end", flush=True)
    time.sleep(600)


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
