"""A P4Runtime controller that says exactly what a test wants, and a switch for it in process."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
from p4engine.p4runtime.device import Device
from p4engine.p4runtime.p4info import p4info
from p4engine.p4runtime.proto import p4info_pb2, p4runtime_pb2, status_pb2
from p4engine.p4runtime.service import DETAILS, Service
from p4engine.switch.library import Switch

from p4engine import compile_program
from p4engine_testing import DATA

PROGRAM = DATA / "p4runtime.p4"
CPU_PORT = 510
WAIT_S = 10
COMPILING_S = 120


class ServedSwitch:
    """A switch without network whose P4Runtime is served on a port of the loopback."""

    def __init__(self, program: Path = PROGRAM) -> None:
        self.switch = Switch(compile_program(program), ports=[1, 2, 3, 4, CPU_PORT])
        self.info = p4info(program)
        self.out: list[tuple[int, bytes]] = []
        self.time_ns = 0
        self._lock = threading.RLock()
        self.log: list[str] = []
        self.device = Device(self.switch, self.info, self.locked, log=self.log.append)
        self.service = Service(self.device, "127.0.0.1:0", inject=self.inject)
        self.switch.pipeline.on_digest(lambda name, _, values: self.service.digest(name, values))
        self.address = f"127.0.0.1:{self.service.port}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._lock:
            yield

    def inject(self, frame: bytes) -> None:
        self.receive(CPU_PORT, frame)

    def receive(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """A frame comes in; what leaves, as (port, frame), without what goes to controllers."""
        with self.locked():
            self.time_ns += 1000
            self.switch.receive(port, frame, self.time_ns)
            left = [(to, data) for _, to, data in self.switch.run()]
        for _, data in [each for each in left if each[0] == CPU_PORT]:
            self.service.packet(data)
        left = [each for each in left if each[0] != CPU_PORT]
        self.out += left
        return left

    def advance(self, time_ns: int) -> None:
        """Nothing comes in for so long."""
        with self.locked():
            self.time_ns += time_ns
            self.switch.advance(self.time_ns)
        self.service.notify_idle()

    @staticmethod
    def wait_until(done: Callable[[], object]) -> None:
        """Until `done()`, which another thread brings about."""
        deadline = time.monotonic() + WAIT_S
        while not done():
            assert time.monotonic() < deadline, "nothing has come"
            time.sleep(0.001)

    def close(self) -> None:
        self.service.close()
        self.switch.close()


class Failed(Exception):
    """A refused call; for a Write, `codes` has one for each update."""

    def __init__(self, error: grpc.RpcError) -> None:
        super().__init__(f"{error.code().name}: {error.details()}")
        self.code = error.code().name
        details = dict(error.trailing_metadata() or ()).get(DETAILS)
        status = status_pb2.Status.FromString(details) if details else None
        errors = [p4runtime_pb2.Error.FromString(d.value) for d in status.details] if status else []
        self.codes = [grpc_name(e.canonical_code) for e in errors]
        self.texts = [e.message for e in errors]


def grpc_name(code: int) -> str:
    """The name of a canonical code."""
    return next(each.name for each in grpc.StatusCode if each.value[0] == code)


class Controller:
    """Calls and a stream; `election` is what its writes claim."""

    def __init__(self, address: str, election: int | None = 1, role: str = "") -> None:
        self.election, self.role = election, role
        self.channel = grpc.insecure_channel(address)
        self._requests: queue.Queue = queue.Queue()
        self.replies: Any = None

    def close(self) -> None:
        """Leave, and wait until the switch has noticed: the next controller may have this one's
        election id."""
        self._requests.put(None)
        if self.replies is not None:
            with suppress(grpc.RpcError):
                for _ in self.replies:
                    pass
        self.channel.close()

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, name: str, reply: str, kind: str = "unary_unary") -> Any:
        return getattr(self.channel, kind)(
            f"/p4.v1.P4Runtime/{name}",
            request_serializer=lambda m: m if isinstance(m, bytes) else m.SerializeToString(),
            response_deserializer=getattr(p4runtime_pb2, reply).FromString,
        )

    # ---- the stream ----

    def send(self, request: Any) -> None:
        """A stream message; the stream is opened by the first."""
        self._requests.put(request)
        if self.replies is None:
            call = self._call("StreamChannel", "StreamMessageResponse", "stream_stream")
            self.replies = call(iter(self._requests.get, None), timeout=60)

    def hear(self) -> Any:
        """The next stream message; `Failed` when the stream has ended."""
        try:
            return next(self.replies)
        except grpc.RpcError as error:
            raise Failed(error) from None

    def arbitrate(self, election: int | None = None, device: int = 1) -> Any:
        """Ask to be primary; the first message that comes back."""
        self.election = election if election is not None else self.election
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = device
        if self.role:
            request.arbitration.role.name = self.role
        if self.election is not None:
            request.arbitration.election_id.low = self.election
        self.send(request)
        return self.hear().arbitration

    # ---- calls ----

    def write(self, *updates: tuple[str, Any], **fields: Any) -> None:
        """Updates as (INSERT | MODIFY | DELETE, entity)."""
        request = p4runtime_pb2.WriteRequest(device_id=1, role=self.role)
        if self.election is not None:
            request.election_id.low = self.election
        for kind, entity in updates:
            update = request.updates.add(type=p4runtime_pb2.Update.Type.Value(kind))
            update.entity.CopyFrom(entity)
        for name, value in fields.items():
            setattr(request, name, value)
        self.raw("Write", request, "WriteResponse")

    def refused(self, *updates: tuple[str, Any], **fields: Any) -> list[str]:
        """The codes of updates of which one at least is refused."""
        try:
            self.write(*updates, **fields)
        except Failed as failed:
            assert failed.code == "UNKNOWN"
            return failed.codes
        raise AssertionError("all updates were taken")

    def raw(self, name: str, request: Any, reply: str, timeout_s: float = WAIT_S) -> Any:
        """A call with a message, or with any bytes."""
        try:
            return self._call(name, reply)(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise Failed(error) from None

    def read(self, *entities: Any, device: int = 1) -> list[Any]:
        """All entities that come."""
        request = p4runtime_pb2.ReadRequest(device_id=device, entities=entities)
        try:
            replies = self._call("Read", "ReadResponse", "unary_stream")(request, timeout=WAIT_S)
            return [entity for reply in replies for entity in reply.entities]
        except grpc.RpcError as error:
            raise Failed(error) from None

    def set_config(
        self, action: str, config: Any = None, cookie: int | None = None, device: bytes = b""
    ) -> None:
        """SetForwardingPipelineConfig with a P4Info, and perhaps a device configuration."""
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=1)
        request.election_id.low = self.election
        request.action = request.Action.Value(action)
        if config is not None:
            request.config.p4info.CopyFrom(p4info_pb2.P4Info.FromString(config.SerializeToString()))
        if device:
            request.config.p4_device_config = device
        if cookie is not None:
            request.config.cookie.cookie = cookie
        name = "SetForwardingPipelineConfig"
        self.raw(name, request, f"{name}Response", COMPILING_S)

    def get_config(self) -> Any:
        """GetForwardingPipelineConfig, all of it."""
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest(device_id=1)
        reply = self.raw(
            "GetForwardingPipelineConfig", request, "GetForwardingPipelineConfigResponse"
        )
        return reply.config


def entity(text: str) -> Any:
    """An Entity from protobuf's text format."""
    from google.protobuf import text_format

    return text_format.Parse(text, p4runtime_pb2.Entity())


