"""Captures of a run on Mininet (`ina FILE --pcap SWITCH:PORT`): the processes that do it.

Each port gets a process and a file `captures/<switch>-<port>.pcapng` in the results folder, for all
repetitions of the run. The processes belong to the run's session, so they end with it in any case.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.errors import RunError

if TYPE_CHECKING:
    from p4fabric.base.captured_ports import CapturedPort
    from p4fabric.emulate.spawner import Process

    from testbed.emulate.session import Session

START_S = 20
STILL_S = 30  # without a byte more in any file; one that is behind goes on as long as it takes


class Captures:
    """A context manager: inside, all packets that pass the ports are written down."""

    def __init__(
        self, wanted: Sequence[CapturedPort], session: Session, folder: Path, library: Path | None
    ) -> None:
        """folder: of the files, which is made; the session's network must have been built.
        library: of the embedded switch's program, with which trains are taken apart."""
        self._wanted = wanted
        self._library = library
        self._session = session
        self._folder = folder
        self._processes: list[Process] = []

    def __enter__(self) -> Captures:
        if not self._wanted:
            return self
        self._folder.mkdir()
        spawner, network = self._session.nodes, self._session.network
        for each in self._wanted:
            own = network[each.switch].nameToIntf[f"{each.switch}-eth{each.port}"]
            other = own.link.intf2 if own is own.link.intf1 else own.link.intf1
            arguments = {
                "switch": network.holders[each.switch].pid,
                "peer": network.holders[each.neighbour].pid,
                "interface": own.name,
                "peer_interface": other.name,
                "path": str(self._folder / each.file_name),
                "title": each.title,
                "library": str(self._library) if self._library else None,
            }
            name = f"capture-{each.switch}-{each.port}"
            log = self._session.logs / f"{name}.log"
            target = "p4fabric.emulate.capture:capture"
            self._processes.append(spawner.spawn(name, target, arguments, log))
        spawner.wait_started(self._processes)
        self._session.note_processes()
        self._wait_for_files()
        return self

    def _wait_for_files(self) -> None:
        deadline_s = time.monotonic() + START_S
        for each, process in zip(self._wanted, self._processes, strict=True):
            path = self._folder / each.file_name
            while not path.exists():
                self._session.nodes.pump()
                if process.code is not None or time.monotonic() > deadline_s:
                    tail, log = process.log_tail(), str(process.log)
                    raise RunError(f"cannot capture {each.switch}:{each.port}", tail, log)
                time.sleep(0.01)

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        # Also after an error: a capture holds up to a megabyte that is not yet in its file.
        if not self._processes:
            return
        try:
            self._end()
        except RunError as error:
            if kind is None:
                raise
            print(f"warning: {error}", file=sys.stderr)  # the run's own error says more

    def _end(self) -> None:
        """Let the captures write the rest of what passed; raises RunError if one broke off."""
        for process in self._processes:
            self._session.nodes.signal(process, signal.SIGTERM)
        written = self._written()
        while True:
            try:
                self._session.nodes.wait_ended(self._processes, STILL_S, "end of the captures")
                break
            except RunError:
                before, written = written, self._written()
                if written == before:
                    raise
        for each, process in zip(self._wanted, self._processes, strict=True):
            if process.code != 0:
                tail, log = process.log_tail(), str(process.log)
                raise RunError(f"the capture of {each.switch}:{each.port} broke off", tail, log)
            said = process.log_tail().strip()
            if said:
                print(f"warning: capture {each.switch}:{each.port}: {said}", file=sys.stderr)

    def _written(self) -> list[int]:
        """The length of each file."""
        return [(self._folder / each.file_name).stat().st_size for each in self._wanted]
