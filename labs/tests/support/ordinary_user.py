"""Running a part of a test as a user without privileges, where the tests run as root."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

USER = 54321  # nobody has this id
WHO = [
    pytest.param("root", marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root")),
    "ordinary user",
]


def run_as(who: str, function: Callable[[], Any]) -> Any:
    """Result of a function, as JSON can carry it, from a child process that runs as root or as an
    ordinary user. Skips the test if that user cannot read the checkout."""
    source, target = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(source)
            if who != "root" and os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(USER, USER, USER)
                os.setresuid(USER, USER, USER)
            try:
                Path(__file__).read_bytes()
                made = ["ok", function()]
            except PermissionError:
                made = ["skip", "another user cannot read this checkout"]
            except BaseException:
                made = ["error", traceback.format_exc()]
            os.write(target, json.dumps(made).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(target)
    with os.fdopen(source, "rb") as file:
        text = file.read()
    os.waitpid(child, 0)
    status, value = json.loads(text)
    if status == "skip":
        pytest.skip(value)
    assert status == "ok", value
    return value
