"""p4c: P4 source to the JSON that `simple_switch` runs.

The same compiler has two names. `p4c-bm2-ss` is the back end for simple_switch alone and writes the
file that it is told; `p4c` is the driver of all back ends and writes into a folder. Old packages
have only the first, some new ones only the second.

What p4c makes is kept in the user's cache, under a key of everything that it depends on: the
program's tokens after preprocessing with their lines, the constants, and which p4c. So a sweep
compiles each variant once. The file's name has the hash of its content, too; a file that differs
from it is damaged and made again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from p4engine.backend.cache import cache_folder, prune, tell_damaged
from p4engine.cli.shims_command import find_real
from p4engine.frontend.diagnostics import Diagnostics, Fatal
from p4engine.frontend.preprocessor.preprocess import preprocess
from p4fabric.base.errors import UserError

from testbed.paths import command_line

_log = logging.getLogger(__name__)
BACK_END = "p4c-bm2-ss"
DRIVER = "p4c"
TIMEOUT_S = 600
MAX_FILES = 200  # in the cache: some hundred kB each
MAX_LINES = 24  # of p4c's words in a message; the first error explains most of the others


@dataclass(frozen=True)
class P4c:
    """An installed p4c: its path, and whether it is the driver."""

    path: str
    driver: bool

    @staticmethod
    def find() -> P4c:
        """The one on the PATH. Raises UserError."""
        for name in (BACK_END, DRIVER):
            if path := find_real(name):
                return P4c(path, name == DRIVER)
        raise UserError(
            f"there is neither {BACK_END} nor {DRIVER} on the PATH, which compile P4 programs for"
            f" BMv2; `{command_line('doctor')}` says how to install them (docs/bmv2.md)"
        )

    def command(
        self,
        source: Path,
        defines: Mapping[str, str | int],
        include_dirs: Sequence[Path],
        folder: Path,
    ) -> list[str]:
        """The command that makes `output(source, folder)`."""
        command = [self.path]
        if self.driver:
            command += ["--target", "bmv2", "--arch", "v1model", "-o", str(folder)]
        else:
            command += ["-o", str(self.output(source, folder))]
        command += [f"-D{name}={value}" for name, value in defines.items()]
        command += [f"-I{path}" for path in include_dirs]
        return [*command, str(source)]

    def output(self, source: Path, folder: Path) -> Path:
        """The place of the JSON in `folder`."""
        return folder / f"{source.stem}.json"

    def identity(self) -> str:
        """Identifies its version; calling `--version` would take half of a cached start."""
        path = os.path.realpath(self.path)
        status = os.stat(path)
        return f"{path} {status.st_size} {status.st_mtime_ns}"


def compile_for_bmv2(
    source: Path, defines: Mapping[str, str | int], include_dirs: Sequence[Path]
) -> Path:
    """The program's JSON, from the cache or from p4c.

    Raises UserError in p4c's words, or P4Error for what fails before p4c is asked (a missing
    include file)."""
    p4c = P4c.find()
    folder = cache_folder("ina-testbed/bmv2")
    key = _key(p4c, source, defines, include_dirs)
    for kept in folder.glob(f"{key}-*.json"):
        if kept == _place(folder, key, kept):
            kept.touch()
            return kept
        tell_damaged(kept)
        kept.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        command = p4c.command(source, defines, include_dirs, Path(name))
        began_s = time.monotonic()
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"{p4c.path} did not end within {TIMEOUT_S} s on {source}") from None
        made = p4c.output(source, Path(name))
        # p4c has been seen to end with 0 after an error; then there is no file.
        if done.returncode != 0 or not made.exists():
            raise UserError(_error_message(p4c, source, done))
        _log.info("%s compiled by %s: %.3f s", source, p4c.path, time.monotonic() - began_s)
        kept = _place(folder, key, made)
        os.replace(made, kept)
    prune(folder, MAX_FILES)
    return kept


def _place(folder: Path, key: str, made: Path) -> Path:
    """The place in the cache of what is in a file."""
    return folder / f"{key}-{hashlib.sha256(made.read_bytes()).hexdigest()[:32]}.json"


def _key(
    p4c: P4c, source: Path, defines: Mapping[str, str | int], include_dirs: Sequence[Path]
) -> str:
    diagnostics = Diagnostics()
    try:
        tokens, _ = preprocess(source, dict(defines), tuple(include_dirs), diagnostics)
    except Fatal:
        diagnostics.stop_on_errors()
        raise
    diagnostics.stop_on_errors()
    # The places of tokens: p4c writes lines into the JSON.
    text = "\n".join(f"{token[1]}\t{token[2]}" for token in tokens)
    parts = (p4c.identity(), source.name, text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _error_message(p4c: P4c, source: Path, done: subprocess.CompletedProcess[str]) -> str:
    """The output of p4c, without its warnings, and shortened if it is long."""
    said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    lines = _without_warnings(said) or said or [f"it ended with exit code {done.returncode}"]
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"... and {len(lines) - MAX_LINES} more lines"]
    return "\n".join([f"{p4c.path} refuses {source}:", *lines])


def _without_warnings(lines: Sequence[str]) -> list[str]:
    """Messages begin with a place at the margin; the source lines below belong to them."""
    kept, keep = [], True
    for line in lines:
        if "warning:" in line:
            keep = False
        elif "error:" in line or "error(s)" in line or "errors generated" in line:
            keep = True
        if keep:
            kept.append(line)
    return kept
