"""The pipeline of TNA to C: six functions for each pipeline of the program, and the entry points
that choose between pipelines by the packet's port."""

from __future__ import annotations

from p4engine.architectures.tna.accesses import Accesses
from p4engine.architectures.tna.arithmetic import ArithmeticEmitter
from p4engine.architectures.tna.arrays import ArrayEmitter
from p4engine.architectures.tna.declarations import (
    EGRESS,
    INGRESS,
    INTRINSIC,
    intrinsic,
    port_metadata,
)
from p4engine.architectures.tna.filters import FilterEmitter
from p4engine.architectures.tna.math_units import MathEmitter
from p4engine.architectures.tna.parsing import ParsingEmitter
from p4engine.architectures.tna.requests import RequestEmitter
from p4engine.architectures.tna.uses import Uses
from p4engine.backend.emit_architecture import Functions, Parts
from p4engine.backend.emit_fields import Fields
from p4engine.frontend import ast
from p4engine.frontend.checker.check_usage import children
from p4engine.frontend.types import Bits, Composite, Type, underlying
from p4engine.middle.instantiate import ExternInstance, TableInstance

# The C member of a gress's state for each intrinsic struct, by what its name ends in.
MEMBERS = {
    "_for_tm_t": "tm",
    "_from_parser_t": "prsr",
    "_for_deparser_t": "dprsr",
    "_for_output_port_t": "oport",
    "": "md",
}
STD = "P->base.std."
# What the headers in front of a packet hold: C by the field's name. All other fields are 0.
INGRESS_FIELDS = {
    "resubmit_flag": f"{STD}resubmit_flag",
    "ingress_port": f"{STD}ingress_port",
    "ingress_mac_tstamp": f"{STD}ingress_time",
}
EGRESS_FIELDS = {
    "egress_port": f"{STD}egress_port",
    "enq_qdepth": f"{STD}enq_qdepth",
    "enq_tstamp": f"{STD}enq_timestamp",
    "deq_qdepth": f"{STD}deq_qdepth",
    "deq_timedelta": f"{STD}deq_timedelta",
    "egress_rid": f"{STD}egress_rid",
    "egress_rid_first": f"{STD}rid_first",
    "egress_qid": f"{STD}qid",
    "deflection_flag": f"{STD}deflected",
    "pkt_length": "P->base.length",
}
# Where the traffic manager finds what ingress leaves for it.
FOR_TM = {
    "ucast_egress_port": "egress_port",
    "bypass_egress": "bypass_egress",
    "qid": "priority",
    "copy_to_cpu": "copy_to_cpu",
    "deflect_on_drop": "deflect",
    "mcast_grp_a": "mcast_grp_a",
    "mcast_grp_b": "mcast_grp_b",
    "level1_exclusion_id": "node_exclusion",
    "level2_exclusion_id": "exclusion",
    "rid": "rid",
}
FOR_DEPARSER = {"drop_ctl": "drop_ctl", "mirror_io_select": "mirror_leaving"}
TYPES = ("mirror_type", "resubmit_type", "digest_type")  # what the deparsers do, if they are set
NOT_SET = 0xFF  # no value of a field of TYPES
WORD = 8  # bytes of resubmit data


def member_of(name: str) -> str:
    """The C member for an intrinsic struct."""
    return next(member for end, member in MEMBERS.items() if name.endswith(end))


