"""v1model, the architecture of BMv2's simple_switch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from p4engine.architectures.v1model.declarations import (
    BLOCKS,
    PACKAGE,
    check_architecture,
    further_metadata,
)
from p4engine.frontend import ast
from p4engine.frontend.checker.checker import Checker
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.types import Composite
from p4engine.middle.architecture import Architecture, BlockArgument, ExternShape, StageTrace

STD, REQ = "P->base.std.", "P->base.req."
ASKED = ("clone", "clone_session", "resubmit", "recirculate", "truncate", "failed")
REQUESTS = tuple(REQ + name for name in ASKED)


class V1Model(Architecture):
    """See docs/architectures.md."""

    name = "v1model"
    package = PACKAGE
    externs = {
        "register": ExternShape("register", ("size",)),
        "counter": ExternShape("counter", ("size", "type")),
        "direct_counter": ExternShape("direct_counter", ("type",)),
        "meter": ExternShape("meter", ("size", "type")),
        "direct_meter": ExternShape("direct_meter", ("type",)),
        "action_profile": ExternShape("action_profile", ("size",)),
        "action_selector": ExternShape("action_selector", ("algorithm", "size", "outputWidth")),
        "Checksum16": ExternShape("Checksum16"),
    }
    structs = {"standard_metadata_t": "p4_std"}
    controls = {"ingress": "ig", "egress": "eg"}
    arrival = ("std.ingress_port", "length", "std.instance_type")
    stages = {
        "p": StageTrace("parser", (f"{STD}ingress_port", "P->base.length", f"{STD}instance_type")),
        "vr": StageTrace("verify"),
        "ig": StageTrace("ingress", end=(f"{STD}egress_spec", f"{STD}mcast_grp", *REQUESTS)),
        "eg": StageTrace(
            "egress",
            (f"{STD}egress_port", f"{STD}egress_rid", f"{STD}instance_type"),
            (f"{STD}egress_spec", "0", *REQUESTS),
        ),
        "ck": StageTrace("update"),
        "dep": StageTrace(
            "deparser",
            end=("(uint64_t)(out - begin)", "P->base.payload_length", f"{REQ}truncate"),
        ),
    }

    def check(self, checker: Checker, diagnostics: Diagnostics) -> None:
        check_architecture(checker, diagnostics)

    def blocks(self, checker: Checker, diagnostics: Diagnostics) -> Sequence[BlockArgument]:
        assert checker.main.constructor is not None
        given = checker.main.constructor.arguments
        return [
            BlockArgument(name, value)
            for (name, _, _), (_, value) in zip(BLOCKS, given, strict=True)
        ]

    def member(self, type_: Composite, field: str) -> str:
        further = further_metadata(type_)
        return f"further[{further.index(field)}]" if field in further else field

    def digest(self, call: ast.ExternCall) -> ast.Expr | None:
        if call.decl.name != "digest" or isinstance(call, ast.MethodCall):
            return None
        return call.arguments[1][1]

    def emitter(self, parts: Any) -> Any:
        from p4engine.architectures.v1model.pipeline import PipelineEmitter

        return PipelineEmitter(parts)


ARCHITECTURE = V1Model()
