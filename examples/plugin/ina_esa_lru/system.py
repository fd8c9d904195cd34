"""The system: its options and its entry. Hosts and tables are ESA's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from testbed.config.fields import SECOND, US, Quantity
from testbed.config.units import TIME
from testbed.systems import System
from testbed.systems.options import EsaOptions

if TYPE_CHECKING:
    from testbed.setup import Platform


class EsaLruOptions(EsaOptions):
    """ESA's options, and the age at which a sum may be evicted."""

    age_ns: Annotated[int, Quantity(TIME, US, SECOND)] = Field(
        default=500 * US,
        alias="age",
        description="An arriving fragment evicts a sum that no packet has touched for so long.",
    )


def definitions(platform: Platform) -> dict[str, int]:
    """What esa_lru.p4 is compiled with: the age in units of the switch's clock."""
    return {"EVICTION_AGE": platform.options.age_ns // platform.timestamp_unit_ns}


SYSTEM = System(
    name="esa-lru",
    title="ESA-LRU",
    color="#882255",
    marker="h",
    program=Path(__file__).parent / "esa_lru.p4",
    options=EsaLruOptions,
    slot_bytes=26,
    host_part="testbed.setup.host_specs:esa_part",
    machine="testbed.workload.machine:esa_machine",
    tables="testbed.dataplane.install_tables:install_pool",
    job_tables="testbed.dataplane.install_tables:install_pool_job",
    definitions=definitions,
)
