"""A host process's end of the link to its program (testbed/collective): shared memory, a socket at
which the program joins, and two eventfds with which they wake each other.

The program connects once and is sent the memory file, the eventfd that it rings for new calls, and
the one that is rung for it when calls are done. If its end of the connection closes, the program
has ended; what it has submitted is still summed, as the other ranks wait for it.

All descriptors that end the packet loop's sleep, the runner's socket included, are in one epoll:
the loop watches that one alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
from typing import Any

from testbed.collective import memory_map
from testbed.collective.client import address_of, socket_name
from testbed.protocols.host_spec import HostSpec
from testbed.workload import feed, worker

# What the arrays of a rank may take. Only pages that have been written to take memory.
ARENA_WORDS = 1 << 28  # 1 GiB


class ProgramLink:
    """The link of one worker. `fileno` is that of the epoll."""

    def __init__(self, spec: HostSpec, control: int) -> None:
        """control: descriptor of the socket to the runner."""
        job = spec.job
        self._title = f"job {job.name}"
        size = memory_map.shared_bytes(ARENA_WORDS)
        self._file = os.memfd_create("arrays", os.MFD_CLOEXEC)
        os.ftruncate(self._file, size)
        self.memory = memory_map.shared(memory_map.map_memory(self._file, size))
        self.memory.header["version"] = memory_map.VERSION
        self._facts = {
            "rank": spec.number,
            "ranks": job.workers,
            "block_values": job.tensors[0].values,
            "fixed": job.fixed_scale > 0,
            "bytes": size,
        }
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._news = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(address_of(socket_name(job.number, spec.number)))
        self._listener.listen(8)
        self._program: socket.socket | None = None
        self.joined = False  # and the runner is to be told
        self._control = control
        self._left: dict[int, int] = {}  # ranks that have ended -> collectives that they called
        self._epoll = select.epoll()
        for descriptor in (control, self._bell, self._listener.fileno()):
            self._epoll.register(descriptor, select.EPOLLIN)

    def fileno(self) -> int:
        return self._epoll.fileno()

    def attend(self, machine: Any) -> bool:
        """Do what the program wants; True if the runner has said something, too."""
        said = False
        for descriptor, _ in self._epoll.poll(0):
            if descriptor == self._control:
                said = True
            elif descriptor == self._bell:
                os.eventfd_read(self._bell)
                worker.submit(machine, self.memory)
                self._check_left(machine)
            elif descriptor == self._listener.fileno():
                self._accept()
            else:
                self._hear(machine)
        return said

    def _accept(self) -> None:
        program, _ = self._listener.accept()
        if self._program is not None:
            self._refuse(program)
            return
        self._program = program
        self.joined = True
        data = json.dumps(self._facts).encode()
        try:
            socket.send_fds(program, [data], [self._file, self._bell, self._news])
        except OSError:  # gone already
            pass
        self._epoll.register(program.fileno(), select.EPOLLIN)

    def _refuse(self, program: socket.socket) -> None:
        """Tell a second process of the rank why it cannot join."""
        rank = f"rank {self._facts['rank']} of {self._title}"
        if self._program is not None and self._program.fileno() >= 0:
            why = (
                f"{rank} is a single process, and another one has joined as it. A host has one"
                " rank: start torchrun with --nproc-per-node 1"
            )
        else:
            why = (
                f"the process of {rank} has ended, and a restarted one cannot take its place: run"
                " the experiment again"
            )
        with program, contextlib.suppress(OSError):  # gone already
            program.send(json.dumps({"refused": why}).encode())

    def _hear(self, machine: Any) -> None:
        """The program says nothing; it hangs up."""
        assert self._program is not None
        self._epoll.unregister(self._program.fileno())
        self._program.close()
        self.end(machine)

    def end(self, machine: Any) -> None:
        """The program has ended: there will be no more calls."""
        self.memory.header["closed"] = 1
        worker.submit(machine, self.memory)

    def rank_left(self, machine: Any, rank: int, calls: int) -> None:
        """Another rank has ended after so many collectives."""
        self._left[rank] = calls
        self._check_left(machine)

    def _check_left(self, machine: Any) -> None:
        """Fail if this rank waits for one that will never come."""
        called = int(machine.source.state.submitted)
        for rank, calls in self._left.items():
            if called > calls:
                self.fail(
                    f"rank {rank} of {self._title} has ended after {calls} collectives, and this"
                    f" rank waits for it in collective {calls}"
                )

    def fail(self, text: str) -> None:
        """Tell the program that the job is over, once."""
        if memory_map.read_failure(self.memory) is None:
            memory_map.write_failure(self.memory, text)
        os.eventfd_write(self._news, 1)

    def tell(self, machine: Any) -> str | None:
        """Tell the program that calls are done, or have failed; returns why they have failed."""
        machine.status["news"] = 0
        state = machine.source.state
        state.news = 0
        if not state.failed:
            os.eventfd_write(self._news, 1)
            return None
        text = feed.failure(machine.source, self.memory.words, self._title)
        self.fail(text)
        return text

    def close(self) -> None:
        for end in (self._listener, self._program):
            if end is not None:
                end.close()
        for descriptor in (self._bell, self._news, self._file):
            os.close(descriptor)
        self._epoll.close()
