"""A process as in a platform's container: root with few privileges, and no namespaces to be had."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

import pytest

# What plain Docker leaves to root, less what nothing here needs.
CAPABILITIES = ("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap")
NAMESPACES = 0x7E020080  # CLONE_NEW...
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as a container has it")

_FILTER = """
import errno, os, sys
import pyseccomp as scmp
rules = scmp.SyscallFilter(scmp.ALLOW)
refuse = scmp.ERRNO(errno.EPERM)
for name in ("unshare", "setns", "mount", "pivot_root"):
    rules.add_rule(refuse, name)
for bit in range(32):
    if %d >> bit & 1:
        rules.add_rule(refuse, "clone", scmp.Arg(0, scmp.MASKED_EQ, 1 << bit, 1 << bit))
rules.add_rule(scmp.ERRNO(errno.ENOSYS), "clone3")
rules.load()
os.execvp(sys.argv[1], sys.argv[1:])
"""


def in_container(
    words: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command there."""
    kept = "-all," + ",".join(f"+{name}" for name in CAPABILITIES)
    before = ["setpriv", "--bounding-set", kept, "--inh-caps", kept]
    inside = [sys.executable, "-c", _FILTER % NAMESPACES, *words]
    return subprocess.run(
        [*before, *inside], env=dict(environment), capture_output=True, text=True, timeout=280
    )
