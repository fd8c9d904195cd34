"""The two ways in which a run can end badly, kept apart because they need different help.

A *user error* is something that the person at the keyboard can put right before anything runs: a
misspelt key, a missing package, no root. `run.py` prints its message and exits with 2. A *run
error* is a run that started and failed: a host died, a value was wrong. It exits with 1 and leaves
a results folder marked failed. Anything else that escapes is a defect of the testbed and keeps its
traceback.
"""

from __future__ import annotations


class UserError(Exception):
    """Something that the user can put right.

    The message is one clear line, or a block of lines, that names the place and the remedy. It is
    printed as it stands.
    """


class RunError(Exception):
    """A run that started and failed. The message names the cause.

    `log_tail` holds the last lines of the log that explains it ("" where there is none), `log` says
    which file they come from.
    """

    def __init__(self, message: str, log_tail: str = "", log: str | None = None) -> None:
        super().__init__(message)
        self.log_tail = log_tail
        self.log = log
