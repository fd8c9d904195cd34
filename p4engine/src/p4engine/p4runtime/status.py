"""Reasons for refused requests: canonical codes of gRPC, and the engine's errors as such codes."""

from __future__ import annotations

from enum import IntEnum
from typing import NoReturn

from p4engine.frontend.diagnostics import P4Error


class Code(IntEnum):
    """google.rpc.Code, as far as it is used."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13


# What came of an update: OK, or why it is refused.
Result = tuple[Code, str]

# By enum p4_status of runtime/p4rt.h.
ENGINE = {
    -1: Code.INVALID_ARGUMENT,
    -2: Code.NOT_FOUND,
    -3: Code.ALREADY_EXISTS,
    -4: Code.RESOURCE_EXHAUSTED,
    -5: Code.INVALID_ARGUMENT,
    -6: Code.OUT_OF_RANGE,
    -7: Code.INVALID_ARGUMENT,
    -8: Code.PERMISSION_DENIED,
    -9: Code.RESOURCE_EXHAUSTED,
    -10: Code.INVALID_ARGUMENT,
    -11: Code.FAILED_PRECONDITION,
}


class Refused(Exception):
    """A request, or one update of it, that is not carried out."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def invalid(message: str) -> NoReturn:
    """Refuse with INVALID_ARGUMENT."""
    raise Refused(Code.INVALID_ARGUMENT, message)


def unimplemented(message: str) -> NoReturn:
    """Refuse with UNIMPLEMENTED."""
    raise Refused(Code.UNIMPLEMENTED, message)


def of_engine(error: P4Error) -> Refused:
    """A refusal of the engine, as a status."""
    status: int | None = getattr(error, "status", None)
    code = Code.INVALID_ARGUMENT if status is None else ENGINE.get(status, Code.INVALID_ARGUMENT)
    return Refused(code, str(error))


def check_existence(kind: str, exists: bool, what: str) -> None:
    """An INSERT needs a new thing, anything else one that exists."""
    if kind == "INSERT" and exists:
        raise Refused(Code.ALREADY_EXISTS, f"{what} exists already")
    if kind != "INSERT" and not exists:
        raise Refused(Code.NOT_FOUND, f"there is no {what}")
