"""Functions that a spawner's children call in tests."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

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
