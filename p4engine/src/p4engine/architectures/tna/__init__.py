"""TNA, the architecture of the first Tofino, and what that of the second has in common with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from p4engine.architectures.tna.declarations import (
    BLOCKS,
    PARSER_ERRORS,
    add_port_metadata,
    add_positions,
    check_actions,
    check_architecture,
    pipelines,
    pipes_of,
)
from p4engine.architectures.tna.filters import add_direct_registers, add_registers
from p4engine.frontend import ast
from p4engine.frontend.checker.checker import Checker
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.types import Bits, Composite, Type, underlying
from p4engine.middle.architecture import Architecture, BlockArgument, ExternShape, StageTrace
from p4engine.middle.instantiate import ExternInstance

WIDTHS = (1, 8, 16, 32, 64)  # of what one access to a register can work on
STD, REQ = "P->base.std.", "P->base.req."


class Tna(Architecture):
    """See docs/tna.md."""

    name = "tna"
    package = "Switch"
    externs = {
        "Register": ExternShape("register", ("size",)),
        "RegisterAction": ExternShape("RegisterAction", ("reg",)),
        "RegisterParam": ExternShape("register", ("initial_value",)),
        "DirectRegister": ExternShape("direct_register"),
        "DirectRegisterAction": ExternShape("DirectRegisterAction", ("reg",)),
        "Counter": ExternShape("counter", ("size", "type")),
        "DirectCounter": ExternShape("direct_counter", ("type",)),
        "Meter": ExternShape("meter", ("size", "type")),
        "DirectMeter": ExternShape("direct_meter", ("type",)),
        "ActionProfile": ExternShape("action_profile", ("size",)),
        "ActionSelector": ExternShape("action_selector", ("hash", "mode")),
        "SelectorAction": ExternShape("SelectorAction", ("sel",)),
        "Hash": ExternShape("Hash", ("algo",)),
        "CRCPolynomial": ExternShape("CRCPolynomial", ("coeff",)),
        "Random": ExternShape("Random"),
        "MathUnit": ExternShape("MathUnit"),
        "Lpf": ExternShape("Lpf", ("size",)),
        "Wred": ExternShape("Wred", ("size", "drop_value", "no_drop_value")),
        "DirectLpf": ExternShape("DirectLpf"),
        "DirectWred": ExternShape("DirectWred", ("drop_value", "no_drop_value")),
        "Checksum": ExternShape("Checksum"),
        "ParserCounter": ExternShape("ParserCounter"),
        "ParserPriority": ExternShape("ParserPriority"),
        "Mirror": ExternShape("Mirror"),
        "Resubmit": ExternShape("Resubmit"),
        "Digest": ExternShape("Digest"),
        "Atcam": ExternShape("Atcam"),
        "Alpm": ExternShape("Alpm"),
    }
    # What programs can name and the engine does not do: fields of intrinsic metadata.
    undone: ClassVar[frozenset[str]] = frozenset()
    port_metadata_bits: ClassVar[int] = 64
    controls = {"ingress": "ig", "egress": "eg"}
    match_kinds = {"atcam_partition_index": "exact"}
    table_hints = frozenset({"Atcam", "Alpm"})
    more_of_packet = "if (!tna_more(&P->base, &p, &end, {size})) "
    offset_in_packet = "(size_t)({start} - first)"
    no_match_is_error = True
    profile_defaults = True
    arrival = ("std.ingress_port", "length", "std.resubmit_flag * 6")
    stages = {
        "ip": StageTrace(
            "parser", (f"{STD}ingress_port", "P->base.length", f"{STD}resubmit_flag * 6")
        ),
        "ig": StageTrace(
            "ingress",
            end=(f"{STD}egress_port", f"{STD}mcast_grp_a", "0", "0", "0", "0", "0", f"{REQ}failed"),
        ),
        "id": StageTrace(
            "ingress deparser", end=("(uint64_t)(out - begin)", "P->base.payload_length", "0")
        ),
        "ep": StageTrace("egress parser", (f"{STD}egress_port", "P->base.length", "0")),
        "eg": StageTrace(
            "egress",
            (f"{STD}egress_port", f"{STD}egress_rid", "0"),
            (f"{STD}drop_ctl & 1 ? 511 : {STD}egress_port", "0", "0", "0", "0", "0", "0")
            + (f"{REQ}failed",),
        ),
        "ed": StageTrace(
            "deparser", end=("(uint64_t)(out - begin)", "P->base.payload_length", "0")
        ),
    }

    def check(self, checker: Checker, diagnostics: Diagnostics) -> None:
        check_architecture(checker, diagnostics, self.undone)

    def blocks(self, checker: Checker, diagnostics: Diagnostics) -> Sequence[BlockArgument]:
        made = []
        found = pipelines(checker, diagnostics)
        for number, (pipe, construction) in enumerate(found):
            prefix = f"{pipe}." if len(found) > 1 else ""
            given = [value for _, value in construction.arguments if value is not None]
            for (name, _), value in zip(BLOCKS, given, strict=True):
                made.append(BlockArgument(name + (f"_{number}" if number else ""), value, prefix))
        return made

    def parser_error(self, name: str, errors: Mapping[str, int]) -> int:
        return PARSER_ERRORS[name]

    def register_problem(self, element: Type) -> str | None:
        under = underlying(element)
        parts = list(under.fields.values()) if isinstance(under, Composite) else [under]
        plain = [underlying(part) for part in parts]
        good = all(isinstance(part, Bits) and part.width in WIDTHS for part in plain)
        if good and 1 <= len(plain) <= 2 and len(set(plain)) == 1:
            return None
        return (
            f"a register of {element} is not possible: an element is a number of"
            f" {', '.join(map(str, WIDTHS))} bits, or a struct of two equal ones"
        )

    def complete(self, made: Any, instances: Any) -> None:
        if made.type.decl.name == "Register":
            made.arguments["size"] = made.size * pipes_of(instances.checker)
        if made.type.decl.name == "RegisterParam":
            made.arguments["size"] = 1
        if made.arguments.get("true_egress_accounting"):
            instances.diagnostics.error(made.place, "true_egress_accounting is not supported")
        if made.kind in ("Lpf", "Wred"):
            add_registers(made, instances, made.size * pipes_of(instances.checker))
        selector = made.arguments.get("sel")
        if isinstance(selector, ExternInstance):
            made.arguments["reg"] = selector.arguments.get("reg")
        register = made.arguments.get("reg")
        if made.kind == "action_selector" and isinstance(register, ExternInstance):
            register.arguments["initial_value"] = (
                1  # members are there until a bit says they are not
            )
        if made.kind == "direct_register":
            problem = self.register_problem(made.type.arguments[0])
            if problem is not None:
                instances.diagnostics.error(made.place, problem)
        profile = made.arguments.get("action_profile")
        if made.kind == "action_selector" and profile is not None:
            made.arguments["size"] = profile.size
            instances.externs["action_profile"].remove(profile)  # the selector stands for both

    def add(self, instances: Any) -> None:
        check_actions(instances)
        add_positions(instances)
        add_direct_registers(instances, pipes_of(instances.checker))
        add_port_metadata(instances, self.port_metadata_bits)

    def digest(self, call: ast.ExternCall) -> ast.Expr | None:
        is_digest = isinstance(call, ast.MethodCall) and call.extern.name == "Digest"
        return call.arguments[0][1] if is_digest and call.decl.name == "pack" else None

    def digest_name(
        self, call: ast.ExternCall, name_of: Callable[[ast.Expr], str | None]
    ) -> str | None:
        assert isinstance(call, ast.MethodCall)
        return name_of(call.receiver)

    def emitter(self, parts: Any) -> Any:
        from p4engine.architectures.tna.pipeline import PipelineEmitter

        return PipelineEmitter(parts, self.port_metadata_bits)


ARCHITECTURE = Tna()
