"""The process in the sandbox: it answers the grader's calls, and nothing else.

The module first imports what it will need, then puts up the walls (walls.py), and only then looks
at what a student has written. A process is one of four kinds: it compiles a P4 program, it holds
switches that run compiled ones, it is the switch of a Mininet network, or it has a student's Python
module loaded.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from . import chance, channel, clock, walls

PACKETS_AT_ONCE = 4096  # that a switch may send in answer to one packet
TRACE_LINES = 2000
MESSAGE_CHARACTERS = 4000
LOOK_S = 0.0002  # interval of looks at a switch on a network that may have finished


class Worker:
    """The calls. `scratch` is the only folder that it knows."""

    def __init__(self, scratch: Path, packets: ThreadPoolExecutor | None = None) -> None:
        self.scratch = scratch
        self.packets = packets  # has a thread for the packets of a switch on a network
        self.carrying: Future | None = None
        self.switches: list[Any] = []
        self.log: list[str] = []
        self.module: Any = None
        self.objects: list[Any] = []

    # ---- P4 ----

    def compile(self, program: str, defines: dict[str, Any], trace: bool) -> list:
        """Compile scratch/source/`program`; returns [key, warnings]."""
        from p4engine.backend.build import compile_program

        source, cache = self.scratch / "source" / program, self.scratch / "cache"
        compiled = compile_program(source, defines, trace=trace, cache=cache)
        warnings = [str(w).replace(f"{source.parent}/", "") for w in compiled.warnings]
        return [compiled.hash, warnings]

    def load(self, key: str, ports: list[int], seed: int, trace: bool) -> int:
        """Make a switch that runs the program that was compiled as `key`; returns its number."""
        from p4engine.switch.library import Switch

        return self._loaded(Switch(self._compiled(key), ports=ports, seed=seed), trace)

    def attach(self, key: str, interfaces: Mapping[int, str], seed: int, trace: bool) -> int:
        """Like `load`, of a switch whose ports are network interfaces, by number of the port. It
        takes the place of the one that they had before."""
        from p4engine.process.switch_process import NetworkSwitch

        self.unload()
        number = self._loaded(NetworkSwitch(self._compiled(key), interfaces, seed=seed), trace)
        assert self.packets is not None, "the box is no switch of a network"
        self.carrying = self.packets.submit(self.switches[number].loop.run)
        return number

    def _compiled(self, key: str) -> Any:
        from p4engine.backend.build import compiled_before

        compiled = compiled_before(self.scratch / "cache" / f"{key}.so")
        assert compiled is not None, "a program that was compiled just now is damaged"
        return compiled

    def _loaded(self, switch: Any, trace: bool) -> int:
        switch.pipeline.on_log(lambda text: self.log.append(text[:200]))
        if trace:
            switch.trace(packets=None)
        self.switches.append(switch)
        return len(self.switches) - 1

    def unload(self) -> None:
        """Forget all switches."""
        while self.switches:
            switch = self.switches.pop()
            if self.carrying is not None:
                switch.loop.stop()
                self.carrying.result()
                self.carrying = None
            switch.close()

    def _locked(self, number: int) -> AbstractContextManager:
        """No packet passes the switch inside."""
        loop = getattr(self.switches[number], "loop", None)
        return nullcontext() if loop is None else loop.locked()

    def control(self, number: int, calls: list[list]) -> list:
        """Calls of library.Switch, [[name, args, kwargs], ...]."""
        made = []
        with self._locked(number):
            for name, args, kwargs in calls:
                made.append(getattr(self.switches[number], name)(*args, **kwargs))
        return made

    def send(self, number: int, packets: list[list], until_ns: int | None) -> list:
        """Send [[port, bytes, time_ns], ...] and take what leaves until a time, or until nothing
        more happens; returns [[[time_ns, port, bytes], ...], all_told, log, astray]: how many have
        left for a port or a multicast group that the switch does not have."""
        switch, outputs = self.switches[number], []
        before = _astray(switch)
        for port, data, now_ns in packets:
            switch.receive(port, data, now_ns)
            outputs += switch.advance(now_ns)
        outputs += switch.run() if until_ns is None else switch.advance(until_ns)
        log, self.log = self.log[:20], []
        astray = _astray(switch) - before
        return [[list(o) for o in outputs[:PACKETS_AT_ONCE]], len(outputs), log, astray]

    def settle(self, number: int, received: int, limit_s: float) -> list:
        """Wait until a switch on a network has received so many frames since it exists, and has
        nothing more to do; at most `limit_s`.

        Returns [whether it is so, {port: [frames received, frames sent]}, log, astray]; astray as
        of `send`, since the switch exists.
        """
        switch, begin = self.switches[number], time.monotonic()
        assert self.carrying is not None, "the switch is not on a network"
        while True:
            with switch.loop.locked():
                came = switch.loop.stats()["received"]
                done = came >= received and switch.next_event_ns() is None
            waited_s = time.monotonic() - begin
            if done or waited_s > limit_s or self.carrying.done():
                break
            time.sleep(max(LOOK_S, waited_s / 20))  # a look takes processor time
        with switch.loop.locked():
            counted: dict[int, list[int]] = {port: [0, 0] for port in switch.ports}
            for row in switch.port_stats():
                counted[row["port"]][row["direction"] == "egress"] = row["packets"]
            astray = _astray(switch)
        log, self.log = self.log[:20], []
        return [done, counted, log, astray]

    def trace(self, number: int) -> list[str]:
        """The trace since the last call."""
        with self._locked(number):
            return self.switches[number].trace_lines()[:TRACE_LINES]

    def stf(self, key: str, name: str) -> str:
        """Run the test scratch/cache/`name` on a switch of its own; why it fails, "": it passes."""
        from p4engine.stf.stf_run import run_test

        result = run_test(self._compiled(key), self.scratch / "cache" / name)
        d = result.difference
        if d is None:
            text = result.message or f"the test cannot be run ({result.status})"
            return "" if result.status == "pass" else text.replace(f"{self.scratch}/cache/", "")
        got = "nothing" if d.sent is None else d.sent.hex()
        where = f" (line {d.line})" if d.line else ""
        told = f"port {d.port}{where}: {d.reason}"
        return f"{told}\nexpected  {d.expected or 'nothing'}\ngot       {got}"

    # ---- Python ----

    def module_load(self, name: str) -> None:
        """Import scratch/source/`name`."""
        path = (self.scratch / "source" / name).resolve()
        sys.path.insert(0, str(path.parent))
        self.module = importlib.import_module(path.stem)

    def function(self, name: str, args: list) -> Any:
        """Call a function of the module."""
        return self._named(name)(*args)

    def make(self, name: str, args: list) -> int:
        """Make an object of a class of the module; returns its number."""
        self.objects.append(self._named(name)(*args))
        return len(self.objects) - 1

    def method(self, number: int, name: str, args: list) -> Any:
        """Call a method of an object."""
        return getattr(self.objects[number], name)(*args)

    def methods(self, calls: list[list]) -> list:
        """Several of these, [[number, name, args], ...]."""
        return [self.method(*each) for each in calls]

    def _named(self, name: str) -> Any:
        found = getattr(self.module, name, None)
        if found is None:
            raise NameError(f"{Path(self.module.__file__).name} has no {name!r}")
        return found


def _astray(switch: Any) -> int:
    """Packets that have left for ports and groups that are not there, so far."""
    stats = switch.stats()
    return int(stats["no_port"]) + int(stats["no_group"])


CALLS = {name for name in vars(Worker) if not name.startswith("_")}


def explain(error: BaseException, scratch: Path) -> str:
    """An error in a student's words: a P4 error with its lines, or the end of a traceback."""
    if type(error).__module__.startswith("p4engine."):
        text = str(error)
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if f.filename.startswith(str(scratch / "source"))]
        try:
            lines = [f"{type(error).__name__}: {error}"]
        except BaseException:  # an error of the student's own, with an error in it
            lines = [type(error).__name__]
        for f in own[-4:]:
            lines.append(f"  {f.filename}, line {f.lineno}, in {f.name}: {f.line}")
        text = "\n".join(lines)
    text = text.replace(f"{scratch / 'source'}/", "")
    return text.replace(str(scratch / "source"), "your folder")[:MESSAGE_CHARACTERS]


