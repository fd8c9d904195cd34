"""`p4engine.process_end`: how a process ends whose work is done."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys, threading, time
from p4engine.process_end import exit_with

class Loaded:
    def __del__(self):
        print("taken apart", flush=True)

loaded = Loaded()

def late():
    time.sleep(0.2)
    print("thread")

def main():
    atexit.register(print, "at exit")
    threading.Thread(target=late).start()
    print("main")
    {end}

exit_with(main)
"""


def end(how: str, **streams: object) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(end=how)
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, text=True, env=environment, **streams)  # type: ignore


@pytest.mark.parametrize("code", [0, 3])
def test_it_ends_in_order_and_takes_nothing_apart(code):
    ended = end(f"return {code}", capture_output=True)
    assert (ended.returncode, ended.stderr) == (code, "")
    assert ended.stdout.split("\n") == ["main", "thread", "at exit", ""]


@pytest.mark.parametrize(
    "how, code, said", [("raise SystemExit(4)", 4, ""), ("1 / 0", 1, "ZeroDivisionError")]
)
def test_an_exception_ends_the_process_as_usual(how, code, said):
    ended = end(how, capture_output=True)
    assert ended.returncode == code
    assert said in ended.stderr
    assert ended.stdout.split() == ["main", "thread", "at", "exit", "taken", "apart"]


def test_output_that_cannot_be_written_is_no_success():
    with open("/dev/full", "w") as full:
        ended = end("return 0", stdout=full, stderr=subprocess.PIPE)
    assert ended.returncode == 120
    assert "No space left" in ended.stderr
