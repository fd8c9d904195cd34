"""Declarations of TNA that the engine relies on, and the pipelines of a program."""

from __future__ import annotations

from collections.abc import Collection

from p4engine.frontend import ast
from p4engine.frontend.checker.check_usage import children
from p4engine.frontend.checker.checker import Checker
from p4engine.frontend.diagnostics import Diagnostics, Place
from p4engine.frontend.types import Bits, BlockType, Composite, ExternType, Type
from p4engine.middle.instantiate import ExternInstance, Instances, Value

# The blocks of a pipeline in the order of the package: name, class of the declaration.
BLOCKS: tuple[tuple[str, type[ast.Decl]], ...] = (
    ("ip", ast.Parser),
    ("ig", ast.Control),
    ("id", ast.Control),
    ("ep", ast.Parser),
    ("eg", ast.Control),
    ("ed", ast.Control),
)
# The types of the blocks' parameters behind the packet, the headers and the program's metadata.
INTRINSIC = {
    "ip": (
        "ingress_intrinsic_metadata_t",
        "ingress_intrinsic_metadata_for_tm_t",
        "ingress_intrinsic_metadata_from_parser_t",
    ),
    "ig": (
        "ingress_intrinsic_metadata_t",
        "ingress_intrinsic_metadata_from_parser_t",
        "ingress_intrinsic_metadata_for_deparser_t",
        "ingress_intrinsic_metadata_for_tm_t",
    ),
    "id": ("ingress_intrinsic_metadata_for_deparser_t", "ingress_intrinsic_metadata_t"),
    "ep": (
        "egress_intrinsic_metadata_t",
        "egress_intrinsic_metadata_from_parser_t",
        "egress_intrinsic_metadata_for_deparser_t",
    ),
    "eg": (
        "egress_intrinsic_metadata_t",
        "egress_intrinsic_metadata_from_parser_t",
        "egress_intrinsic_metadata_for_deparser_t",
        "egress_intrinsic_metadata_for_output_port_t",
    ),
    "ed": (
        "egress_intrinsic_metadata_for_deparser_t",
        "egress_intrinsic_metadata_t",
        "egress_intrinsic_metadata_from_parser_t",
    ),
}
PORT_METADATA, PORTS = "$PORT_METADATA", 512
PIPES = (1, 2, 4)
# Methods of actions that need no index, and the registers with the places that they work at.
POSITIONS = {
    "execute_log": ("next",),
    "enqueue": ("first", "count"),
    "dequeue": ("first", "count"),
    "push": ("count",),
    "pop": ("count",),
}
INGRESS = INTRINSIC["ig"]
EGRESS = INTRINSIC["eg"]
# The bits of parser_err for the errors of core.p4.
PARSER_ERRORS = {
    "NoError": 0,
    "PacketTooShort": 0x02,
    "NoMatch": 0x01,
    "StackOutOfBounds": 0x40,
    "HeaderTooShort": 0x40,
    "ParserTimeout": 0x10,
    "ParserInvalidArgument": 0x20,
    "CounterRange": 0x04,
}


def check_architecture(checker: Checker, diagnostics: Diagnostics, undone: Collection[str]) -> None:
    """Report where the program's architecture is not the one that the engine implements, and uses
    of the fields of intrinsic metadata that it does not: `undone`."""
    for name in dict.fromkeys((*INGRESS, *EGRESS)):
        if not isinstance(intrinsic(checker, name), Composite):
            diagnostics.error(checker.main.place, f"tna.p4 must declare {name}")
    for name in PARSER_ERRORS:
        if name not in checker.errors:
            diagnostics.error(checker.main.place, f"core.p4 must declare error.{name}")
    if pipes_of(checker) not in PIPES:
        diagnostics.error(
            checker.main.place, f"TNA_PIPES is {pipes_of(checker)}; it must be 1, 2 or 4"
        )
    for name, pipe in pipelines(checker, diagnostics):
        decls = [
            value.type.decl
            for _, value in pipe.arguments
            if value is not None and isinstance(value.type, BlockType)
        ]
        kinds = [type(decl) for decl in decls]
        if len(kinds) > len(BLOCKS):
            raise diagnostics.fatal(
                pipe.place, f"'{name}' has a ghost thread, which is not supported"
            )
        if kinds != [kind for _, kind in BLOCKS]:
            raise diagnostics.fatal(
                pipe.place, f"'{name}' does not have the six blocks of tna.p4's Pipeline"
            )
        for decl, (block, _) in zip(decls, BLOCKS, strict=True):
            known = len(INTRINSIC[block]) + (2 if block in ("ig", "eg") else 3)
            if len(decl.parameters) > known:
                more = decl.parameters[known]
                diagnostics.error(more.place, f"'{more.name}' is not supported: {more.type}")
    for declared in checker.globals.names.values() if undone else ():
        if isinstance(declared, ast.Parser | ast.Control):
            _report(declared, undone, diagnostics)


