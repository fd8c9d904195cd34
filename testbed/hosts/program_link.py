"""A host process's end of the links to its program (testbed/collective).

The program connects once for each communicator that it takes part in: first for its job, which all
ranks join, then for each further group of ranks that it makes. It says which one, and is sent that
communicator's shared memory, the eventfd that it rings for new calls, and the one that is rung for
it when calls are done. If its end of a connection closes, it has left the communicator. What it has
submitted is still summed, as the other ranks wait for it.

All descriptors that end the packet loop's sleep, the runner's socket included, are in one epoll:
the loop watches that one alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
from typing import Any, Protocol

from testbed.collective import memory_map
from testbed.collective.client import address_of, socket_name
from testbed.protocols.host_spec import HostSpec
from testbed.workload import feed, worker

# What the arrays of a rank may take. Only pages that have been written to take memory.
ARENA_WORDS = 1 << 28  # 1 GiB


class Role(Protocol):
    """A worker's machine with its specification."""

    spec: HostSpec
    machine: Any


class Membership:
    """A program's place in one communicator. `key`: of a group that it has made, "" of its job."""

    def __init__(self, role: Role, key: str = "") -> None:
        self.role, self.key = role, key
        job = role.spec.job
        self.title = f"job {job.name}"
        size = memory_map.shared_bytes(ARENA_WORDS)
        self._file = os.memfd_create("arrays", os.MFD_CLOEXEC)
        os.ftruncate(self._file, size)
        self.memory = memory_map.shared(memory_map.map_memory(self._file, size))
        self.memory.header["version"] = memory_map.VERSION
        self._facts = {
            "rank": role.spec.number,
            "ranks": job.workers,
            "block_values": job.tensors[0].values,
            "fixed": job.fixed_scale > 0,
            "bytes": size,
        }
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._news = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.program: socket.socket | None = None
        self.left = False  # True: the program has left
        self.said_left = False  # and the runner knows
        self._gone: dict[int, int] = {}  # ranks that have left -> collectives that they called

    @property
    def calls(self) -> int:
        """Collectives that the program has called."""
        return int(self.role.machine.source.state.submitted)

    @property
    def finished(self) -> bool:
        """True if the program has left and all that it has called is done."""
        return self.left and int(self.role.machine.source.state.done) == self.calls

    def answer(self, program: socket.socket) -> None:
        """Let the program in."""
        self.program = program
        data = json.dumps(self._facts).encode()
        with contextlib.suppress(OSError):  # gone already
            socket.send_fds(program, [data], [self._file, self.bell, self._news])

    def submit(self) -> None:
        """Tell the machine of new calls, and of their end."""
        worker.submit(self.role.machine, self.memory)
        self._check_gone()

    def leave(self) -> None:
        """The program has hung up, or ended: there will be no more calls."""
        self.left = True
        self.memory.header["closed"] = 1
        self.submit()

    def rank_left(self, rank: int, calls: int) -> None:
        """Another rank has left after so many collectives."""
        self._gone[rank] = calls
        self._check_gone()

    def _check_gone(self) -> None:
        """Fail if this rank waits for one that will never come."""
        for rank, calls in self._gone.items():
            if self.calls > calls:
                self.fail(
                    f"rank {rank} of {self.title} has ended after {calls} collectives, and this"
                    f" rank waits for it in collective {calls}"
                )

    def fail(self, text: str) -> None:
        """Tell the program that the communicator is of no use any more, once."""
        if memory_map.read_failure(self.memory) is None:
            memory_map.write_failure(self.memory, text)
        os.eventfd_write(self._news, 1)

    def tell(self) -> str | None:
        """Tell the program that calls are done, or have failed; returns why they have failed."""
        machine = self.role.machine
        machine.status["news"] = 0
        state = machine.source.state
        state.news = 0
        if not state.failed:
            os.eventfd_write(self._news, 1)
            return None
        text = feed.failure(machine.source, self.memory.words, self.title)
        self.fail(text)
        return text

    def close(self) -> None:
        if self.program is not None:
            self.program.close()
        for descriptor in (self.bell, self._news, self._file):
            os.close(descriptor)


