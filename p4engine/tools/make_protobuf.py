"""Makes p4engine/p4runtime/proto/*_pb2.py(i) out of the definitions of P4Runtime.

    python tools/make_protobuf.py FOLDER

FOLDER has p4/v1/p4runtime.proto and what it imports: `proto` of a checkout of p4lang/p4runtime.
Needs the package grpcio-tools, of a version whose output is accepted by the oldest protobuf library
that pyproject.toml allows: 1.60.1 for 4.25.

What protoc writes is changed in two ways: modules are imported from p4engine.p4runtime.proto, and
messages live in the descriptor pool of that package (its docstring says why).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src" / "p4engine" / "p4runtime" / "proto"
PACKAGE = "p4engine.p4runtime.proto"
FILES = (
    "google/rpc/status.proto",
    "p4/config/v1/p4types.proto",
    "p4/config/v1/p4info.proto",
    "p4/v1/p4data.proto",
    "p4/v1/p4runtime.proto",
)


def changed(text: str) -> str:
    """Generated code with its imports, its pool and its own name replaced."""
    text = re.sub(
        r"'(?:google\.rpc|p4\.config\.v1|p4\.v1)\.(\w+_pb2)', _globals",
        rf"'{PACKAGE}.\1', _globals",
        text,
    )
    text = re.sub(
        r"(?m)^from (google\.rpc|p4\.config\.v1|p4\.v1) import", f"from {PACKAGE} import", text
    )
    default = "_descriptor_pool.Default()"
    if default in text:
        text = text.replace(default, "_pool.POOL")
        text = text.replace(
            "from google.protobuf import descriptor_pool as _descriptor_pool\n",
            f"from {PACKAGE} import pool as _pool\n",
        )
    return text


def main(arguments: list[str]) -> int:
    [source] = arguments
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{source}"]
        command += [f"--python_out={folder}", f"--pyi_out={folder}", *FILES]
        subprocess.run(command, check=True)
        for file in FILES:
            for suffix in ("_pb2.py", "_pb2.pyi"):
                made = Path(folder, file.removesuffix(".proto") + suffix)
                (TARGET / made.name).write_text(changed(made.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
