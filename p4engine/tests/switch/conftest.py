"""The traffic manager around a pipeline written by hand (fake_program.c), and switches that are
controlled over P4Runtime."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from p4engine.backend.c_build import find_c_compiler
from p4engine.switch.traffic_manager import Manager
from p4engine_testing import ENGINE

HERE = Path(__file__).parent
RUNTIME = ENGINE / "src" / "p4engine" / "runtime"
V1MODEL = RUNTIME.parent / "architectures" / "v1model"
PARTS = [part for name in ("tm*.c", "io*.c", "train.c") for part in sorted(RUNTIME.glob(name))]
PARTS += sorted(V1MODEL.glob("*.c"))


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The fake program linked with the traffic manager and the packet loop."""
    target = tmp_path_factory.mktemp("fake") / "fake.so"
    compiler = find_c_compiler()
    command = [compiler, "-O1", "-g", "-Wall", "-Werror", "-std=gnu11", "-shared", "-fPIC"]
    command += [
        "-I",
        str(RUNTIME),
        "-I",
        str(V1MODEL),
        "-o",
        str(target),
        str(HERE / "fake_program.c"),
    ]
    subprocess.run(command + [str(part) for part in PARTS], check=True)
    lib = ctypes.CDLL(str(target))
    lib.p4_create.restype = ctypes.c_void_p
    lib.p4_create.argtypes = [ctypes.c_void_p]
    lib.p4_destroy.argtypes = [ctypes.c_void_p]
    return lib


@pytest.fixture
def make(fake_library: ctypes.CDLL):
    """make(ports=..., seed=..., ...) -> Manager with a fake instance of its own."""
    instances: list[tuple[Manager, int]] = []

    def build(**options: object) -> Manager:
        handle = fake_library.p4_create(None)
        manager = Manager(fake_library, handle, **options)
        instances.append((manager, handle))
        return manager

    yield build
    for manager, handle in instances:
        manager.close()
        fake_library.p4_destroy(handle)


@pytest.fixture
def packet() -> Callable[..., bytes]:
    """packet("U", a, b, size=..., meta=...) -> bytes for the fake program."""

    def build(op: str, a: int = 0, b: int = 0, size: int = 64, meta: bool = False) -> bytes:
        head = bytes([ord(op), a, b, 0, ord("m") if meta else 0])
        return head + bytes(i & 0xFF for i in range(size - len(head)))

    return build


# ---- a switch without network that is controlled over P4Runtime ----


@pytest.fixture
def served():
    """A served switch of its own."""
    from p4engine_testing.controller import ServedSwitch

    made = ServedSwitch()
    yield made
    made.close()


@pytest.fixture
def controller(served):
    """Its primary controller; `ids` are P4Info's numbers."""
    from p4engine_testing.controller import Controller, Ids

    with Controller(served.address) as made:
        made.arbitrate()
        made.ids = Ids(served.info)
        yield made
