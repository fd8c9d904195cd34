"""The stand-in of simple_switch and simple_switch_grpc: their command lines, and our switch.

An option that cannot be honoured is an error. One that means nothing here is named in one line of
output, once, and ignored.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from p4engine.backend.build import compile_program
from p4engine.cli.shim_links import with_link_rates
from p4engine.cli.switch_command import parse_interface
from p4engine.frontend.diagnostics import Diagnostic, P4Error
from p4engine.process.switch_process import NetworkSwitch, no_controllers, serve
from p4engine.switch.traffic_manager import SwitchError

GRPC = "simple_switch_grpc"
MEANINGLESS = {
    "nanolog": "events are not published",
    "debugger": "there is no debugger; `p4engine trace` shows a packet's path",
    "debugger_addr": "there is no debugger; `p4engine trace` shows a packet's path",
    "notifications_addr": "notifications go to P4Runtime controllers",
    "log_level": "the log has one level",
    "log_flush": "the log is flushed always",
    "log_file_max_size": "the log is one file",
    "log_file_max_files": "the log is one file",
    "max_port_count": "all ports from 0 to 510 can be used",
    "enable_swap": "P4Runtime controllers can change the program",
    "disable_swap": "P4Runtime controllers can change the program",
}
REFUSED = {
    "use_files": "use `p4engine stf`, or the switch as a Python object",
    "packet_in": "use the switch as a Python object",
    "restore_state": "start with an empty switch and fill its tables",
    "dump_packet_data": "use --pcap",
    "grpc_server_ssl": "connect without TLS",
    "grpc_server_cacert": "connect without TLS",
    "grpc_server_cert": "connect without TLS",
    "grpc_server_key": "connect without TLS",
    "grpc_server_with_client_auth": "connect without TLS",
    "dp_grpc_server_addr": "use network interfaces (-i)",
    "drop_port": "511 is the port that drops",
}
NO_PROGRAM = """
#include <v1model.p4>
struct none_t { }
parser P(packet_in p, out none_t h, inout none_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control C(inout none_t h, inout none_t m) { apply { } }
control I(inout none_t h, inout none_t m, inout standard_metadata_t s) {
    apply { mark_to_drop(s); }
}
control E(inout none_t h, inout none_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in none_t h) { apply { } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
"""


def option(name: str) -> str:
    """ "log_file" -> "--log-file"."""
    return "--" + name.replace("_", "-")


def parser(name: str) -> argparse.ArgumentParser:
    """BMv2's options, those behind -- too."""
    made = argparse.ArgumentParser(
        prog=name, description=f"Stand-in of p4engine for {name}.", allow_abbrev=False
    )
    made.add_argument("config", nargs="?", help="what the stand-in of p4c-bm2-ss wrote")
    made.add_argument("-i", "--interface", type=parse_interface, action="append", default=[])
    made.add_argument("--pcap", nargs="?", const=".", type=Path)
    made.add_argument("--thrift-port", type=int)
    made.add_argument("--device-id", type=int, default=0)
    made.add_argument("--log-console", action="store_true")
    made.add_argument("--log-file", type=Path)
    made.add_argument("--no-p4", action="store_true")
    made.add_argument("--priority-queues", type=int, default=1)
    made.add_argument("--grpc-server-addr", default="0.0.0.0:9559")
    made.add_argument("--cpu-port", type=int)
    made.add_argument("--version", "-v", action="version", version=f"{name}: stand-in of p4engine")
    flags = ("debugger", "log_flush", "enable_swap", "disable_swap", "grpc_server_ssl")
    for each in (*MEANINGLESS, *REFUSED, "max_mc_groups", "max_l1_entries", "max_l2_entries"):
        short = ["-L"] if each == "log_level" else []
        if each in flags or each == "grpc_server_with_client_auth":
            made.add_argument(option(each), action="store_true", default=None)
        else:
            made.add_argument(*short, option(each))
    return made


def control_path(thrift_port: int) -> Path:
    """The control socket that stands for a Thrift port; its folder is the user's own.

    Raises SwitchError."""
    folder = Path(tempfile.gettempdir()) / f"p4engine-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise SwitchError(f"{folder} must be a folder that only this user can use: remove it")
    return folder / f"thrift-{thrift_port}.sock"


def _fail(message: str) -> P4Error:
    return P4Error([Diagnostic("error", message, "", 0, 0, "")])


def _write_program(arguments: argparse.Namespace, folder: Path) -> argparse.Namespace:
    """Write the program's files; gives the options that the compiler takes. Raises P4Error."""
    if arguments.no_p4:
        (folder / "none.p4").write_text(NO_PROGRAM)
        return argparse.Namespace(program=str(folder / "none.p4"), define=[], include=[])
    if arguments.config is None:
        raise _fail("no program: give the file that p4c-bm2-ss wrote, or --no-p4")
    from p4engine.p4runtime.device_config import source_of
    from p4engine.p4runtime.status import Refused

    try:
        source = source_of(Path(arguments.config).read_bytes())
    except OSError as error:
        raise _fail(f"{arguments.config}: {error.strerror}") from None
    except Refused as error:
        raise _fail(f"{arguments.config}: {error}") from None
    if source is None:
        raise _fail(
            f"{arguments.config} holds no program for p4engine: compile the P4 source with the"
            " stand-in of p4c-bm2-ss (JSON of the real p4c cannot be run)"
        )
    for path, text in source.files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")
    return argparse.Namespace(
        program=str(folder / source.main),
        define=list(source.defines.items()),
        include=[str(folder / each) for each in source.include],
    )


@contextmanager
def _thrift_listener(port: int | None) -> Iterator[None]:
    """Scripts wait until somebody listens at the Thrift port; whoever connects is sent away."""
    if port is None:
        yield
        return
    try:
        listener = socket.create_server(("", port))
    except OSError as error:
        raise SwitchError(f"--thrift-port {port}: {error.strerror}") from None

    def send_away() -> None:
        while True:
            try:
                listener.accept()[0].close()
            except OSError:
                return

    threading.Thread(target=send_away, daemon=True).start()
    try:
        yield
    finally:
        listener.close()


def _check(name: str, arguments: argparse.Namespace) -> None:
    """Raises P4Error for what cannot be honoured; says what means nothing."""
    for each, remedy in REFUSED.items():
        given = getattr(arguments, each)
        if given is not None and not (each == "drop_port" and given == "511"):
            raise _fail(f"{name} (p4engine): {option(each)} is not supported: {remedy}")
    if arguments.log_console and arguments.log_file:
        raise _fail(f"{name}: --log-console and --log-file exclude each other")
    if name != GRPC and arguments.cpu_port is not None:
        raise _fail(f"{name}: --cpu-port is an option of {GRPC}")
    ignored = [
        f"{option(each)} ({why})"
        for each, why in MEANINGLESS.items()
        if getattr(arguments, each) is not None
    ]
    if ignored:
        print(f"{name} (p4engine): without effect here: {', '.join(ignored)}", flush=True)


def run(name: str, words: list[str]) -> int:
    """Be the switch; returns the exit code. Raises P4Error, SwitchError."""
    arguments = parser(name).parse_args([word for word in words if word != "--"])
    _check(name, arguments)
    if arguments.log_file is not None:
        log = os.open(f"{arguments.log_file}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
    interfaces = dict(arguments.interface)
    if len(interfaces) < len(arguments.interface):
        raise SwitchError("a port number is given twice")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="p4engine-")))
        program = _write_program(arguments, folder)
        compiled = compile_program(program.program, dict(program.define), program.include)
        controllers: Callable[[NetworkSwitch], AbstractContextManager[None]] = no_controllers
        if name == GRPC:
            from p4engine.p4runtime.serve import controllers_of

            program.p4runtime = arguments.grpc_server_addr
            program.p4runtime_netns = None
            program.device_id, program.cpu_port = arguments.device_id, arguments.cpu_port
            controllers = controllers_of(program)
        if arguments.log_console or arguments.log_file:
            controllers = _logging(controllers)
        controllers = with_link_rates(controllers, interfaces)
        port = arguments.thrift_port if name == GRPC else arguments.thrift_port or 9090
        control = control_path(port) if port else folder / "control.sock"
        if arguments.pcap is not None:
            from p4engine.cli.shim_capture import Capture

            try:
                stack.callback(Capture(arguments.pcap, interfaces.values()).close)
            except OSError as error:
                raise SwitchError(f"--pcap {arguments.pcap}: {error.strerror}") from None
        return serve(
            compiled,
            interfaces,
            control,
            cpu_port=arguments.cpu_port,
            priority_queues=arguments.priority_queues,
            controllers=controllers,
            ready=lambda: _ready(name, stack, port),
        )


def _logging(
    inner: Callable[[NetworkSwitch], AbstractContextManager[None]],
) -> Callable[[NetworkSwitch], AbstractContextManager[None]]:
    """Messages of log_msg go to the log."""

    @contextmanager
    def controllers(switch: NetworkSwitch) -> Iterator[None]:
        switch.pipeline.on_log(lambda text: print(text, flush=True))
        with inner(switch):
            yield

    return controllers


def _ready(name: str, stack: ExitStack, port: int | None) -> None:
    stack.enter_context(_thrift_listener(port))
    print(f"{name} (p4engine): ready", flush=True)


def main(argv: list[str]) -> int:
    """NAME [OPTIONS] [FILE.json] [-- TARGET OPTIONS]."""
    try:
        return run(argv[0], argv[1:])
    except (P4Error, SwitchError) as error:
        print(error, file=sys.stderr, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
