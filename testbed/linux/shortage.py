"""What an exception says that has run out, in the words that a user gets.

Memory and the room of a file system can run out at any line. The command's last message and the
results folder must give the same cause, so both ask here.
"""

from __future__ import annotations

import errno

from testbed.linux import memory_limits

SHORTAGES = (MemoryError, ImportError, OSError, RuntimeError, SystemError)
"""What Python and its libraries raise when something runs out."""


def shortage(error: BaseException | None) -> str:
    """The cause and its remedy, as in "memory ran out; ..."; "" if an exception says something
    else."""
    if not isinstance(error, SHORTAGES):
        return ""
    if memory_limits.ran_out(error):
        return f"memory ran out; {memory_limits.advice()}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" of {error.filename}" if error.filename else ""
        return f"the file system{where} is full; make room on it"
    return ""