class ProgramLink:
    """All memberships of one worker's program. `fileno` is that of the epoll."""

    def __init__(self, role: Role, control: int) -> None:
        """role: the worker's role in its job. control: descriptor of the socket to the runner."""
        spec = role.spec
        self.job = Membership(role)
        self._memberships = [self.job]
        self.joined = False  # and the runner is to be told
        self.wanted: list[dict] = []  # groups that the program wants; the runner is to be told
        self._control = control
        self._rank = f"rank {spec.number} of job {spec.job.name}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(address_of(socket_name(spec.job.number, spec.number)))
        self._listener.listen(8)
        self._coming: dict[int, socket.socket] = {}  # have not said yet what they want
        self._asking: dict[str, socket.socket] = {}  # by the key of the group
        self._epoll = select.epoll()
        for descriptor in (control, self._listener.fileno(), self.job.bell):
            self._epoll.register(descriptor, select.EPOLLIN)

    def fileno(self) -> int:
        return self._epoll.fileno()

    def of(self, role: Role) -> Membership:
        """The membership of a role."""
        return next(each for each in self._memberships if each.role is role)

    def group(self, key: str) -> Membership | None:
        """The membership in the group with this key, "" for the job; None if there is none."""
        return next((each for each in self._memberships if each.key == key), None)

    def attend(self) -> bool:
        """Do what the program wants; True if the runner has said something, too."""
        said = False
        for descriptor, _ in self._epoll.poll(0):
            if descriptor == self._control:
                said = True
            elif descriptor == self._listener.fileno():
                program, _ = self._listener.accept()
                self._coming[program.fileno()] = program
                self._epoll.register(program.fileno(), select.EPOLLIN)
            elif descriptor in self._coming:
                self._hear_wish(self._coming.pop(descriptor))
            else:
                self._about(descriptor)
        return said

    def _about(self, descriptor: int) -> None:
        """A bell rings, or the program hangs up, which never says anything else."""
        for each in self._memberships:
            if descriptor == each.bell:
                os.eventfd_read(each.bell)
                each.submit()
            elif each.program is not None and each.program.fileno() == descriptor:
                self._epoll.unregister(descriptor)
                each.program.close()
                each.leave()

    def _hear_wish(self, program: socket.socket) -> None:
        """A connection says what it is for: {} for the job, {"key", "ranks"} for a group."""
        try:
            wish = json.loads(program.recv(memory_map.MAX_MESSAGE))
        except (OSError, ValueError):  # gone already
            self._epoll.unregister(program.fileno())
            program.close()
        else:
            if wish:
                self._asking[wish["key"]] = program
                self.wanted.append(wish)
            elif self.job.program is not None:
                self._refuse(program, self._why_not_again())
            else:
                self.joined = True
                self.job.answer(program)

    def _why_not_again(self) -> str:
        """Why a second process cannot join as this rank."""
        assert self.job.program is not None
        if self.job.program.fileno() >= 0:
            return (
                f"{self._rank} is a single process, and another one has joined as it. A host has"
                " one rank: start torchrun with --nproc-per-node 1"
            )
        return (
            f"the process of {self._rank} has ended, and a restarted one cannot take its place:"
            " run the experiment again"
        )

    def _refuse(self, program: socket.socket, why: str) -> None:
        self._epoll.unregister(program.fileno())
        with program, contextlib.suppress(OSError):  # gone already
            program.send(json.dumps({"refused": why}).encode())

    def refuse(self, key: str, why: str) -> None:
        """The group cannot be made."""
        self._refuse(self._asking.pop(key), why)

    def add(self, membership: Membership) -> None:
        """The machine of a group that the program wants is there."""
        self._memberships.append(membership)
        self._epoll.register(membership.bell, select.EPOLLIN)

    def open(self, key: str) -> None:
        """All members are there: let the program in."""
        membership = self.group(key)
        assert membership is not None
        membership.answer(self._asking.pop(key))

    def remove(self, membership: Membership) -> None:
        """Forget a group that all ranks have left."""
        self._memberships.remove(membership)
        self._epoll.unregister(membership.bell)
        membership.close()

    def news_of_leaving(self) -> list[Membership]:
        """The groups that the program has left since this was asked last."""
        found = [each for each in self._memberships if each.finished and not each.said_left]
        for each in found:
            each.said_left = True
        return [each for each in found if each.key]

    def end(self) -> None:
        """The program has ended."""
        for each in self._memberships:
            each.leave()

    def fail(self, text: str) -> None:
        """Tell the program that the job is over."""
        for each in self._memberships:
            each.fail(text)

    def close(self) -> None:
        for end in (self._listener, *self._coming.values(), *self._asking.values()):
            end.close()
        for each in self._memberships:
            each.close()
        self._epoll.close()