class PipelineEmitter:
    """The C of a program for Switch. Port metadata have `port_metadata_bits`."""

    counts_hits = False
    c_headers = ("../tna/tna.h",)

    def __init__(self, parts: Parts, port_metadata_bits: int) -> None:
        self.parts, self.context = parts, parts.context
        self.port_metadata_bits = port_metadata_bits
        self.blocks = parts.context.instances.blocks
        self.pipes = len(self.blocks) // len(INTRINSIC)
        self.headers: list[Type] = []
        self.metadata: list[Type] = []
        for name in ("ip", "ep"):
            for number in range(self.pipes):
                parameters = self.blocks[_named(name, number)].decl.parameters
                self.headers.append(parameters[1].type)
                self.metadata.append(parameters[2].type)
        self.accesses = Accesses(parts.context)
        self.arithmetic = ArithmeticEmitter(parts)
        self.parsing = ParsingEmitter(parts, port_metadata_bits)
        self.arrays = ArrayEmitter(parts, self.accesses)
        self.functions: Functions = {
            **self.arrays.functions,
            **FilterEmitter(parts, self.arrays).functions,
            **MathEmitter(parts).functions,
            **self.arithmetic.functions,
            **self.parsing.functions,
            **RequestEmitter(parts).functions,
            "packet_in.extract": self._extract,
            "packet_in.advance": self._advance,
        }
        # The extraction of the header in front of the packet that a parser begins with, if it does:
        # (the call, the fields); then the header need not be made to be read. The same of what is
        # behind it, if the parser skips that.
        self._first: tuple[ast.CallInfo, dict[str, str]] | None = None
        self._second: ast.CallInfo | None = None
        self.uses = Uses(parts.context.checker)
        every = parts.context.instances.all_blocks
        # The hardware knows whether a type was set. A program sees that only where it does
        # something for the type 0.
        self.not_set = [f for f in TYPES if any(_compares_with_0(b.decl, f) for b in every)]
        self.sees_errors = any(_mentions(block.decl, "parser_err") for block in every)

    def selector_hash(self, table: TableInstance, keys: Fields) -> str:
        assert table.profile is not None
        chosen = table.profile.arguments.get("hash")
        assert isinstance(chosen, ExternInstance)
        leaves: list[tuple[str, Type]] = []
        for text, type_ in keys:
            leaves += self.parts.composites.leaves(text, type_)
        return self.arithmetic.hash(chosen, leaves, 32, table.decl.place)

    def alive(self, table: TableInstance) -> str:
        assert table.profile is not None
        return self.arrays.alive(table.profile)

    # ---- the packet's state ----

    def state(self) -> str:
        made = []
        for gress, parser, structs in (("i", "ip", INGRESS), ("e", "ep", EGRESS)):
            for number in range(self.pipes):
                decl = self.blocks[_named(parser, number)].decl
                c_type = self.context.layout.c_type
                members = [
                    f"{c_type(decl.parameters[2].type)} m;",
                    f"{c_type(decl.parameters[1].type)} h;",
                    *(f"{c_type(self._struct(name))} {member_of(name)};" for name in structs),
                    self.parsing.members(),
                    self.accesses.members(),
                ]
                made.append(f"struct {{ {' '.join(members)} }} {gress}{number};")
        return " ".join(made)

    def _struct(self, name: str) -> Composite:
        found = intrinsic(self.context.checker, name)
        assert isinstance(found, Composite)
        return found

    def _member(self, base: str, struct: str, field: str) -> str | None:
        """The C of a field of an intrinsic struct; None: the program's has none."""
        type_ = self._struct(struct)
        if field not in type_.fields:
            return None
        return f"{base}{member_of(struct)}.{self.context.layout.member(type_, field)}"

    # ---- stages ----

    def _stage(self, name: str, number: int, behind: str = "") -> str:
        base = f"P->{'i' if name in ('ip', 'ig', 'id') else 'e'}{number}."
        block = self.blocks[_named(name, number)]
        self.context.gress = base
        bindings = [f"{base}h", f"{base}m", *(base + member_of(s) for s in INTRINSIC[name])]
        if name not in ("ig", "eg"):
            bindings.insert(0, "")
        bindings = bindings[: len(block.decl.parameters)]
        return self.parts.stages.stage(_named(name, number), block, bindings, behind)

    def _extract(
        self, call: ast.MethodCall, header: ast.Expr, bits: ast.Expr | None = None
    ) -> None:
        if self._first is None or call is not self._first[0]:
            self.parts.packets.extract(call, header, bits)
            return
        name, type_ = self.parts.left.left(header), underlying(header.type)
        for text, field in self._fields(header.type, self._first[1]):
            if text != "0" and self._sees(type_, field):  # others are 0 already
                part = self.parts.composites.part(name, type_, field)
                self.context.out.append(f"{part} = {text};")
        self.context.out.append(f"{name}.valid = 1;")

    def _advance(self, call: ast.MethodCall, bits: ast.Expr) -> None:
        if call is not self._second:
            self.parts.packets.advance(call, bits)

    def _begins_with(self, decl: ast.Parser, struct: str) -> ast.CallInfo | None:
        """The call by which the parser extracts the header in front of the packet, if that is the
        first it does, and it does not begin again. `_second` becomes the call by which it skips
        all port metadata behind it."""
        self._second = None
        start = next(state for state in decl.states if state.name == "start")
        first = start.statements[0] if start.statements else None
        targets = [state.transition for state in decl.states]
        again = any(
            isinstance(t, ast.Name)
            and t.name == "start"
            or isinstance(t, ast.Select)
            and any(case.state == "start" for case in t.cases)
            for t in targets
        )
        if again or not isinstance(first, ast.CallStatement) or self.context.trace.headers:
            return None
        call = first.call.call
        if not isinstance(call, ast.MethodCall) or call.decl.name != "extract":
            return None
        header = call.arguments[0][1]
        same = header is not None and underlying(header.type) is self._struct(struct)
        if not same or header is None or not self._is_parameter(header):
            return None
        second = start.statements[1] if len(start.statements) > 1 else None
        skip = second.call.call if isinstance(second, ast.CallStatement) else None
        if isinstance(skip, ast.MethodCall) and skip.decl.name == "advance":
            bits = skip.arguments[0][1]
            self._second = skip if bits and bits.const == self.port_metadata_bits else None
        return call

    @staticmethod
    def _is_parameter(e: ast.Expr) -> bool:
        return isinstance(e, ast.Name) and isinstance(e.decl, ast.Parameter)

    def _sees(self, type_: Type, field: str) -> bool:
        """Can the program, or a trace, see a field of an intrinsic struct?"""
        assert isinstance(type_, Composite)
        return bool(self.context.trace.headers) or self.uses.has(type_, field)

    def _seen(self, base: str, struct: str, field: str) -> str | None:
        """The C of a field of an intrinsic struct that the program can see."""
        text = self._member(base, struct, field)
        return text if text is not None and self._sees(self._struct(struct), field) else None

    def _prefix(self, struct: str, values: dict[str, str], more: int) -> tuple[str, int]:
        """(C statements, bytes) of the header in front of the packet, as a local array."""
        type_of = self._struct(struct).fields
        fields = [
            (text, type_of[name]) for text, name in self._fields(self._struct(struct), values)
        ]
        stores, bits = self.parts.fields.stores(fields, "prefix")
        size = bits // 8 + more
        return f"uint8_t prefix[{size}];\n" + "\n".join(stores), size

    def _fields(self, header: Type, values: dict[str, str]) -> list[tuple[str, str]]:
        """(C expression, name) of the fields of the header in front of the packet."""
        found = []
        type_ = underlying(header)
        assert isinstance(type_, Composite)
        for name, field in type_.fields.items():
            under = underlying(field)
            assert isinstance(under, Bits)
            text = values.get(name, "0")
            found.append((f"({text} & {(1 << under.width) - 1}ull)" if text != "0" else "0", name))
        return found

    def _parser(self, name: str, number: int) -> str:
        """The C function of a parser, from the beginning of the gress's state."""
        base = f"P->{name[0]}{number}"
        decl = self.blocks[_named(name, number)].decl
        assert isinstance(decl, ast.Parser)
        front = "ingress_intrinsic_metadata_t" if name == "ip" else "egress_intrinsic_metadata_t"
        fields = INGRESS_FIELDS if name == "ip" else EGRESS_FIELDS
        behind = self.port_metadata_bits // 8 if name == "ip" else 0
        first = self._begins_with(decl, front)
        self._first = (first, fields) if first is not None else None
        gress, source = ("ingress", "ingress_time") if name == "ip" else ("egress", "egress_time")
        struct = f"{gress}_intrinsic_metadata_from_parser_t"
        at_once = first is not None and (name == "ep" or self._second is not None)
        lines = [f"memset(&{base}, 0, sizeof {base});\n(void)I;"]
        if at_once and name == "ip":
            lines.append("const uint8_t *p = P->base.data, *end = p + P->base.length;")
        elif at_once:
            lines.append(f"const uint8_t *p = {STD}next[0].data, *end = p + {STD}next[0].length;")
            lines.append(f"{STD}piece = 1;")
        else:
            size = behind
            prefix = f"uint8_t prefix[{behind or 1}];"
            if first is None:
                prefix, size = self._prefix(front, fields, behind)
            lines += [prefix, f"const uint8_t *p = prefix, *end = prefix + {size};"]
            if name == "ip":
                lines.append(self._port_metadata(size - behind))
                lines.append(f"{STD}next[0] = (p4_piece){{P->base.data, P->base.length}};")
                lines.append(f"{STD}pieces = 1;")
        if self.context.trace.headers:  # a trace shows where headers are, so all is one piece
            lines.append("tna_rest(&P->base, &p, &end);\nconst uint8_t *const first = p;")
        port = self._member(f"{base}.", "ingress_intrinsic_metadata_for_tm_t", "ucast_egress_port")
        if name == "ip" and port is not None:
            lines.append(f"{port} = TNA_NO_PORT;")
        for field in self.not_set:
            text = self._member(f"{base}.", f"{gress}_intrinsic_metadata_for_deparser_t", field)
            if text is not None:
                lines.append(f"{text} = {NOT_SET};")
        stamp = self._seen(f"{base}.", struct, "global_tstamp")
        errors = self._seen(f"{base}.", struct, "parser_err")
        stage = self._stage(name, number)
        lines += [stage, "goto accepted;\nreject:;"]
        if not self.sees_errors:
            lines.append(f"{STD}rejected = 1;")
        lines += ["accepted:;", *self.parsing.at_end()]
        local = "NULL, 0" if at_once else f"prefix, {size}"
        lines.append(f"tna_payload(&P->base, p, end, {local});")
        # The parser may assign its out parameters; what the hardware fills in comes last.
        if stamp is not None:
            lines.append(f"{stamp} = {STD}{source};")
        if errors is not None:
            lines.append(f"{errors} = {STD}parser_error;")
        head = f"static inline void run_{_named(name, number)}"
        head += "(p4_instance *restrict I, phv *restrict P)"
        return self.parts.stages.function(head, "\n".join(lines))

    def _port_metadata(self, at: int) -> str:
        """C that stores at byte `at` what stands there: the port's metadata, from their register,
        or the resubmit data of a packet that has come again."""
        register, width = port_metadata(self.context.instances), self.port_metadata_bits
        made = f"p4_store64(prefix + {at}, {STD}word);"
        if width > 8 * WORD:
            made += f" memset(prefix + {at + WORD}, 0, {width // 8 - WORD});"
        if register is None:
            return made
        group, member, _, _, _ = self.context.records.access[register.number]
        self.context.used_records.add(group)
        port = f"{STD}ingress_port"
        cell = f"R{group}[{port}].{member}"
        stores, _ = self.parts.fields.stores([(cell, Bits(width))], "at")
        return (
            f"{made} if (!{STD}resubmit_flag && {port} < {register.size})"
            f" {{ uint8_t *const at = prefix + {at}; {' '.join(stores)} }}"
        )

    def _control(self, name: str, number: int) -> str:
        base = f"P->{name[0]}{number}."
        lines = []
        if name == "ig":
            struct = "ingress_intrinsic_metadata_for_tm_t"
            for field, place in FOR_TM.items():
                must = field == "ucast_egress_port"  # 0 is a port
                text = (self._member if must else self._seen)(base, struct, field)
                if text is not None:
                    lines.append(f"{STD}{place} = {text};")
        struct = f"{'in' if name == 'ig' else 'e'}gress_intrinsic_metadata_for_deparser_t"
        for field, place in FOR_DEPARSER.items():
            text = self._seen(base, struct, field)
            if text is not None:
                lines.append(f"{STD}{place} = {text};")
        stage = self._stage(name, number, "\n".join(lines))
        head = f"static inline void run_{_named(name, number)}"
        head += "(p4_instance *restrict I, phv *restrict P)"
        return self.parts.stages.function(head, stage)

    def _deparser(self, name: str, number: int) -> str:
        body = (
            "uint8_t *const begin = out, *const limit = out + capacity;\n(void)I; (void)limit;\n"
            f"{self._stage(name, number)}\nreturn (uint32_t)(out - begin);"
        )
        head = f"static inline uint32_t run_{_named(name, number)}"
        head += "(p4_instance *restrict I, phv *restrict P, uint8_t *restrict out,"
        return self.parts.stages.function(f"{head} uint32_t capacity)", body)

    def pipeline(self) -> list[str]:
        made = []
        for number in range(self.pipes):
            made += [
                self._parser("ip", number),
                self._control("ig", number),
                self._deparser("id", number),
                self._parser("ep", number),
                self._control("eg", number),
                self._deparser("ed", number),
            ]
        return [*made, *self._entry_functions()]

    def _each(self, port: str, write: str) -> str:
        """C that runs `write` with {n} for the number of the pipeline of `port`."""
        if self.pipes == 1:
            return write.format(n="")
        cases = " ".join(
            f"case {n}: {write.format(n=f'_{n}' if n else '')} break;" for n in range(self.pipes)
        )
        return f"switch (({port} >> 7) % {self.pipes}) {{ {cases} }}"

    def _entry_functions(self) -> list[str]:
        ingress, egress = f"{STD}ingress_port", f"{STD}egress_port"
        head = "(p4_instance *I, p4_packet *packet) {\nphv *P = (phv *)packet;\n"
        passed = "(p4_instance *I, p4_packet *packet, uint8_t *out, uint32_t capacity)"
        goes_on = f"if ({STD}rejected) return;"
        with self.context.capture() as arrived:
            self.context.trace.packet_arrived()
        return [
            f"static void ingress{head}{' '.join(arrived)}"
            f"{STD}rejected = 0;\n"
            + self._each(ingress, f"run_ip{{n}}(I, P); {goes_on} run_ig{{n}}(I, P);")
            + "\n}\n",
            f"static void egress{head}{STD}rejected = 0;\n"
            + self._each(egress, f"run_ep{{n}}(I, P); {goes_on} run_eg{{n}}(I, P);")
            + "\n}\n",
            f"static uint32_t deparse_headers{passed} {{\nphv *P = (phv *)packet;\n"
            + "uint32_t length = 0;\n"
            + self._each(ingress, "length = run_id{n}(I, P, out, capacity);")
            + "\nreturn length;\n}\n",
            f"static uint32_t deparse{passed} {{\nphv *P = (phv *)packet;\nuint32_t length = 0;\n"
            + self._each(egress, "length = run_ed{n}(I, P, out, capacity);")
            + "\nreturn tna_append_payload(packet, out, length, capacity);\n}\n",
        ]

    def around(self) -> list[str]:
        return []

    def entry_points(self) -> str:
        return "0, 0, ingress, egress, deparse, deparse_headers, 0, 0"

    def field_lists(self) -> list[int]:
        return []


def _named(name: str, number: int) -> str:
    return f"{name}_{number}" if number else name


def _mentions(node: ast.Node, field: str) -> bool:
    """True if the program text below `node` reads a field of that name."""
    todo: list[ast.Node] = [node]
    while todo:
        each = todo.pop()
        if isinstance(each, ast.Member) and each.name == field:
            return True
        todo += children(each)
    return False


def _compares_with_0(node: ast.Node, field: str) -> bool:
    """True if the program text below `node` asks whether a field of that name is 0."""
    todo: list[ast.Node] = [node]
    while todo:
        each = todo.pop()
        if isinstance(each, ast.Binary) and each.op == "==":
            sides = (each.left, each.right)
            named = any(isinstance(s, ast.Member) and s.name == field for s in sides)
            if named and any(s.const == 0 for s in sides):
                return True
        todo += children(each)
    return False
