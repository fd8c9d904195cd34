"""A fake simple_switch: it accepts every call, and its registers hold zeros.

Before anything is built, an experiment's control calls are made on it. p4utils checks names,
numbers of parameters and widths against the program's JSON, as in a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from testbed.bmv2.connection import p4utils_api
from testbed.bmv2.control_client import Client


def dry_run_client(program: Path, name: str) -> Client:
    """A control client of a switch that does not exist. program: p4c's JSON."""
    absent = FakeThriftClient(program)

    def clients(services: Sequence[tuple[str, Any]]) -> list[Any]:
        return [absent] * len(services)

    return Client(p4utils_api(clients, program), name)


class FakeThriftClient:
    """Replaces a Thrift client of any service."""

    def __init__(self, program: Path) -> None:
        content = program.read_bytes()
        arrays = json.loads(content)["register_arrays"]
        self._sizes = {array["name"]: array["size"] for array in arrays}
        self._handles = 0
        self._content = content

    def bm_get_config_md5(self) -> bytes:
        import hashlib

        return hashlib.md5(self._content).digest()

    def bm_mt_get_entries(self, context: int, table: str) -> list:
        return []

    def bm_mc_mgrp_create(self, context: int, group: int) -> int:
        return group

    def bm_register_read_all(self, context: int, name: str) -> list[int]:
        return [0] * self._sizes[name]

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._handle

    def _handle(self, *arguments: Any) -> int:
        self._handles += 1
        return self._handles
