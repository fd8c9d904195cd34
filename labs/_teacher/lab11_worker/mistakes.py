"""Typical mistakes in lab 11."""

from __future__ import annotations

from labs._teacher import Mistake

_NEXT = """        if fragment + self.window < self.fragments:
            self.ready.append(fragment + self.window)
"""
MISTAKES = [
    Mistake(
        "counts what is in flight",
        "takes a slot for free because another one is",
        (
            (
                _NEXT,
                "        if len(self.first) + len(self.ready) < self.fragments:\n"
                "            self.ready.append(len(self.first) + len(self.ready))\n",
            ),
        ),
        frozenset({"window", "once", "lossy", "strange", "fast"}),
    ),
    Mistake(
        "waits for the whole window",
        "sends the next fragments when all results of the last window are here",
        (
            (
                _NEXT,
                "        if self.done % self.window == 0:\n"
                "            end = min(self.done + self.window, self.fragments)\n"
                "            self.ready += range(self.done, end)\n",
            ),
        ),
        frozenset({"window"}),
    ),
    Mistake(
        "never again",
        "has no timer",
        (("        return min(self.due.values(), default=None)", "        return None"),),
        frozenset({"fast", "karn", "silence"}),
    ),
    Mistake(
        "a fixed timeout",
        "does not measure",
        (
            (
                "            self._measure(now_ns - self.first[fragment])",
                "            self.measured = False",
            ),
        ),
        frozenset({"fast", "patient"}),
    ),
    Mistake(
        "no doubling",
        "sends again at a constant pace, whatever has happened to the network",
        (("min(2 * self.wait[n], MOST_NS)", "self.wait[n]"),),
        frozenset({"silence"}),
    ),
    Mistake(
        "a result comes only once",
        "does not expect a copy of a result",
        (
            (
                "        if fragment not in self.due:\n            return\n        del",
                "        del",
            ),
        ),
        frozenset({"fast", "strange", "karn"}),
    ),
    Mistake(
        "against Karn's rule",
        "takes the time since the last packet for the round trip",
        (
            ("            self.again.add(n)\n", "            self.first[n] = now_ns\n"),
            ("        if fragment not in self.again:\n", "        if True:\n"),
        ),
        frozenset({"karn"}),
    ),
]
