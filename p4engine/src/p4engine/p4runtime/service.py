"""The P4Runtime service: a `Device` behind gRPC.

gRPC has a thread with an event loop of its own, which answers controllers; requests that read or
change the switch run one after the other in a second thread, so that a long one delays neither
arbitration nor packets. The switch's packet loop waits for neither. Messages are parsed here, so
that one that makes no sense is refused with a reason.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from p4engine.frontend.diagnostics import Diagnostic, P4Error
from p4engine.p4runtime.arbitration import Arbitration, Notice
from p4engine.p4runtime.certificates import Certificates
from p4engine.p4runtime.device import API_VERSION, Device
from p4engine.p4runtime.packets import packet_in, packet_out
from p4engine.p4runtime.proto import p4runtime_pb2, status_pb2
from p4engine.p4runtime.status import Code, Refused, Result, invalid

LONGEST_MESSAGE = 32 << 20
WAITING = 1024  # stream messages that a slow controller may leave before packets are dropped
LONGEST_DETAILS = 6 << 10  # gRPC's clients take 8 KiB of trailing metadata
IDLE_INTERVAL_NS = 10_000_000  # between two looks at the entries
MOST_CALLS = 256  # at the same time
MOST_EVENTS = 65536  # packets and digests on their way to the event loop
DETAILS = "grpc-status-details-bin"
ANY = "type.googleapis.com/"


class _Stream:
    """An open stream; messages for its controller wait in `outgoing`, None ends it."""

    def __init__(self) -> None:
        self.outgoing: asyncio.Queue[Any] = asyncio.Queue()
        self.dropped = 0

    def send(self, message: Any) -> None:
        """Arbitration and errors are always sent."""
        self.outgoing.put_nowait(message)

    def offer(self, message: Any) -> None:
        """Packets and digests are dropped when the controller does not keep up."""
        if self.outgoing.qsize() < WAITING:
            self.outgoing.put_nowait(message)
        else:
            self.dropped += 1


class Service:
    """Serves `device` at `address` ("127.0.0.1:9559", "unix:/path") until `close`.

    Args:
        device_id: what controllers must call it.
        inject: puts a frame on the CPU port; None: there is no such port.
        timestamp_ns: of digests and notifications; any clock.
        idle_timer: the switch's time is the real one: notify of idle entries when their time has
            come. Otherwise who moves the time calls `notify_idle`.
        enter: called in the thread that opens the listening socket, before it does.
        certificates: for TLS; None: without encryption.

    Raises:
        P4Error: the address cannot be used, or grpcio is missing.
    """

    def __init__(
        self,
        device: Device,
        address: str,
        *,
        device_id: int = 1,
        inject: Callable[[bytes], None] | None = None,
        timestamp_ns: Callable[[], int] = time.time_ns,
        idle_timer: bool = False,
        enter: Callable[[], None] = lambda: None,
        certificates: Certificates | None = None,
    ) -> None:
        self.device = device
        self.address = address
        self.inject = inject
        self.timestamp_ns = timestamp_ns
        self.arbitration = Arbitration(device_id)
        self.port = 0
        self._enter = enter
        self._certificates = certificates
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inbox: deque[tuple[Any, ...]] = deque()
        self._inbox_lock = threading.Lock()
        self._worker = ThreadPoolExecutor(1, "p4runtime-requests")
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._has_idle_timer = idle_timer
        self._expecting = False  # a call of _expect_idle is under way
        self._started = threading.Event()
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="p4runtime", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self.close()
            raise P4Error([Diagnostic("error", self._failure, "", 0, 0, "")])
        if idle_timer:
            device.on_earlier_idle = self._earlier_idle

    def close(self) -> None:
        """End all streams and stop listening."""
        if self._loop is not None and self._thread.is_alive():
            try:
                self._loop.call_soon_threadsafe(self._stopping.set)
            except RuntimeError:
                pass  # it has just ended by itself
        self._thread.join()
        self._worker.shutdown()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of a service that has started."""
        assert self._loop is not None
        return self._loop

    # ---- what the switch has for controllers; for any thread ----

    def packet(self, frame: bytes) -> None:
        """A frame has left through the CPU port."""
        self._put(self._packet, frame)

    def digest(self, name: str, values: list[int]) -> None:
        """The program has sent a digest."""
        if self.device.digests.streams:
            self._put(self._digest, name, values)

    def notify_idle(self) -> None:
        """Notify the primary controllers of entries that are idle by now."""
        for message in self.device.idle.scan(self.timestamp_ns()):
            self._put(self._to_primaries, message)

    def _earlier_idle(self) -> None:
        """An entry may become idle before the timer says so."""
        if not self._expecting:
            self._expecting = True
            try:
                self.loop.call_soon_threadsafe(self._expect_idle)
            except RuntimeError:
                pass  # the service has been closed

    def _put(self, *call: Any) -> None:
        """Have the event loop make a call; what it cannot keep up with is lost."""
        with self._inbox_lock:  # of two threads at the same time one must see the first event
            if len(self._inbox) >= MOST_EVENTS:
                return
            self._inbox.append(call)
            first = len(self._inbox) == 1
        if first:
            try:
                self.loop.call_soon_threadsafe(self._take)
            except RuntimeError:
                pass  # the service has been closed

    def _take(self) -> None:
        for _ in range(len(self._inbox)):
            function, *args = self._inbox[0]
            try:
                function(*args)
            finally:
                self._inbox.popleft()
        if self._inbox:
            self.loop.call_soon(self._take)

    def _packet(self, frame: bytes) -> None:
        message = packet_in(self.device.catalog, frame)
        if message is not None:
            self._to_primaries(message)

    def _digest(self, name: str, values: list[int]) -> None:
        self.device.digests.add(name, values, time.monotonic_ns())
        self._send_digests()

    def _send_digests(self) -> None:
        now_ns = time.monotonic_ns()
        for message in self.device.digests.due(now_ns, self.timestamp_ns()):
            self._to_primaries(message)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_ns = self.device.digests.next_ns()
        if next_ns is not None:
            wait_s = max(0, next_ns - now_ns) / 1e9
            self._timer = self.loop.call_later(wait_s, self._send_digests)

    def _expect_idle(self) -> None:
        """Set the timer for the next time at which an entry can be idle."""
        self._expecting = False
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        next_ns = self.device.idle.next_ns
        if self._has_idle_timer and next_ns is not None:
            wait_ns = max(IDLE_INTERVAL_NS, next_ns - self.device.switch.now_ns())
            self._idle_timer = self.loop.call_later(wait_ns / 1e9, self._idle)

    def _idle(self) -> None:
        async def work() -> None:
            await self._work(self.notify_idle)
            self._expect_idle()

        self._idle_task = asyncio.ensure_future(work())

    def _to_primaries(self, message: Any) -> None:
        for role in self.arbitration.roles:
            stream = self.arbitration.primary(role)
            if stream is not None:
                stream.offer(message)

    # ---- the thread of the event loop ----

    def _run(self) -> None:
        try:
            self._enter()
            asyncio.run(self._serve())
        except Exception as error:
            if self._started.is_set():
                traceback.print_exc(file=sys.stderr)
            self._failure = f"P4Runtime cannot be served at {self.address}: {error}"
        finally:
            self._started.set()

    async def _serve(self) -> None:
        import grpc

        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        options = [
            ("grpc.max_receive_message_length", LONGEST_MESSAGE),
            ("grpc.so_reuseport", 0),
        ]
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=MOST_CALLS)
        server.add_generic_rpc_handlers([self._handlers(grpc)])
        if self._certificates is None:
            self.port = server.add_insecure_port(self.address)
        else:
            self.port = server.add_secure_port(self.address, self._certificates.credentials())
        await server.start()
        self._started.set()
        await self._stopping.wait()
        for timer in (self._timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        await server.stop(0)

    def _handlers(self, grpc: Any) -> Any:
        kinds = {
            "Write": (grpc.unary_unary_rpc_method_handler, self._write),
            "Read": (grpc.unary_stream_rpc_method_handler, self._read),
            "SetForwardingPipelineConfig": (grpc.unary_unary_rpc_method_handler, self._set_config),
            "GetForwardingPipelineConfig": (grpc.unary_unary_rpc_method_handler, self._get_config),
            "Capabilities": (grpc.unary_unary_rpc_method_handler, self._capabilities),
            "StreamChannel": (grpc.stream_stream_rpc_method_handler, self._stream),
        }
        made = {}
        # gRPC itself would write a traceback for each message that is none.
        for name, (handler, function) in kinds.items():
            if name == "StreamChannel":
                answer = _refusals(grpc, function, stream=True)
            else:
                read = _parser(getattr(p4runtime_pb2, f"{name}Request"))
                answer = _refusals(grpc, function, stream=name == "Read", read=read)
            made[name] = handler(answer, response_serializer=_serialized)
        return grpc.method_handlers_generic_handler("p4.v1.P4Runtime", made)

    async def _work(self, function: Callable[..., Any], *args: Any) -> Any:
        return await self.loop.run_in_executor(self._worker, function, *args)

    # ---- calls ----

    async def _write(self, request: Any, context: Any) -> Any:
        election = request.election_id if request.HasField("election_id") else None
        self.arbitration.check(request.device_id, request.role, election)
        if request.atomicity not in type(request).Atomicity.values():
            invalid(f"there is no atomicity {request.atomicity}")
        # Without a packet in between, which is more than ROLLBACK_ON_ERROR asks for.
        together = request.atomicity != type(request).CONTINUE_ON_ERROR
        results = await self._work(
            functools.partial(self.device.write, request.updates, together=together)
        )
        self._send_digests()
        self._expect_idle()
        if any(code for code, _ in results):
            await _fail_batch(context, results)
        return p4runtime_pb2.WriteResponse()

    async def _read(self, request: Any, context: Any) -> AsyncIterator[bytes]:
        self.arbitration.check_device(request.device_id)
        replies, results = await self._work(self._read_all, request.entities)
        for reply in replies:
            yield reply
        if any(code for code, _ in results):
            await _fail_batch(context, results)

    def _read_all(self, entities: Any) -> tuple[list[bytes], list[Result]]:
        """All replies, before the first is sent: no write comes between them; and what came of
        each entity of the request."""
        results: list[Result] = []
        response = p4runtime_pb2.ReadResponse
        batches = self.device.read(entities, results)
        return [response(entities=batch).SerializeToString() for batch in batches], results

    async def _set_config(self, request: Any, context: Any) -> Any:
        election = request.election_id if request.HasField("election_id") else None
        self.arbitration.check(request.device_id, request.role, election)
        await self._work(self.device.set_config, request)
        self._expect_idle()
        return p4runtime_pb2.SetForwardingPipelineConfigResponse()

    async def _get_config(self, request: Any, context: Any) -> Any:
        self.arbitration.check_device(request.device_id)
        return await self._work(self.device.get_config, request.response_type)

    async def _capabilities(self, request: Any, context: Any) -> Any:
        if request.device_id:
            self.arbitration.check_device(request.device_id)
        return p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    # ---- streams ----

    async def _stream(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        stream = _Stream()
        reader = asyncio.ensure_future(self._listen(stream, requests))
        try:
            while (message := await stream.outgoing.get()) is not None:
                yield message
            await reader  # raises why it has ended
        finally:
            reader.cancel()
            self._notify(self.arbitration.leave(stream))

    async def _listen(self, stream: _Stream, requests: Any) -> None:
        read = _parser(p4runtime_pb2.StreamMessageRequest)
        try:
            async for data in requests:
                await self._hear(stream, read(data))
        finally:
            stream.send(None)

    async def _hear(self, stream: _Stream, request: Any) -> None:
        kind = request.WhichOneof("update")
        if kind == "arbitration":
            self._notify(self.arbitration.update(stream, request.arbitration))
            return
        try:
            if not self.arbitration.is_primary(stream):
                raise Refused(Code.PERMISSION_DENIED, "only the primary controller may do this")
            if kind == "packet":
                await self._packet_out(request.packet)
            elif kind == "digest_ack":
                self.device.digests.acknowledge(request.digest_ack)
            else:
                raise Refused(Code.UNIMPLEMENTED, "there is no such stream message")
        except (Refused, P4Error) as error:
            made = p4runtime_pb2.StreamMessageResponse()
            made.error.canonical_code = getattr(error, "code", Code.INTERNAL)
            made.error.message = str(error)
            if kind == "packet":
                made.error.packet_out.packet_out.CopyFrom(request.packet)
            elif kind == "digest_ack":
                made.error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
            else:
                made.error.other.SetInParent()
            stream.offer(made)

    async def _packet_out(self, message: Any) -> None:
        if self.inject is None:
            raise Refused(
                Code.FAILED_PRECONDITION, "the switch was started without a CPU port (--cpu-port)"
            )
        frame = packet_out(self.device.catalog, message)
        await self._work(self.inject, frame)

    def _notify(self, notices: list[Notice]) -> None:
        for notice in notices:
            notice.stream.send(notice.message)


def _parser(kind: Any) -> Callable[[bytes], Any]:
    """The reader of messages of this type. Raises Refused."""

    def read(data: bytes) -> Any:
        from google.protobuf.message import DecodeError

        try:
            return kind.FromString(data)
        except DecodeError:
            raise Refused(
                Code.INVALID_ARGUMENT, f"this is no {kind.DESCRIPTOR.full_name}"
            ) from None

    return read


def _serialized(message: Any) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()


def _refusals(
    grpc: Any,
    function: Callable[..., Any],
    stream: bool,
    read: Callable[[Any], Any] = lambda data: data,
) -> Callable[..., Any]:
    """`function`, to which `read` makes the request, with a `Refused` made into the status of the
    call."""
    codes = {code.value[0]: code for code in grpc.StatusCode}

    async def abort(context: Any, error: Exception) -> None:
        if isinstance(error, Refused):
            await context.abort(codes[int(error.code)], error.message)
        traceback.print_exc(file=sys.stderr)  # a defect; the switch must live on
        await context.abort(grpc.StatusCode.INTERNAL, f"internal error: {error!r}")

    async def one(request: Any, context: Any) -> Any:
        try:
            return await function(read(request), context)
        except (grpc.aio.AbortError, asyncio.CancelledError):
            raise
        except Exception as error:
            await abort(context, error)

    async def many(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for reply in function(read(request), context):
                yield reply
        except (grpc.aio.AbortError, asyncio.CancelledError):
            raise
        except Exception as error:
            await abort(context, error)

    return many if stream else one


async def _fail_batch(context: Any, results: list[Result]) -> None:
    """End a Write or Read with what came of each update, or of each entity that was asked for."""
    import grpc

    failed = [(index, *result) for index, result in enumerate(results) if result[0]]
    index, code, message = min(failed, key=lambda each: each[1] is Code.ABORTED)
    text = f"{len(failed)} of {len(results)} failed; index {index}: {code.name}: {message}"
    status = status_pb2.Status(code=int(Code.UNKNOWN), message=text)
    for code, message in results:
        space = "p4engine" if code else ""
        error = p4runtime_pb2.Error(canonical_code=int(code), message=message, space=space)
        detail = status.details.add()
        detail.type_url = ANY + p4runtime_pb2.Error.DESCRIPTOR.full_name
        detail.value = error.SerializeToString()
    trailing: tuple[tuple[str, bytes], ...] = ((DETAILS, status.SerializeToString()),)
    if len(trailing[0][1]) > LONGEST_DETAILS:  # clients would refuse the whole reply
        trailing = ()
    await context.abort(grpc.StatusCode.UNKNOWN, text, trailing_metadata=trailing)
