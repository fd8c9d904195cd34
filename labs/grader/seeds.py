"""The source of the numbers of a grading: packets that the tests send, numbers of workers, packets
that are lost.

Practice seeds are plain numbers, for students. A hidden seed is made of the class secret, the
student's name and the lab. So every student has other numbers, and no change of a submission draws
new ones: a mark depends on what has been handed in, and not on luck. No output tells the numbers.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import random
from dataclasses import dataclass
from pathlib import Path

from p4fabric.base.errors import UserError

SHORTEST_SECRET = 16  # characters
BLOCK_BYTES = 64


class Stream(random.Random):
    """Random numbers that nobody can continue who has seen some of them, as one could with those of
    Python's own generator."""

    def __init__(self, key: str) -> None:
        self._key, self._count, self._bits, self._left = key.encode(), 0, 0, 0
        super().__init__()

    def seed(self, *_: object, **__: object) -> None:
        """The key is the seed."""
        self.gauss_next = None

    def getrandbits(self, k: int) -> int:
        while self._left < k:
            block = hashlib.sha512(self._count.to_bytes(8, "big") + self._key).digest()
            self._bits |= int.from_bytes(block, "big") << self._left
            self._left += 8 * BLOCK_BYTES
            self._count += 1
        made = self._bits & ((1 << k) - 1)
        self._bits >>= k
        self._left -= k
        return made

    def random(self) -> float:
        return self.getrandbits(53) / (1 << 53)


@dataclass(frozen=True)
class Seed:
    """The seed of the numbers of a grading.

    Args:
        number: for practice.
        student: whose files are personal (Lab.personal), and part of a hidden seed.
        secret: of the class; b"": this is practice.
    """

    number: int = 0
    student: str = ""
    secret: bytes = b""

    @property
    def hidden(self) -> bool:
        """No output may tell a number."""
        return bool(self.secret)

    def key(self, lab: str) -> str:
        """The key of the streams for the student's submissions."""
        return self._key(lab, self.student)

    def common_key(self, lab: str) -> str:
        """The key of streams that are the same for all students of a class."""
        return self._key(lab, "")

    def _key(self, lab: str, student: str) -> str:
        if not self.hidden:
            return f"practice {self.number}"
        parts = [lab.encode(), student.encode()]
        lengths = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.new(self.secret, lengths, hashlib.sha256).hexdigest()


def login() -> str:
    """The user's name; "" where the system has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def read_secret(path: Path) -> bytes:
    """The class secret. Raises UserError for one that could be guessed."""
    try:
        text = path.read_bytes().strip()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    if len(text) < SHORTEST_SECRET:
        raise UserError(
            f"{path}: a secret has at least {SHORTEST_SECRET} characters; make one:"
            f" head -c 32 /dev/urandom | base64 > {path}"
        )
    return text
