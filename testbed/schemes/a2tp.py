"""A2TP: ATP with two windows, one of them for aggregators (p4/a2tp.p4)."""

from __future__ import annotations

from types import ModuleType

from testbed.schemes.atp import Atp


class A2tp(Atp):
    """A2TP."""

    def hosts(self) -> ModuleType:
        from testbed.protocols import a2tp

        return a2tp


SCHEME = A2tp()
