"""One access to a register per packet and gress, as the hardware has it.

Where it can be seen in the program that a packet makes two, that is an error at compile time: an
access that every packet makes that comes there, and another one before or behind it. Where two
accesses depend on different conditions, the program may know that only one of them holds; then the
generated code looks whether the packet has made one before.
"""

from __future__ import annotations

from dataclasses import dataclass

from p4engine.architectures.tna.declarations import POSITIONS
from p4engine.backend.context import Context
from p4engine.frontend import ast
from p4engine.frontend.checker.check_usage import children
from p4engine.frontend.diagnostics import Place
from p4engine.middle.instantiate import BlockInstance, ExternInstance, Member

# Methods of registers and of their actions.
ACCESSES = frozenset(("read", "write", "execute", "clear", "sweep", *POSITIONS))
GRESSES = {"i": ("ip", "ig", "id"), "e": ("ep", "eg", "ed")}


@dataclass
class Found:
    """The fewest and the most accesses to a register of packets that go on behind a piece of the
    program (None: none go on), the most of any, and where one is."""

    goes_on: tuple[int, int] | None = (0, 0)
    most: int = 0
    place: Place | None = None


class Accesses:
    """Counts accesses, and writes the look for a second one where it is needed."""

    def __init__(self, context: Context) -> None:
        self.context = context
        registers = context.instances.externs.get("register", [])
        self.watched: list[ExternInstance] = []
        for register in registers:
            if register.type.decl.name != "Register":
                continue
            found = {gress: self._most(register, names) for gress, names in GRESSES.items()}
            gresses = [gress for gress, most in found.items() if most]
            if len(gresses) > 1:
                context.diagnostics.error(
                    register.place,
                    f"register {register.name} is accessed in ingress and in egress; it belongs to"
                    " one of them",
                )
            if max(found.values()) > 1:
                self.watched.append(register)

    def members(self) -> str:
        """C members of a gress's state."""
        return f"uint8_t accessed[{len(self.watched)}];" if self.watched else ""

    def check(self, register: ExternInstance, place: Place) -> None:
        """Write the look for a second access, if there can be one."""
        if register not in self.watched:
            return
        context = self.context
        flag = f"{context.gress}accessed[{self.watched.index(register)}]"
        leave = context.goto(context.frame.exit_label or "reject")
        text = f"register {register.name} is accessed twice by one packet (line {place.line})"
        context.out.append(f'if ({flag}) {{ p4_failed(I, &P->base, "{text}"); {leave} }}')
        context.out.append(f"{flag} = 1;")

    # ---- counting ----

    def _most(self, register: ExternInstance, names: tuple[str, ...]) -> int:
        total = Found()
        for name, block in self.context.instances.blocks.items():
            if name.partition("_")[0] in names:
                total = _then(total, _Counter(self, register).block(block))
        return total.most

    def twice(self, register: ExternInstance, place: Place) -> None:
        """Report that a packet accesses a register twice."""
        self.context.diagnostics.error(
            place,
            f"register {register.name} is accessed a second time here; a packet can access a"
            " register once in a gress",
        )


def _then(a: Found, b: Found) -> Found:
    """Sequence of parts."""
    if a.goes_on is None:
        return a
    least, most = a.goes_on
    goes_on = None if b.goes_on is None else (least + b.goes_on[0], most + b.goes_on[1])
    return Found(goes_on, max(a.most, most + b.most), b.place or a.place)


def _either(ways: list[Found]) -> Found:
    """One of several ways."""
    going = [way.goes_on for way in ways if way.goes_on is not None]
    goes_on = (min(g[0] for g in going), max(g[1] for g in going)) if going else None
    place = next((way.place for way in ways if way.place is not None), None)
    return Found(goes_on, max((way.most for way in ways), default=0), place)


