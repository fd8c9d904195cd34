"""Names of what reliable connections are made of: congestion controls, repairs of losses, windows.

What they do is in p4fabric.simulate (controls.py, reliable.py), which needs numba; who reads a file
needs the names alone.
"""

from __future__ import annotations

import functools
from importlib import metadata

# Congestion controls: no control, Zhu et al. (SIGCOMM 2015) with the constants of the paper and of
# network cards as sold, Kumar et al. (SIGCOMM 2020), and Ultra Ethernet's
CONTROLS = ("none", "dcqcn", "dcqcn_vendor", "swift", "nscc")
AIMD = "aimd"  # what machines do that have windows of their own
CONTROL_GROUP = "p4fabric.congestion"  # entry points of further controls

# Repairs of losses, by their numbers in reliable.py
RECOVERIES = ("go_back_n", "selective_repeat")

# Windows in words: what the control usually has, and a product of bandwidth and delay. Others are
# packets, None: no limit but the next one.
OWN_WINDOW, PRODUCT = 0, -1
WINDOW_WORDS = (("auto", OWN_WINDOW), ("bdp", PRODUCT), ("unlimited", None))
MOST_IN_FLIGHT = 8192  # packets

# Where links lose nothing, what is late waits behind a pause. The timeout is then that of network
# cards for RDMA, 4.096 us x 2^14 (InfiniBand's local ACK timeout, the usual setting).
LOSSLESS_TIMEOUT_NS = 4096 << 14

# What a user reads of a key for a window
WINDOW_TEXT = (
    "`bdp`: the product of bandwidth and delay of the empty path; `auto`: this with `none` and"
    " `swift`, `unlimited` with `dcqcn`, and one and a half with `nscc`, which never has more."
)
CONTROL_TEXT = (
    "`none`: the rate of the host's link and a constant window; `dcqcn`: with the constants of its"
    " paper, `dcqcn_vendor`: with those of network cards; `swift`; `nscc` (docs/transports.md)."
)


@functools.cache
def further_controls() -> tuple[str, ...]:
    """The congestion controls that other packages have."""
    return tuple(each.name for each in metadata.entry_points(group=CONTROL_GROUP))


def is_control(name: str) -> bool:
    """True if a congestion control has this name; packages are looked through only for a name
    that is not our own."""
    return name in CONTROLS or name in further_controls()
