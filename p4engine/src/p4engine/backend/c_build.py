"""C text to a shared object: the C compiler, its flags and runs, and the runtime's own C files,
whose objects are kept in the cache.

Of the standard library alone, so that what only looks whether a machine has all it needs
(`ina doctor`) finds the C compiler that a build will take.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from p4engine.backend.cache import cache_folder, digest, failure, sealed, touch, unsealed

RUNTIME = Path(__file__).parents[1] / "runtime"
ARCHITECTURES = Path(__file__).parents[1] / "architectures"
FLAGS = [
    "-std=gnu11",
    "-fPIC",
    "-fvisibility=hidden",
    "-O3",
    "-march=native",
    "-mprefer-vector-width=512",
    "-fno-math-errno",
    "-ffp-contract=off",  # meters round alike with and without fused multiply-add
    "-fallow-store-data-races",
    "-fno-plt",
    "-w",
]
GCC_ONLY = ("-fallow-store-data-races",)


@dataclass(frozen=True)
class Target:
    """A C compiler with its flags; `digest` stands for all that the runtime's objects depend on."""

    compiler: str
    flags: list[str]
    digest: str


def find_c_compiler() -> str | None:
    """Path of the one that the environment names as CC, or else of cc, gcc or clang; None: there
    is none."""
    names = (os.environ.get("CC", "cc"), "gcc", "clang")
    return next(filter(None, map(shutil.which, names)), None)


def _compiler() -> tuple[str, str]:
    """(path, version) of the C compiler."""
    path = find_c_compiler()
    if path is None:
        raise failure(
            "no C compiler found; P4 programs are compiled to C. Install one:"
            " apt-get install gcc libc6-dev"
        )
    # The file's identity stands for its version: running it would take half of a cached start.
    status = os.stat(os.path.realpath(path))
    return path, f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}"


def _cpu() -> str:
    """The properties that -march=native depends on."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith(("flags", "Features")):
                    return line
    except OSError:
        pass
    return os.uname().machine


def _flags(compiler: str) -> list[str]:
    machine = os.uname().machine
    flags = [f for f in FLAGS if machine == "x86_64" or not f.startswith("-mprefer")]
    if "clang" in os.path.realpath(compiler):
        flags = [f for f in flags if f not in GCC_ONLY]
    return flags + os.environ.get("P4ENGINE_CFLAGS", "").split()


def find_target() -> Target:
    """The C compiler and the flags for this machine. Raises P4Error if there is no compiler."""
    compiler, version = _compiler()
    flags = _flags(compiler)
    files = sorted([*RUNTIME.iterdir(), *ARCHITECTURES.glob("*/*.[ch]")])
    states = tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in files)
    of_sources = _digest_of_files(states)
    return Target(
        compiler, flags, digest([version, " ".join(flags), _cpu(), of_sources, sealed(b"")])
    )


@functools.lru_cache(maxsize=4)
def _digest_of_files(states: tuple[tuple[Path, int, int], ...]) -> str:
    """Of files' contents; states: each with its time of modification in ns and its size."""
    return digest([path.read_bytes() for path, _, _ in states])


def runtime_sources(architecture: str) -> list[Path]:
    """The C files that a program of this architecture is linked with."""
    return sorted([*RUNTIME.glob("*.c"), *(ARCHITECTURES / architecture).glob("*.c")])


def include_folders(architecture: str) -> list[str]:
    """The options of the C compiler for the folders of their headers."""
    return [f"-I{RUNTIME}", f"-I{ARCHITECTURES / architecture}"]


def _object(target: Target, architecture: str, source: Path) -> str:
    return f"{target.digest}-{architecture}-{source.stem}.o"


def share_runtime(folder: Path, architecture: str = "v1model") -> bool:
    """Put copies of the runtime's compiled files from the user's cache into the cache `folder`.

    So that a program that is compiled apart from the user's cache (because nobody should trust what
    comes of it) need not compile the runtime, too. Returns False if some are not in the cache.
    """
    target, complete = find_target(), True
    for source in runtime_sources(architecture):
        kept = cache_folder() / _object(target, architecture, source)
        data = _kept_object(kept)
        if data is None:
            complete = False
        else:
            (folder / kept.name).write_bytes(sealed(data))
    return complete


def _kept_object(path: Path) -> bytes | None:
    """An object from the cache; None: it is not there, or damaged."""
    try:
        data = unsealed(path)
    except OSError:
        return None
    if data is not None:
        touch(path)
    return data


def build_shared_object(
    c_text: str,
    target: Target,
    folder: Path,
    so_path: Path,
    *,
    fast: bool,
    architecture: str = "v1model",
) -> None:
    """Compile a program and, side by side, those runtime files that are not in the cache `folder`
    yet; link them. Without `fast` the program itself is compiled quickly instead of well."""
    own = target.flags if fast else [f if f != "-O3" else "-O1" for f in target.flags]
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        work = Path(temporary)
        program, shared = work / "program.c", work / "program.so"
        program.write_text(c_text)
        jobs: list[tuple[Path, Path, Path | None]] = [(program, work / "program.o", None)]
        objects = [work / "program.o"]
        for source in runtime_sources(architecture):
            kept = folder / _object(target, architecture, source)
            own_copy = work / f"{source.stem}.o"
            objects.append(own_copy)
            data = _kept_object(kept)
            if data is None:
                jobs.append((source, own_copy, kept))
            else:
                own_copy.write_bytes(data)  # ours to the end, even if another process prunes it
        running = []
        for source, made, cached in jobs:
            flags = target.flags if cached else own
            command = [target.compiler, *flags, *include_folders(architecture)]
            command += ["-c", str(source), "-o", str(made)]
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            running.append((process, source, made, cached))
        for process, source, made, cached in running:
            output, _ = process.communicate()
            if process.returncode:
                _c_failure(folder, source, output, c_text)
            if cached is not None:
                _put(made, cached)
        command = [target.compiler, "-shared", *target.flags, *map(str, objects)]
        command += ["-o", str(shared), "-lm", "-lpthread"]
        linked = subprocess.run(command, capture_output=True, text=True)
        if linked.returncode:
            _c_failure(folder, shared, linked.stderr, c_text)
        _put(shared, so_path)


def _put(made: Path, cached: Path) -> None:
    """Put what a compiler has made into the cache. No reader ever sees half of it."""
    whole = made.with_name("sealed")
    whole.write_bytes(sealed(made.read_bytes()))
    os.replace(whole, cached)


def _c_failure(folder: Path, source: Path, output: str, c_text: str) -> None:
    """The C compiler refused our own output: say so without showing it, and keep it for a
    report."""
    kept = folder / "failed.c"
    kept.write_text(c_text + "\n/*\n" + output.replace("*/", "* /") + "\n*/\n")
    raise failure(
        f"internal error of the P4 compiler: the C compiler refused {source.name}; kept in {kept}."
        " Please report it with the program."
    )
