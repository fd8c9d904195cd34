"""Errors of a results folder: the user's, or the program's.

The user can correct a folder that is missing, half copied or from another version (`ResultsError`,
a `UserError`). Rows that break the declared tables are a defect of the code that wrote them
(`SchemaError`), and must never be corrected silently.
"""

from __future__ import annotations

from testbed.errors import UserError


class ResultsError(UserError):
    """A folder that can't be read or created; the message names the place and the remedy."""


class SchemaError(ValueError):
    """Rows that do not fit their declared table; the message names table, column and row."""
