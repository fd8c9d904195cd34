"""The system's code: all of it is ESA's, but for what the P4 program is compiled with."""

from __future__ import annotations

from ina_esa_lru.system import EsaLruOptions
from testbed.schemes.esa import Esa
from testbed.setup import Platform


class EsaLru(Esa):
    """ESA that evicts by age."""

    def definitions(self, platform: Platform) -> dict[str, int]:
        """The age in units of the switch's clock."""
        age_ns = platform.options_of(EsaLruOptions).age_ns
        return {"EVICTION_AGE": age_ns // platform.timestamp_unit_ns}


SCHEME = EsaLru()
