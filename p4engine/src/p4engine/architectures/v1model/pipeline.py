"""The pipeline of v1model to C: the functions of its stages, and which fields other passes keep."""

from __future__ import annotations

from p4engine.architectures.v1model.arrays import ArrayEmitter
from p4engine.architectures.v1model.hashes import HashEmitter
from p4engine.architectures.v1model.requests import FIELD_LIST_OF_CALL, RequestEmitter
from p4engine.backend.emit_architecture import Functions, Parts
from p4engine.backend.emit_fields import Fields
from p4engine.frontend.types import Composite, Type, underlying
from p4engine.middle.instantiate import TableInstance


class PipelineEmitter:
    """The C of a program for V1Switch."""

    counts_hits = True
    c_headers = ()

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.blocks = parts.context.instances.blocks
        parser = self.blocks["p"].decl
        self.headers = [parser.parameters[1].type]
        self.metadata = [parser.parameters[2].type]
        self.hashes, self.requests = HashEmitter(parts), RequestEmitter(parts)
        self.functions: Functions = {
            **ArrayEmitter(parts).functions,
            **self.hashes.functions,
            **self.requests.functions,
        }

    def selector_hash(self, table: TableInstance, keys: Fields) -> str:
        return self.hashes.selector_hash(table, keys)

    # ---- stages ----

    def alive(self, table: TableInstance) -> str:
        return ""

    def _stage(self, name: str, bindings: list[str]) -> str:
        return self.parts.stages.stage(name, self.blocks[name], bindings)

    def pipeline(self) -> list[str]:
        """The C functions of the stages."""
        h, m, s = "P->h", "P->m", "P->base.std"
        head = "(p4_instance *restrict I, phv *restrict P)"
        parse = self._stage("p", ["", h, m, s])
        verify = self._stage("vr", [h, m])
        reject = "reject:;\n" if "reject" in self.parts.context.used_labels else ""
        run_parse = self.parts.stages.function(
            f"static inline void run_parse{head}",
            "const uint8_t *p = P->base.data, *end = p + P->base.length;\n(void)end; (void)I;\n"
            f"{parse}\n{reject}P->base.payload = p;\n"
            f"P->base.payload_length = (uint32_t)(end - p);\n{verify}",
        )
        ingress = self._stage("ig", [h, m, s])
        run_ingress = self.parts.stages.function(f"static inline void run_ingress{head}", ingress)
        egress = self._stage("eg", [h, m, s])
        run_egress = self.parts.stages.function(f"static inline void run_egress{head}", egress)
        update = self._stage("ck", [h, m])
        deparse = self._stage("dep", ["", h])
        run_deparse = self.parts.stages.function(
            "static inline uint32_t run_deparse(p4_instance *restrict I, phv *restrict P, "
            "uint8_t *restrict out, uint32_t capacity)",
            "uint8_t *const begin = out, *const limit = out + capacity;\n"
            "(void)I; (void)limit;\n"
            f"{update}\n{deparse}\nreturn (uint32_t)(out - begin);",
        )
        with self.parts.context.capture() as steps:
            self.parts.context.trace.packet_arrived()
            steps.append("run_parse(I, (phv *)packet);")
            steps.append("run_ingress(I, (phv *)packet);")
        return [
            run_parse,
            "static void parse(p4_instance *I, p4_packet *packet) "
            "{ run_parse(I, (phv *)packet); }\n",
            run_ingress,
            "static void ingress(p4_instance *I, p4_packet *packet) "
            + f"{{ {' '.join(steps)} }}\n",
            run_egress,
            "static void egress(p4_instance *I, p4_packet *packet) "
            "{ run_egress(I, (phv *)packet); }\n",
            run_deparse,
            "static uint32_t deparse_headers(p4_instance *I, p4_packet *packet, uint8_t *out, "
            "uint32_t capacity) { return run_deparse(I, (phv *)packet, out, capacity); }\n"
            "static uint32_t deparse(p4_instance *I, p4_packet *packet, uint8_t *out, "
            "uint32_t capacity) {\n"
            "uint32_t length = run_deparse(I, (phv *)packet, out, capacity);\n"
            "return p4_append_payload(packet, out, length, capacity);\n}\n",
        ]

    # ---- field lists ----

    def field_lists(self) -> list[int]:
        return sorted(self._field_lists())

    def _field_lists(self) -> dict[int, list[str]]:
        """Number of a @field_list -> C paths within the user metadata."""
        lists: dict[int, list[str]] = {}

        def walk(type_: Type, path: str) -> None:
            under = underlying(type_)
            if not isinstance(under, Composite) or under.decl is None:
                return
            for f in under.decl.fields:
                inner = f"{path}.{self.parts.context.layout.member(under, f.name)}"
                for number in f.lists:
                    lists.setdefault(number, []).append(inner)
                walk(under.fields[f.name], inner)

        walk(self.metadata[0], "P->m")
        return lists

    def _copy_fields(self) -> str:
        """The C function that copies the fields of a list from one packet to another."""
        lists = dict(self._field_lists())
        for i, paths in enumerate(self.requests.call_lists):
            lists[FIELD_LIST_OF_CALL + i] = list(paths)
        cases = []
        for number, members in lists.items():
            lines = " ".join(
                f"{p.replace('P->', 'T->', 1)} = {p.replace('P->', 'F->', 1)};" for p in members
            )
            cases.append(f"case {number}: {lines} break;")
        return (
            "static void copy_fields(p4_instance *I, p4_packet *to, const p4_packet *from, "
            "int32_t list) {\nphv *T = (phv *)to; const phv *F = (const phv *)from;\n"
            "(void)I; (void)T; (void)F;\n"
            f"switch (list) {{ {' '.join(cases)} default: break; }}\n}}\n"
        )

    # ---- the packet's state ----

    def state(self) -> str:
        h = self.parts.context.layout.c_type(self.headers[0])
        m = self.parts.context.layout.c_type(self.metadata[0])
        return f"{m} m; {h} h;"

    def around(self) -> list[str]:
        return [
            "static void start(p4_instance *I, p4_packet *packet) {\nphv *P = (phv *)packet;\n"
            "(void)I;\nmemset(&P->base.req, 0, sizeof P->base.req);\n"
            "memset(&P->m, 0, sizeof P->m);\nmemset(&P->h, 0, sizeof P->h);\n}\n",
            "static void reset_metadata(p4_instance *I, p4_packet *packet) {\n"
            "phv *P = (phv *)packet;\n(void)I;\n"
            "memset(&P->base.req, 0, sizeof P->base.req);\nmemset(&P->m, 0, sizeof P->m);\n}\n",
            self._copy_fields(),
        ]

    def entry_points(self) -> str:
        return (
            "start, parse, ingress, egress, deparse, deparse_headers, reset_metadata, copy_fields"
        )