def serve(worker: Worker, requests: int, replies: int) -> None:
    """Answer calls until the grader is gone."""
    while (message := channel.read(requests)) is not None:
        name, args = message
        try:
            if name not in CALLS:
                raise NameError(name)
            call: Callable[..., Any] = getattr(worker, name)
            result = ["ok", channel.encode(call(*(channel.decode(a) for a in args)))]
        except SystemExit:
            result = ["error", "your program calls exit"]
        except BaseException as error:  # a student's program may raise anything
            result = ["error", explain(error, worker.scratch)]
        channel.write(replies, result)


PRELOAD = {
    "compile": (
        "p4engine.backend.build",
        "p4engine.backend.emit_program",
        "p4engine.frontend.parser.parse_program",
    ),
    "switch": ("p4engine.switch.library", "p4engine.backend.build", "p4engine.trace.trace_text"),
    "python": (),
}
PRELOAD["network"] = (*PRELOAD["switch"], "p4engine.process.switch_process")


def main(kind: str, folder: str, limits: str, modules: str, start: str, descriptors: str) -> None:
    """Put up the walls, say so, and serve.

    Args:
        limits: JSON, for walls.limit.
        modules: names of further modules to import before, in JSON.
        start: descriptor with the filter of system calls.
        descriptors: of requests and replies, in JSON.
    """
    requests, replies = json.loads(descriptors)
    for name in (*PRELOAD[kind], *json.loads(modules)):
        importlib.import_module(name)
    with os.fdopen(int(start), "rb") as file:
        filter_program = file.read()
    packets = ThreadPoolExecutor(1, "packets") if kind == "network" else None

    def start_threads() -> None:
        if packets is not None:
            packets.submit(int).result()

    walls.put_up(json.loads(limits), filter_program, kind == "network", start_threads)
    channel.write(replies, ["ok", None])
    sys.argv[:] = [""]
    if kind == "python":
        clock.install()
        chance.install()
    serve(Worker(Path(folder), packets), requests, replies)
    os._exit(0)  # no student's code at the end of the process