class _Counter:
    """Counts the accesses to one register in a block."""

    def __init__(self, accesses: Accesses, register: ExternInstance) -> None:
        self.accesses, self.register = accesses, register
        self.instances = accesses.context.instances
        self.blocks: list[BlockInstance] = []
        self.arguments: dict[int, ast.Expr | None] = {}

    def block(self, block: BlockInstance) -> Found:
        self.blocks.append(block)
        if isinstance(block.decl, ast.Parser):  # paths with loops: the states' sum
            found = [self._sequence(state.statements) for state in block.decl.states]
            made = Found((0, sum(f.most for f in found)), sum(f.most for f in found))
        else:
            locals_ = [d for d in block.decl.locals if isinstance(d, ast.Variable)]
            made = self._sequence([*locals_, *block.decl.statements])
        self.blocks.pop()
        # Behind a return or an exit of this block, the packet goes on with the next one.
        return Found(made.goes_on or (0, made.most), made.most, made.place)

    def _sequence(self, nodes: list[ast.Node]) -> Found:
        total = Found()
        for node in nodes:
            found = self._node(node)
            if total.goes_on is not None:
                least, most = total.goes_on
                behind = found.goes_on[0] if found.goes_on is not None else found.most
                if (least and found.most) or (most and behind):
                    self.accesses.twice(self.register, found.place or node.place)
            total = _then(total, found)
        return total

    def _node(self, node: ast.Node) -> Found:
        if isinstance(node, ast.If):
            if node.condition.const is not None:
                chosen = node.yes if node.condition.const else node.no
                return self._node(chosen) if chosen is not None else Found()
            branches = [self._node(node.yes), self._node(node.no) if node.no else Found()]
            return _then(self._node(node.condition), _either(branches))
        if isinstance(node, ast.Switch):
            cases = [self._sequence(c.body.statements) for c in node.cases if c.body is not None]
            return _then(self._node(node.value), _either([*cases, Found()]))
        if isinstance(node, ast.Block):
            return self._sequence(node.statements)
        if isinstance(node, ast.Return | ast.Exit):
            found = self._node(node.value) if isinstance(node, ast.Return) and node.value else None
            most = found.most if found is not None else 0
            return Found(None, most, found.place if found is not None else None)
        if isinstance(node, ast.Binary) and node.op in ("&&", "||"):
            right = self._node(node.right)
            return _then(self._node(node.left), _either([right, Found()]))
        if isinstance(node, ast.Ternary):
            ways = _either([self._node(node.yes), self._node(node.no)])
            return _then(self._node(node.condition), ways)
        if isinstance(node, ast.Call) and node.call is not None:
            return self._call(node.call, node.place)
        return self._children(children(node))

    def _children(self, nodes: list[ast.Node]) -> Found:
        return self._sequence([node for node in nodes if not isinstance(node, ast.Annotation)])

    def _call(self, call: ast.CallInfo, place: Place) -> Found:
        total = self._children([value for _, value in call.arguments if value is not None])
        if isinstance(call, ast.MethodCall):
            made = self._instance(call.receiver)
            if isinstance(made, ExternInstance):
                target = made.arguments.get("reg", made)
                if target is self.register and call.decl.name in ACCESSES:
                    total = _then(total, Found((1, 1), 1, place))
        elif isinstance(call, ast.FunctionCall):
            total = _then(total, _returned(self._sequence(call.decl.statements)))
        elif isinstance(call, ast.ActionCall):
            total = _then(total, _returned(self._sequence(call.decl.body.statements)))
        elif isinstance(call, ast.TableCall):
            ways = []
            for ref in call.decl.info.actions:
                if ref.decl is not None:
                    ways.append(_returned(self._sequence(ref.decl.body.statements)))
            keys = self._children([key.value for key in call.decl.info.keys])
            total = _then(_then(total, keys), _either(ways or [Found()]))
            total.place = place if total.most else None
        elif isinstance(call, ast.BlockCall):
            block = self._applied(call)
            if block is not None:
                for parameter, (_, value) in zip(
                    block.decl.parameters, call.arguments, strict=False
                ):
                    self.arguments[id(parameter)] = value
                inner = self.block(block)
                inner.place = place if inner.most else None
                total = _then(total, inner)
        return total

    def _applied(self, call: ast.BlockCall) -> BlockInstance | None:
        if call.receiver is None:
            return self.instances.apply_direct(call, self.blocks[-1])
        found = self._instance(call.receiver)
        return found if isinstance(found, BlockInstance) else None

    def _instance(self, e: ast.Expr | None) -> Member | None:
        while isinstance(e, ast.Name) and id(e.decl) in self.arguments:
            e = self.arguments[id(e.decl)]
        if not isinstance(e, ast.Name):
            return None
        for block in reversed(self.blocks):
            for known in (block.members, block.values):
                found = known.get(id(e.decl))
                if isinstance(found, Member):
                    return found
        return self.instances.global_externs.get(id(e.decl))


def _returned(found: Found) -> Found:
    """Behind the body of a callee: who has left it goes on as well (an exit is rare enough)."""
    return Found(found.goes_on or (0, found.most), found.most, found.place)
