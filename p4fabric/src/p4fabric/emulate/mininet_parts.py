"""The parts of Mininet that are used here.

Mininet 2.3 imports distutils. Before Python 3.12 that is in the standard library, but setuptools,
once installed, replaces it by its own and loads all of itself for it: a third of a second before
every run. So it is asked not to. Mininet also makes all later loggers of the process its own, with
a level above that of a log. That is undone.
"""

from __future__ import annotations

import contextlib
import logging
import sys

if sys.version_info < (3, 12):
    with contextlib.suppress(ImportError):
        import _distutils_hack

        _distutils_hack.remove_shim()

_loggers = logging.getLoggerClass()

from mininet.link import Intf, Link  # noqa: E402
from mininet.net import Mininet  # noqa: E402
from mininet.node import Host, Node, Switch  # noqa: E402

logging.setLoggerClass(_loggers)

__all__ = ["Host", "Intf", "Link", "Mininet", "Node", "Switch"]
