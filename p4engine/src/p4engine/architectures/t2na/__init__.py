"""T2NA, the architecture of the second Tofino: what it has beyond TNA, or otherwise.

Programs bring the same package as those for TNA. They are told apart by the size of the port
metadata.
"""

from __future__ import annotations

from p4engine.architectures.tna import Tna
from p4engine.frontend import ast
from p4engine.frontend.checker.checker import Checker
from p4engine.middle.architecture import ExternShape

MORE_RESULTS = ("2", "3", "4")


class T2na(Tna):
    """See docs/tna.md."""

    name = "t2na"
    port_metadata_bits = 192
    externs = {
        **Tna.externs,
        **{f"RegisterAction{n}": Tna.externs["RegisterAction"] for n in MORE_RESULTS},
        **{f"DirectRegisterAction{n}": Tna.externs["DirectRegisterAction"] for n in MORE_RESULTS},
        "IdleTimeout": ExternShape("IdleTimeout"),
    }
    undone = frozenset(
        {
            "mirror_hash",
            "mirror_ingress_cos",
            "mirror_deflect_on_drop",
            "mirror_multicast_ctrl",
            "mirror_egress_port",
            "mirror_qid",
            "mirror_coalesce_length",
            "adv_flow_ctl",
            "mtu_trunc_len",
            "mtu_trunc_err_f",
            "pktgen",
            "pktgen_address",
            "pktgen_length",
        }
    )

    def declared(self, checker: Checker) -> bool:
        size = checker.globals.find("PORT_METADATA_SIZE")
        return isinstance(size, ast.Constant) and size.const == self.port_metadata_bits


ARCHITECTURE = T2na()