class Ids:
    """P4Info's numbers by alias: ids["stations"]; ids.text(...) fills them into an entity."""

    def __init__(self, info: Any) -> None:
        self.numbers = {}
        for kind in ("tables", "actions", "counters", "meters", "registers", "action_profiles"):
            for each in getattr(info, kind):
                self.numbers[each.preamble.alias] = each.preamble.id
        for kind in ("digests", "value_sets"):
            for each in getattr(info, kind):
                self.numbers[each.preamble.alias.rpartition(".")[2]] = each.preamble.id

    def __getitem__(self, name: str) -> int:
        return self.numbers[name]

    def entity(self, text: str) -> Any:
        """Text format in which $name is a number."""
        for name in sorted(self.numbers, key=len, reverse=True):
            text = text.replace(f"${name}", str(self.numbers[name]))
        return entity(text)

    def station(self, address: str = "02", port: str = "02", more: str = "") -> Any:
        """An entry of `stations` that sends to a port."""
        match = f'match {{ field_id: 1 exact {{ value: "{_x(address)}" }} }}'
        param = f'params {{ param_id: 1 value: "{_x(port)}" }}'
        action = f"action {{ action {{ action_id: $send {param} }} }}"
        return self.entity(f"table_entry {{ table_id: $stations {match} {action} {more} }}")

    def member(self, number: int, port: int, profile: str = "paths") -> Any:
        """A member of a profile that sends to a port."""
        return self.entity(
            f"action_profile_member {{ action_profile_id: ${profile} member_id: {number}"
            f" action {{ action_id: $send params {{ param_id: 1 value: '\\{port}' }} }} }}"
        )

    def rule(self, source: str, mask: str, priority: int, action: str = "drop", more="") -> Any:
        """An entry of `rules`."""
        return self.entity(
            f"table_entry {{ table_id: $rules priority: {priority} match {{ field_id: 1 ternary {{"
            f' value: "{_x(source)}" mask: "{_x(mask)}" }} }} action {{ action {{ action_id:'
            f" ${action} {more} }} }} }}"
        )


def _x(hexadecimal: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in bytes.fromhex(hexadecimal))