def _report(node: ast.Node, undone: Collection[str], diagnostics: Diagnostics) -> None:
    """Report each use of a field that is not there."""
    todo: list[ast.Node] = [node]
    while todo:
        each = todo.pop()
        todo += children(each)
        of_deparser = isinstance(each, ast.Member) and str(each.base.type).endswith(
            "gress_intrinsic_metadata_for_deparser_t"
        )
        if of_deparser and isinstance(each, ast.Member) and each.name in undone:
            diagnostics.error(each.place, f"{each.name} is not supported")


def add_port_metadata(instances: Instances, bits: int) -> None:
    """Add a register with port metadata for the control plane, if the program unpacks them."""
    found = [b for b in instances.blocks.values() if calls(b.decl, "port_metadata_unpack")]
    if found:
        add_register(instances, PORT_METADATA, bits, PORTS, found[0].decl.place)


def add_register(
    instances: Instances, name: str, bits: int, size: int, place: Place
) -> ExternInstance | None:
    """Make a register of numbers that the program does not have; None: tna.p4 declares none."""
    decl = instances.checker.globals.find("Register")
    if not isinstance(decl, ast.ExternObject):
        return None
    known = instances.externs.setdefault("register", [])
    given: dict[str, Value] = {"size": size}
    type_ = ExternType(decl, (Bits(bits), Bits(32)))
    made = ExternInstance("register", name, type_, given, len(known), place)
    known.append(made)
    return made


def add_positions(instances: Instances) -> None:
    """Add registers for positions: if the program executes at an index of its own, each register of
    an action has others for that, such as `NAME.next`."""
    used = {
        name
        for method, names in POSITIONS.items()
        if any(calls(block.decl, method) for block in instances.all_blocks)
        for name in names
    }
    for action in instances.externs.get("RegisterAction", []):
        register = action.arguments["reg"]
        assert isinstance(register, ExternInstance)
        for name in sorted(used - set(register.arguments)):
            own, pipes = f"{register.name}.{name}", pipes_of(instances.checker)
            made = add_register(instances, own, 32, pipes, register.place)
            register.arguments[name] = made


def check_actions(instances: Instances) -> None:
    """Report register actions that execute one: an access to a register is all that one does."""
    for kind in ("RegisterAction", "DirectRegisterAction", "SelectorAction"):
        for action in instances.externs.get(kind, []):
            if any(calls(body, "execute", "MathUnit") for body in action.bodies.values()):
                instances.diagnostics.error(
                    action.place, f"{action.name} can execute nothing in its own method"
                )


def port_metadata(instances: Instances) -> ExternInstance | None:
    """The register of `add_port_metadata`."""
    known = instances.externs.get("register", [])
    return next((each for each in known if each.name == PORT_METADATA), None)


def calls(node: ast.Node, function: str, besides: str = "") -> bool:
    """True if the program text below `node` calls an extern function or a method of that name, one
    of `besides` aside."""
    todo: list[ast.Node] = [node]
    while todo:
        each = todo.pop()
        made = each.call if isinstance(each, ast.Call) else None
        if isinstance(made, ast.ExternCall) and made.decl.name == function:
            of = made.extern.name if isinstance(made, ast.MethodCall) else ""
            if not besides or of != besides:
                return True
        todo += children(each)
    return False


def pipes_of(checker: Checker) -> int:
    """Number of pipes with registers of their own (TNA_PIPES)."""
    decl = checker.globals.find("__tna_pipes")
    number = decl.const if isinstance(decl, ast.Constant) else 1
    return number if isinstance(number, int) else 1


def intrinsic(checker: Checker, name: str) -> Type | None:
    """The type of that name at the top level."""
    decl = checker.globals.find(name)
    return decl.type if isinstance(decl, ast.Composite) else None


def pipelines(checker: Checker, diagnostics: Diagnostics) -> list[tuple[str, ast.Construction]]:
    """The pipelines that `main` is made of, by the number of the pipe: a name of its own, and how
    it is made. Raises Fatal."""
    assert checker.main.constructor is not None
    found: dict[str, ast.Construction] = {}
    for parameter, value in checker.main.constructor.arguments:
        if value is None:
            continue
        name, made = parameter.name, None
        if isinstance(value, ast.Name) and isinstance(value.decl, ast.Instance):
            name, made = value.name, value.decl.constructor
        elif isinstance(value, ast.Call) and isinstance(value.call, ast.Construction):
            made = value.call
        if made is None:
            raise diagnostics.fatal(
                value.place, "Switch needs instances of Pipeline, such as Switch(pipe) main;"
            )
        found[name if name not in found else f"{name}_{len(found)}"] = made
    return list(found.items())
