"""The system's facts and options. Its code is in scheme.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from p4fabric.base.config.fields import SECOND, US, Quantity
from p4fabric.base.config.units import TIME
from pydantic import Field

from testbed.systems import System
from testbed.systems.options import EsaOptions


class EsaLruOptions(EsaOptions):
    """ESA's options, and the age at which a sum may be evicted."""

    age_ns: Annotated[int, Quantity(TIME, US, SECOND)] = Field(
        default=500 * US,
        alias="age",
        description="An arriving fragment evicts a sum that no packet has touched for so long.",
    )


SYSTEM = System(
    name="esa-lru",
    title="ESA-LRU",
    color="#882255",
    marker="h",
    program=Path(__file__).parent / "esa_lru.p4",
    options=EsaLruOptions,
    slot_bytes=26,
)
