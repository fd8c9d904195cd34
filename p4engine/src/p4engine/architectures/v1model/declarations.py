"""Declarations of v1model that the engine relies on.

A program may bring a v1model.p4 or core.p4 of its own, newer or with additions. So the package,
the fields of standard_metadata_t, the errors and the enums that the generated code and the traffic
manager mean by name or number are compared with what the program declares.
"""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.checker import Checker
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.types import (
    BOOL,
    ERROR,
    Bits,
    BlockType,
    Composite,
    EnumType,
    Type,
    underlying,
    width_of,
)

PACKAGE = "V1Switch"
# The package's blocks: name, class of the declaration, number of parameters.
BLOCKS = (
    ("p", ast.Parser, 4),
    ("vr", ast.Control, 2),
    ("ig", ast.Control, 3),
    ("eg", ast.Control, 3),
    ("ck", ast.Control, 2),
    ("dep", ast.Control, 2),
)
QID = "qid"
# struct p4_std in p4rt.h.
STANDARD_METADATA: dict[str, Type] = {
    "ingress_port": Bits(9),
    "egress_spec": Bits(9),
    "egress_port": Bits(9),
    "instance_type": Bits(32),
    "packet_length": Bits(32),
    "enq_timestamp": Bits(32),
    "enq_qdepth": Bits(19),
    "deq_timedelta": Bits(32),
    "deq_qdepth": Bits(19),
    "ingress_global_timestamp": Bits(48),
    "egress_global_timestamp": Bits(48),
    "mcast_grp": Bits(16),
    "egress_rid": Bits(16),
    "checksum_error": Bits(1),
    "parser_error": ERROR,
    "priority": Bits(3),
    QID: Bits(8),  # only where a program's own v1model.p4 declares it, with any width up to 16
}
FURTHER_METADATA = 4  # P4_FURTHER_METADATA in p4rt.h
VERSIONS = (20180101, 20200408)  # of v1model, the first and the last
ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)
ENUMS = {
    "CounterType": ["packets", "bytes", "packets_and_bytes"],
    "MeterType": ["packets", "bytes"],
}


def further_metadata(type_: Composite) -> list[str]:
    """The fields of standard_metadata_t that v1model does not have, in their order."""
    return [name for name in type_.fields if name not in STANDARD_METADATA]


def check_architecture(checker: Checker, diagnostics: Diagnostics) -> None:
    """Report where the program's architecture is not the one that the engine implements."""
    main = checker.main
    assert isinstance(main.type, BlockType)
    package = main.type.decl
    declared = [
        (type(p.type.decl), len(p.type.decl.parameters))
        for p in package.parameters
        if isinstance(p.type, BlockType)
    ]
    if declared != [(kind, count) for _, kind, count in BLOCKS]:
        raise diagnostics.fatal(
            package.place, f"this package {PACKAGE} does not have the six blocks of v1model's"
        )
    _version(checker, diagnostics)
    _standard_metadata(checker, diagnostics)
    for name in ERRORS:
        if name not in checker.errors:
            diagnostics.error(package.place, f"core.p4 must declare error.{name}")
    if checker.errors.get("NoError", 0) != 0:
        diagnostics.error(package.place, "error.NoError must be the first error")
    for name, members in ENUMS.items():
        decl = checker.globals.find(name)
        known = decl.type if isinstance(decl, ast.Enum) else None
        if isinstance(known, EnumType) and list(known.members)[: len(members)] != members:
            assert isinstance(decl, ast.Enum)
            diagnostics.error(
                decl.place, f"enum {name} must begin with the members {', '.join(members)}"
            )


def _version(checker: Checker, diagnostics: Diagnostics) -> None:
    decl = checker.globals.find("__v1model_version")
    version = decl.const if isinstance(decl, ast.Constant) else None
    if isinstance(version, int) and not VERSIONS[0] <= version <= VERSIONS[1]:
        diagnostics.error(
            checker.main.place,
            f"V1MODEL_VERSION is {version}; it must be from {VERSIONS[0]} to {VERSIONS[1]}",
        )


def _standard_metadata(checker: Checker, diagnostics: Diagnostics) -> None:
    decl = checker.globals.find("standard_metadata_t")
    if not isinstance(decl, ast.Composite) or not isinstance(decl.type, Composite):
        place = checker.main.place
        raise diagnostics.fatal(place, "v1model.p4 must declare the struct standard_metadata_t")
    places = {f.name: f.place for f in decl.fields}
    further = further_metadata(decl.type)
    for name, type_ in decl.type.fields.items():
        want = STANDARD_METADATA.get(name)
        if name == QID and isinstance(type_, Bits) and not type_.signed and type_.width <= 16:
            want = type_
        if want is not None and underlying(type_) != want:
            diagnostics.error(
                places[name], f"standard_metadata_t.{name} must be {want}, not {type_}"
            )
        under = underlying(type_)
        scalar = isinstance(under, Bits | EnumType) or under in (BOOL, ERROR)
        if want is None and not (scalar and (width_of(under) or 0) <= 64):
            diagnostics.error(
                places[name],
                f"standard_metadata_t.{name} is not one of v1model's fields; its type can be an"
                f" integer of at most 64 bits, bool, error or an enum, but not {type_}",
            )
    if len(further) > FURTHER_METADATA:
        diagnostics.error(
            places[further[FURTHER_METADATA]],
            f"standard_metadata_t can have {FURTHER_METADATA} fields beyond v1model's",
        )
