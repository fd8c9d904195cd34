"""Mininet nodes: hosts and P4 switches, usable in any Mininet script.

Mininet's own nodes each start an interactive bash when they are made, and each setting is typed
into it; that takes seconds for a network of 32 hosts. Ours can live in a namespace that exists
already (see namespace.py), and then start that shell only when somebody calls `cmd`. In a script
that uses plain Mininet, nothing is prepared, and they behave like Mininet's own:

    net = Mininet(controller=None)
    net.addSwitch("s1", cls=P4Switch, program="my.p4")
"""

from __future__ import annotations

import logging
import os
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from p4engine.module_start import module_command

from p4fabric.base.errors import RunError, UserError
from p4fabric.base.linux import kernel
from p4fabric.base.program import module_environment
from p4fabric.emulate.mininet_parts import Host, Intf, Link, Node, Switch

if TYPE_CHECKING:
    from p4engine.control.client import Client

# A switch answers within milliseconds, or not at all.
_log = logging.getLogger(__name__)
CALL_TIMEOUT_S = 10
UP_TIMEOUT_S = 60  # its program may have to be compiled first


class PreparedNode(Node):
    """A node whose namespace may exist already; `namespace` is its holder's process id."""

    # Mininet's:
    inNamespace: bool
    pid: int | None

    def __init__(self, name: str, namespace: int | None = None, **params: object) -> None:
        self.namespace = namespace
        super().__init__(name, **params)

    def startShell(self, mnopts: str | None = None) -> None:
        """Mininet's way where no namespace is prepared; else only note where the node lives."""
        if self.namespace is None:
            super().startShell(mnopts)
        else:
            self.pid = self.namespace
            self.execed = False

    def cmd(self, *args: object, **kwargs: object) -> str:
        """Mininet's, with the shell started before the first command."""
        self._start_shell_inside()
        return super().cmd(*args, **kwargs)

    def sendCmd(self, *args: object, **kwargs: object) -> None:
        """Mininet's, with the shell started before the first command."""
        self._start_shell_inside()
        return super().sendCmd(*args, **kwargs)

    def _start_shell_inside(self) -> None:
        if self.shell is not None or self.namespace is None:
            return
        # Mininet would have mnexec make a namespace exactly where `inNamespace` is set, and would
        # take the shell for the process that holds it.
        held, self.namespace = self.namespace, None
        was = self.inNamespace
        self.inNamespace = False
        try:
            super().startShell(f"-cda{held}")
        finally:
            self.inNamespace = was
            self.namespace = self.pid = held

    def _popen(self, cmd: list[str], **params: object) -> subprocess.Popen:
        """A process in a prepared namespace dies with this one, like the rest of its network."""
        if self.namespace is not None:
            parent = os.getpid()
            params.setdefault("preexec_fn", lambda: kernel.die_with_parent(parent))
        return super()._popen(cmd, **params)


class FabricHost(PreparedNode, Host):
    """A host of a run."""


