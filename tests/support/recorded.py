"""Records of what hosts and switches do: every packet, with its time, and what has been counted.

The same experiment gives the same packets in every version of the testbed, so that results can be
compared. A test makes a `Record` of what it sees and holds it against the one in
tests/data/recorded. There, packets are digests of CHUNK packets each; a test that fails tells the
packets of the first chunk that differs as they are now. Laws say what is right (laws.py,
wire_tap.py); a record only says what has changed. After a change on purpose

    INA_RECORD=1 pytest -n 0 tests/{unit,switch}/*/test_recorded_*.py

writes the records anew: what is in the difference belongs to the reasons for the change.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np

from testbed import dataplane
from testbed.dataplane.read_registers import marks
from testbed.protocols import sizes
from testbed.setup import Setup
from tests.support.fabric import US, Host
from tests.support.histories.history import frame_words
from tests.support.paths import DATA

CHUNK = 24  # packets
RENEW = os.environ.get("INA_RECORD") == "1"


class Draw(random.Random):
    """Draws that all versions of Python make alike."""

    def one(self, choices: Any) -> Any:
        return choices[self.randrange(len(choices))]

    def chance(self, percent: int) -> bool:
        return self.randrange(100) < percent


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=2).hexdigest()


def _path(file: str) -> Path:
    return DATA / "recorded" / f"{file}.json"


@functools.cache
def _known(file: str) -> dict[str, dict[str, Any]]:
    return json.loads(_path(file).read_text()) if _path(file).exists() else {}


def names(file: str) -> set[str]:
    """The records that there are."""
    return {*_known(file)}


class Record:
    """What has happened. `facts`: what is known at the end, by name."""

    def __init__(self) -> None:
        self.packets: list[tuple[int, str, bytes]] = []
        self.facts: dict[str, Any] = {}

    def note(self, now: int, where: str, frame: bytes) -> None:
        self.packets.append((now, where, frame))

    def note_hosts(self, hosts: list[Host]) -> None:
        """What they have counted, by job and role, and when tensors were sent and done."""
        times = b""
        for host in sorted(hosts, key=lambda each: each.spec.host):
            spec = host.spec
            role = f"job {spec.job.number}, {'workers' if spec.is_worker else 'servers'}"
            for name, count in host.counters().items():
                if count:
                    key = f"{role}: {name}"
                    self.facts[key] = self.facts.get(key, 0) + count
            if spec.is_worker:
                board = host.machine.scoreboard
                times += board.first_sent_ns.tobytes() + board.done_ns.tobytes()
        self.facts["times of tensors"] = digest(times)

    def note_switches(self, setup: Setup, switches: dict[str, Any]) -> None:
        """What they have counted, and what is in their memory, by register."""
        memory: dict[str, bytes] = {}
        for name, switch in switches.items():
            ports = sorted(setup.platform.topology.ports(name))
            for job, event, count in dataplane.counters(setup.platform, switch):
                if count:
                    key = f"job {job}: {event}"
                    self.facts[key] = self.facts.get(key, 0) + int(count)
            for what, found in (
                ("refused", dataplane.refusals(setup.platform, switch, ports)),
                ("marked", marks(switch, ports)),
            ):
                listed = {port: count for port, count in found.items() if count}
                if listed:
                    self.facts[f"{name}: {what} by port"] = str(listed)
            for register in switch.compiled.info.registers:
                read = np.array(switch.register_read(register.name), dtype=object)
                short = register.name.rpartition(".")[2]
                memory[short] = memory.get(short, b"") + repr(read.tolist()).encode()
        for register_name, content in memory.items():
            self.facts[f"register {register_name}"] = digest(content)

    def _chunks(self) -> list[str]:
        return [
            digest(repr(self.packets[place : place + CHUNK]).encode())
            for place in range(0, len(self.packets), CHUNK)
        ]

    def as_json(self) -> dict[str, Any]:
        return {"packets": " ".join([str(len(self.packets)), *self._chunks()])} | self.facts

    def hold(self, file: str, name: str) -> None:
        """Fail unless this is the record of that name."""
        if RENEW:
            known = _known(file)
            known[name] = self.as_json()
            _path(file).write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
            return
        assert name in _known(file), f"{name} has never been recorded"
        recorded, found = _known(file)[name], self.as_json()
        if found == recorded:
            return
        lines = [f"{name} is not what {_path(file).name} says (tests/support/recorded.py):"]
        before = recorded["packets"].split()[1:]
        chunks = self._chunks()
        pairs = enumerate(zip(before, chunks, strict=False))
        first = next((place for place, (old, new) in pairs if old != new), len(before))
        if before != chunks:
            count = recorded["packets"].split()[0]
            lines.append(f"{len(self.packets)} packets instead of {count}; the first that differ:")
            for now, where, frame in self.packets[CHUNK * first :][:CHUNK]:
                what = frame_words(frame) if len(frame) > sizes.FRAME_OVERHEAD + 24 else ""
                lines.append(f"{now / US:11.2f} us  {where:9s} {what}")
        for key in sorted({*recorded, *found} - {"packets"}):
            if recorded.get(key) != found.get(key):
                lines.append(f"{key}: {found.get(key)} instead of {recorded.get(key)}")
        raise AssertionError("\n".join(lines))
