"""One instance of a compiled program, with its control plane by names.

A thin layer over the C functions of runtime/p4rt.h: it finds objects by their P4 names, turns
numbers into the words that cross the border, and turns statuses into errors that name the object.
Packets go through the traffic manager (library.Switch).
"""

from __future__ import annotations

from p4engine.switch.pipeline_arrays import Arrays
from p4engine.switch.pipeline_tables import Tables


class Pipeline(Tables, Arrays):
    """An instance of `compiled`. `lib` is its ctypes library, `handle` its `p4_instance *`."""