class P4Switch(PreparedNode, Switch):
    """A Mininet switch that runs a P4 program in the native switch, in a namespace of its own.

    program: path of the P4 source. defines: preprocessor constants. arguments: further command line
    arguments of `python -m p4engine switch`. launch: starts the switch process in another
    way (a run forks it); it is called with this node and must return once the control socket
    answers, and `control_path` must be given, too. Port n is the interface that Mininet calls
    `<name>-eth<n>`.

    After `start`, `client` is the connected control client. control_path: of a control socket for
    other clients; the switch's log is beside it.

    p4runtime: serve P4Runtime at this address
    (a port of 127.0.0.1, "HOST:PORT" or "unix:PATH") of the namespace that this script runs in,
    as device `device_id`; controllers' packets pass through port `cpu_port`.

    priority_queues: egress queues of each port, of which a packet's `priority` selects one.

    Without `control_path` the connection is inherited, and the log has no name: nothing is left
    behind even if this process is killed, and the switch ends with it.
    """

    def __init__(
        self,
        name: str,
        program: str | Path | None = None,
        defines: Mapping[str, str | int] | None = None,
        arguments: tuple[str, ...] = (),
        launch: Callable[[P4Switch], None] | None = None,
        control_path: Path | None = None,
        p4runtime: int | str | None = None,
        device_id: int = 1,
        cpu_port: int | None = None,
        priority_queues: int | None = None,
        **params: Any,
    ) -> None:
        refuse_others(name, params)
        # Mininet's Switch.defaultIntf reads it, but Mininet sets it only without namespace.
        self.controlIntf = None
        params["inNamespace"] = True  # Mininet passes its own default, False, explicitly
        super().__init__(name, **params)
        self.program = program
        self.defines = dict(defines or {})
        self.arguments = (*arguments, *controller_options(p4runtime, device_id, cpu_port))
        if priority_queues is not None:
            self.arguments += ("--priority-queues", str(priority_queues))
        self.launch = launch
        self.client: Client | None = None
        self.control_path = control_path
        self.process: subprocess.Popen | None = None

    def ports_in_use(self) -> dict[int, str]:
        """Interface name by port number."""
        return {number: intf.name for number, intf in sorted(self.intfs.items()) if number > 0}

    def start(self, controllers: object = ()) -> None:
        """Start the switch process and wait until its control socket answers.

        Raises RunError with the switch's own words (a P4 error with its place, for instance) when
        it does not come up.
        """
        if self.launch is not None:
            self.launch(self)
            return
        if self.namespace is None:
            self._prepare_links()
        command = module_command("p4engine", "switch", self.program)
        for key, value in self.defines.items():
            command += ["-D", f"{key}={value}"]
        for port, interface in self.ports_in_use().items():
            command += ["-i", f"{port}@{interface}"]
        try:
            if self.control_path is None:
                self._start_connected(command)
            else:
                self._start_at_path(command, self.control_path)
        except RunError as error:
            # In somebody's script nobody else prints the end of the log.
            raise RunError(f"{error}\n{error.log_tail}", error.log_tail, error.log) from None

    def _start_at_path(self, command: list[str], path: Path) -> None:
        log = path.with_suffix(".log")
        with log.open("wb") as output:
            process = self._run([*command, "--control", str(path), *self.arguments], output)
        self.client = connect(path, lambda: process.poll() is None, self.name, log)

    def _start_connected(self, command: list[str]) -> None:
        from p4engine.control.client import CallError, Client

        ours, its = socket.socketpair()
        with tempfile.TemporaryFile() as output:
            with its:
                number = its.fileno()
                command += ["--control", f"fd:{number}", *self.arguments]
                self._run(command, output, pass_fds=[number])
            self.client = Client(ours, UP_TIMEOUT_S)
            try:
                self.client.stats()
            except CallError:
                output.seek(0)
                tail = output.read().decode(errors="replace").strip()
                raise RunError(f"switch {self.name} ended before it was up", tail) from None
        ours.settimeout(CALL_TIMEOUT_S)

    def _run(self, command: list[str], output: IO[bytes], **params: object) -> subprocess.Popen:
        params |= {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
        process: subprocess.Popen = self.popen(command, env=module_environment(), **params)
        _log.debug("%s: process %d: %s", self.name, process.pid, shlex.join(command))
        self.process = process
        return process

    def stop(self, deleteIntfs: bool = True) -> None:
        """Stop the switch process; Mininet calls this."""
        if self.client is not None:
            self.client.close()
            self.client = None
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
        if self.namespace is None:
            super().stop(deleteIntfs)

    def _prepare_links(self) -> None:
        """Make plain Mininet's links, both ends, carry packets as they are on a wire."""
        for intf in self.intfList():
            for end in (intf.link.intf1, intf.link.intf2) if intf.link else (intf,):
                child = os.fork()
                if child == 0:
                    code = 1
                    try:
                        kernel.enter_network(end.node.pid)
                        kernel.switch_offloads_off([end.name])
                        code = 0
                    finally:
                        os._exit(code)
                if os.waitpid(child, 0)[1] != 0:
                    raise RunError(f"cannot switch off the offloads of {end.name}")


# What nodes for BMv2 take in other people's scripts, and what to write instead.
BMV2_ARGUMENTS = {
    "json_path": "program=FILE.p4: the program is compiled here",
    "sw_path": "leave it out: the switch is built in",
    "thrift_port": "leave it out: `client` is connected, or p4runtime=PORT",
    "grpc_port": "p4runtime=PORT",
    "pcap_dump": "leave it out: tcpdump works on the switch's interfaces",
    "log_console": 'arguments=("--trace",), and `client.trace()`',
    "log_file": "control_path=PATH: the log is beside it",
    "verbose": "leave it out",
    "enable_debugger": 'arguments=("--trace",), and `client.trace()`',
}


# What Mininet itself gives to a switch, or takes from a script.
MININETS_ARGUMENTS = frozenset(
    (
        *("dpid", "opts", "listenPort", "inNamespace", "isSwitch", "privateDirs"),
        *("ip", "mac", "defaultRoute", "lo", "namespace"),
    )
)


def refuse_others(name: str, params: Mapping[str, object]) -> None:
    """Raises UserError for arguments of a BMv2 node, and for unknown ones: Mininet would take them
    for its own and lose them."""
    for argument in params:
        if argument in BMV2_ARGUMENTS:
            raise UserError(
                f"P4Switch {name}: {argument} belongs to BMv2; instead: {BMV2_ARGUMENTS[argument]}"
            )
        if argument not in MININETS_ARGUMENTS:
            raise UserError(f"P4Switch {name}: neither it nor Mininet has an argument {argument}")


def controller_options(
    p4runtime: int | str | None, device_id: int = 1, cpu_port: int | None = None
) -> list[str]:
    """The switch command's arguments for P4Runtime; it listens in our network namespace."""
    if p4runtime is None and cpu_port is None:
        return []
    own = ["--p4runtime", str(p4runtime), "--p4runtime-netns", f"/proc/{os.getpid()}/ns/net"]
    cpu = [] if cpu_port is None else ["--cpu-port", str(cpu_port)]
    return [*(own if p4runtime is not None else []), "--device-id", str(device_id), *cpu]


def connect(
    path: Path, alive: Callable[[], bool], name: str, log: Path, timeout: float = 30
) -> Client:
    """A control client of the switch at `path`, once it answers.

    Raises RunError when `alive()` turns false (the message is what the switch wrote) or after
    `timeout` s.
    """
    from p4engine.control.client import CallError, Client

    deadline = time.monotonic() + timeout
    while True:
        if path.exists():
            try:
                return Client(path, CALL_TIMEOUT_S)
            except CallError:
                pass  # bound, but not listening yet
        if not alive() or time.monotonic() > deadline:
            reason = "ended before it was up" if not alive() else f"is not up after {timeout:g} s"
            tail = log.read_text(errors="replace") if log.exists() else ""
            raise RunError(f"switch {name} {reason}", tail.strip(), str(log))
        time.sleep(0.002)


class BuiltIntf(Intf):
    """An interface that has been made and configured already: nothing is left to run."""

    def config(self, ip: str | None = None, prefixLen: int | None = None, **params: object) -> dict:
        self.ip, self.prefixLen = ip, prefixLen
        return {}

    def delete(self) -> None:
        self.node.delIntf(self)
        self.link = None


class BuiltLink(Link):
    """A link whose veth pair is made with all others at once, and goes with the namespaces."""

    @classmethod
    def makeIntfPair(cls, *args: object, **kwargs: object) -> None:
        return None

    def stop(self) -> None:
        return None
