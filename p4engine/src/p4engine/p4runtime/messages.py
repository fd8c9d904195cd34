"""The protobuf messages of P4Info and P4Runtime, made from the package p4runtime.

The package's generated code is older than what the protobuf library accepts, so that it cannot be
imported; the descriptors in it are current, and the classes are made from those. They live in a
pool of their own: a controller in the same process (a test, for instance) has its own messages of
the same names. Nothing is imported before somebody asks for a message.
"""

from __future__ import annotations

import ast as python_ast
import functools
import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from p4engine.frontend.diagnostics import Diagnostic, P4Error

GENERATED = (
    ("google.rpc", "status"),
    ("p4.config.v1", "p4types"),
    ("p4.config.v1", "p4info"),
    ("p4.v1", "p4data"),
    ("p4.v1", "p4runtime"),
)


@functools.cache
def messages() -> Any:
    """All message classes of p4.config.v1, p4.v1 and google.rpc, by name, as attributes.

    Raises P4Error where the package p4runtime is missing or of an unknown make.
    """
    try:
        from google.protobuf import any_pb2, descriptor_pool, message_factory

        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
        for package, name in GENERATED:
            folder = importlib.util.find_spec(package).submodule_search_locations[0]
            pool.AddSerializedFile(_descriptor_bytes(Path(folder, f"{name}_pb2.py")))
        classes = {"Any": message_factory.GetMessageClass(_any(pool))}
        for package, file in GENERATED:  # p4.v1.Action takes the place of p4.config.v1's
            path = f"{package.replace('.', '/')}/{file}.proto"
            for name, descriptor in pool.FindFileByName(path).message_types_by_name.items():
                classes[name] = message_factory.GetMessageClass(descriptor)
    except (ImportError, AttributeError, OSError, KeyError, TypeError) as error:
        message = f"P4Info needs the Python package p4runtime: pip install p4runtime ({error})"
        raise P4Error([Diagnostic("error", message, "", 0, 0, "")]) from None
    return SimpleNamespace(**classes)


def _any(pool: Any) -> Any:
    return pool.FindMessageTypeByName("google.protobuf.Any")


def _descriptor_bytes(path: Path) -> bytes:
    """The serialized descriptor within generated code: its longest constant of bytes."""
    nodes = python_ast.walk(python_ast.parse(path.read_text()))
    found = [
        n.value for n in nodes if isinstance(n, python_ast.Constant) and type(n.value) is bytes
    ]
    return max(found, key=len, default=b"")
