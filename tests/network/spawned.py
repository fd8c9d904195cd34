"""Functions that tests have a spawner call in its children."""

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


def echo(arguments: dict, descriptors: list[int]) -> None:
    print("to the log")
    answer = {"length": len(arguments["text"]), "preloaded": PRELOADED}
    os.write(descriptors[0], json.dumps(answer).encode())


def fail(arguments: dict, descriptors: list[int]) -> None:
    raise ZeroDivisionError


def three(arguments: dict, descriptors: list[int]) -> int:
    return 3


def leave(arguments: dict, descriptors: list[int]) -> None:
    sys.exit("no such thing")


def sleep(arguments: dict, descriptors: list[int]) -> None:
    time.sleep(600)


def stubborn(arguments: dict, descriptors: list[int]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)


def talk_and_sleep(arguments: dict, descriptors: list[int]) -> None:
    print("before the end", flush=True)
    time.sleep(600)
