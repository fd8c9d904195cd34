"""An instance of a compiled program, and its objects by their names."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_uint32, c_void_p
from typing import Any

from p4engine.program_info import ProgramInfo
from p4engine.switch.pipeline_abi import DIGEST_HOOK, HOOK, NO_MEMORY, STATUS, Config, declare
from p4engine.values.names import Names
from p4engine.values.numbers import ControlError, OutOfMemory, from_words, word_count


class Instance:
    """An instance of `compiled`. `lib` is its ctypes library, `handle` its `p4_instance *`."""

    def __init__(self, compiled: Any, seed: int = 0):
        self.compiled = compiled
        self.info: ProgramInfo = compiled.info
        self.names = Names(self.info)
        self.handle: int | None = None
        self.clock: Callable[[], int] = lambda: 0
        self.on_timeout: Callable[[int], None] = lambda _ttl_ns: None
        self.lib = ctypes.CDLL(str(compiled.so_path))
        declare(self.lib)
        self.seed = seed
        self._config = Config(seed=seed % 2**64)
        self._hooks: dict[str, Any] = {}
        self._listeners: dict[str, Callable[..., None]] = {}
        self.handle = self.lib.p4_create(ctypes.byref(self._config))
        if not self.handle:
            raise OutOfMemory("no memory for the program's tables and registers")

    def close(self) -> None:
        """Free everything."""
        if self.handle:
            self.lib.p4_destroy(self.handle)
            self.handle = None

    def __del__(self) -> None:
        self.close()

    def on_log(self, function: Any) -> None:
        """Call function(text) for log_msg and failed asserts."""

        def hook(_user: Any, _packet: Any, text: bytes) -> None:
            function(text.decode(errors="replace"))

        self._listeners["log"] = function
        self._set_hook("log", HOOK(hook))

    def on_digest(self, function: Callable[[str, int, list[int]], None]) -> None:
        """Call function(name, receiver, values) for every digest; bool and int<W> are unsigned."""

        def hook(_user: Any, _packet: Any, receiver: int, number: int, words: Any, _n: int) -> None:
            digest, at, values = self.info.digests[number], 0, []
            for field in digest.fields:
                n = word_count(field.width)
                values.append(from_words(words[at : at + n], field.width))
                at += n
            function(digest.name, receiver, values)

        self._listeners["digest"] = function
        self._set_hook("digest", DIGEST_HOOK(hook))

    def take_listeners(self, other: Instance) -> None:
        """Call the functions that listen to another instance."""
        for name, function in other._listeners.items():
            getattr(self, f"on_{name}")(function)

    def on_trace(self, function: Any) -> None:
        """Call function(ingress_port, text) for every event of a traced build; None: no more."""

        def hook(_user: Any, packet: int, text: bytes) -> None:
            function(c_uint32.from_address(packet).value, text.decode())

        self._listeners.pop("trace", None)
        if function is not None:
            self._listeners["trace"] = function
        self._set_hook("trace", None if function is None else HOOK(hook))

    def _set_hook(self, name: str, made: Any) -> None:
        setattr(self._config, name, None if made is None else ctypes.cast(made, c_void_p))
        self.lib.p4_set_hooks(self.handle, ctypes.byref(self._config))
        if made is not None:  # ctypes does not keep it; the old one may be running now
            self._hooks[name] = made

    def _check(self, status: int, what: str) -> int:
        if status < 0:
            kind = OutOfMemory if status == NO_MEMORY else ControlError
            raise kind(f"{what}: {STATUS.get(status, f'status {status}')}", status)
        return status
