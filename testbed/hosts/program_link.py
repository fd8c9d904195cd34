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
from collections.abc import Sequence
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
    """A program's place in one communicator."""

    def __init__(self, role: Role, ranks: Sequence[int] | None = None) -> None:
        """ranks: the job's numbers of a group's ranks; None: all."""
        self.role = role
        job = role.spec.job
        self.number = job.number
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
            "members": ranks,
            "floats": job.form_of_floats,
            "wide": job.wide,
            "formats": job.formats,
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
        """True if the program has left, and what it has called is done or never will be."""
        done = int(self.role.machine.source.state.done) == self.calls
        return self.left and (done or any(self.calls > calls for calls in self._gone.values()))

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
        self.ended = False  # True: the rank has ended
        self.restarted = False  # True: another process has come after the one that had joined
        self.wanted: list[dict] = []  # groups that the program wants; the runner is to be told
        self.withdrawn: list[str] = []  # keys of those that it does not want any more
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

    def group(self, number: int) -> Membership | None:
        """The membership in the communicator with this number; None if there is none."""
        return next((each for each in self._memberships if each.number == number), None)

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
        for key, program in [*self._asking.items()]:
            if program.fileno() == descriptor:
                self._forget(key)
                self.withdrawn.append(key)

    def _hear_wish(self, program: socket.socket) -> None:
        """A connection says what it is for: {} for the job, else a group (client.join_as)."""
        try:
            wish = json.loads(program.recv(memory_map.MAX_MESSAGE))
        except (OSError, ValueError):  # gone already
            self._epoll.unregister(program.fileno())
            program.close()
        else:
            if wish:
                if wish["key"] in self._asking:  # of a process that is gone
                    self._forget(wish["key"])
                self._asking[wish["key"]] = program
                self.wanted.append(wish)
            elif self.job.program is not None:
                self.restarted |= self.job.left
                self._refuse(program, self._why_not_again(), ended=self.job.left)
            else:
                self.joined = True
                self.job.answer(program)

    def _why_not_again(self) -> str:
        """Why a second process cannot join as this rank."""
        assert self.job.program is not None
        if self.job.program.fileno() >= 0:
            return (
                f"{self._rank} is a single process, and another one has joined as it. Where the"
                " command makes the ranks of its server, the job's key is `launch: servers`; else"
                " start torchrun with --nproc-per-node 1"
            )
        return (
            f"the process that was {self._rank} has left it for good. A process that takes its"
            " place joins a group of all ranks (collective.client.join_group), as PyTorch's groups"
            " do"
        )

    def _refuse(self, program: socket.socket, why: str, ended: bool = False) -> None:
        self._epoll.unregister(program.fileno())
        with program, contextlib.suppress(OSError):  # gone already
            program.send(json.dumps({"refused": why, "ended": ended}).encode())

    def _forget(self, key: str) -> None:
        program = self._asking.pop(key)
        self._epoll.unregister(program.fileno())
        program.close()

    def refuse(self, key: str, why: str) -> None:
        """The group cannot be made."""
        if key in self._asking:
            self._refuse(self._asking.pop(key), why)

    def add(self, membership: Membership) -> None:
        """The machine of a group that the program wants is there."""
        self._memberships.append(membership)
        self._epoll.register(membership.bell, select.EPOLLIN)

    def open(self, number: int, key: str) -> None:
        """All members are there: let the program in."""
        membership = self.group(number)
        assert membership is not None
        if key in self._asking:
            membership.answer(self._asking.pop(key))
        else:  # it has not waited
            membership.leave()

    def remove(self, membership: Membership) -> None:
        """Forget a group that all ranks have left."""
        self._memberships.remove(membership)
        self._epoll.unregister(membership.bell)
        membership.close()

    def news_of_leaving(self) -> list[Membership]:
        """The communicators that the program has left since this was asked last: no process can
        come back to them."""
        found = [each for each in self._memberships if each.finished and not each.said_left]
        for each in found:
            each.said_left = True
        return found

    def end(self) -> None:
        """The rank has ended, with all processes that it may have started again."""
        self.ended = True
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
