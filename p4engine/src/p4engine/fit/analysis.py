"""A program's needs against what a pipeline has: see docs/fit.md for the model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from p4engine.fit import memory
from p4engine.fit.accesses import Sources, Together, Way, alu_of, most_together, worst_way
from p4engine.fit.flow import Flow
from p4engine.fit.found import Access, Application
from p4engine.fit.limits import Limits
from p4engine.fit.load import deep, load
from p4engine.fit.report import (
    AccessFound,
    ArrayFound,
    CircleFound,
    Problem,
    Report,
    Spot,
    StepFound,
    TableFound,
)
from p4engine.fit.stages import Stages, short
from p4engine.fit.values import Value
from p4engine.frontend.diagnostics import Diagnostics, Place
from p4engine.middle.instantiate import BlockInstance, ExternInstance, Instances, TableInstance

PIPELINES = ("ig", "eg")
CHECKSUMS = ("vr", "ck")
ADDING = ("+", "-", "|+|", "|-|", "*", "<", ">", "<=", ">=")

# What one control does: accesses to arrays, applications of tables, what the packet leaves with.
Found = tuple[list[Access], list[Application], list[Value]]


class Analysis:
    """Compares one program with one set of limits."""

    def __init__(self, instances: Instances, diagnostics: Diagnostics, limits: Limits) -> None:
        self.instances, self.diagnostics, self.limits = instances, diagnostics, limits
        self.problems: list[Problem] = []
        self.flow = Flow(instances, diagnostics)
        self.found = {name: self._follow(instances.blocks[name]) for name in PIPELINES}
        self.checks = Flow(instances, diagnostics)
        for name in CHECKSUMS:
            self.checks.block(instances.blocks[name])
        self.together, self.sources = Together(self.flow.graph), Sources(self.flow)

    def _follow(self, block: BlockInstance) -> Found:
        flow = self.flow
        before = len(flow.accesses), len(flow.applications), len(flow.ends)
        flow.block(block)
        return flow.accesses[before[0] :], flow.applications[before[1] :], flow.ends[before[2] :]

    # ---- places ----

    def spot(self, place: Place) -> Spot:
        """A place by the name of its file."""
        if place.file < 0:
            return Spot("", 0, 0)
        return Spot(self.diagnostics.files[place.file], place.line, place.column)

    def problem(self, limit: str, message: str, place: Place) -> None:
        """A limit is broken; a message is said once for each place."""
        made = Problem(limit, message, self.spot(place))
        if made not in self.problems:
            self.problems.append(made)

    # ---- the parts ----

    def report(self, program: str, target: str) -> Report:
        """Everything about the program."""
        stages = Stages(self.flow, self.together, self.limits)
        self.sources.circular |= {u for circle in stages.circles for u in circle.units}
        arrays = tuple(self._array(a) for a in self._arrays())
        tables = tuple(self._table(t) for t in self.instances.tables)
        circles = tuple(self._circle(stages, number) for number in range(len(stages.circles)))
        chains = {name: self._chain(stages, name) for name in PIPELINES}
        alus = self._alus(stages)
        self._check_alus(stages)
        self._memory(arrays, tables)
        self._operations()
        phv = memory.phv_of(self.instances, self.flow)
        if phv.bits > self.limits.phv_bits:
            self.problem(
                "phv-bits",
                f"headers and metadata have {phv.bits} bits ({phv.headers} in headers),"
                f" the packet header vector has {self.limits.phv_bits}",
                phv.place,
            )
        return Report(
            program,
            target,
            self.limits,
            arrays,
            tables,
            chains["ig"],
            chains["eg"],
            circles,
            alus,
            phv.headers,
            phv.metadata,
            phv.standard,
            tuple(self.problems),
        )

    def _arrays(self) -> list[ExternInstance]:
        known = self.instances.externs
        return [x for kind in ("register", "counter", "meter") for x in known.get(kind, [])]

    def _array(self, array: ExternInstance) -> ArrayFound:
        found = self.flow.groups.get(array, [])
        way = worst_way(found, self.together, self.sources) if found else Way(())
        if way.count > self.limits.accesses:
            self.problem(
                "accesses",
                f"{array.kind} {short(array)}: a packet makes {way.count} accesses"
                f" ({', '.join(map(_kind, way.accesses))}), the pipeline has"
                f" {self.limits.accesses} per array and pass",
                way.accesses[self.limits.accesses][0].place,
            )
        width = memory.element_bits(array)
        if width > self.limits.element_bits:
            self.problem(
                "element-bits",
                f"{array.kind} {short(array)} has elements of {width} bits, an array's ALU works"
                f" on {self.limits.element_bits}",
                array.place,
            )
        did = tuple(
            AccessFound(_kind(group), tuple(self.spot(a.place) for a in group))
            for group in way.accesses
        )
        bits = memory.of_array(array).sram_bits
        return ArrayFound(
            array.name, array.kind, array.size, width, bits, did, self.spot(array.place)
        )

    def _table(self, table: TableInstance) -> TableFound:
        uses = [a for a in self.flow.applications if a.table is table]
        way = most_together(uses, self.together)
        if len(way) > 1:
            self.problem(
                "accesses",
                f"table {table.decl.name}: a packet looks it up {len(way)} times, the pipeline"
                " does so once per pass",
                way[1].place,
            )
        taken = memory.of_table(table)
        return TableFound(
            table.name,
            table.size,
            taken.sram_bits,
            taken.tcam_bits,
            len(way),
            self.spot(table.decl.place),
        )

    def _circle(self, stages: Stages, number: int) -> CircleFound:
        circle = stages.circles[number]
        names = [u.decl.name if isinstance(u, TableInstance) else short(u) for u in circle.units]
        length = len(circle.places)
        way = " needs ".join([*names[:length], names[0]])
        more = f" ({len(names)} in all need each other)" if len(names) > length else ""
        self.problem(
            "circle",
            f"{way}{more}: each must come before the other, so one pass is not enough",
            circle.places[0],
        )
        spots = tuple(self.spot(p) for p in circle.places)
        return CircleFound(tuple(names), length, spots)

    def _chain(self, stages: Stages, name: str) -> tuple[StepFound, ...]:
        steps = stages.chain(*self.found[name])
        over = [s for s in steps if s.stage > self.limits.stages]
        if over:
            pipeline = "ingress" if name == "ig" else "egress"
            self.problem(
                "stages",
                f"the longest chain in {pipeline} has {steps[-1].stage} stages, the pipeline has"
                f" {self.limits.stages}; this is the first step beyond: {over[0].text}",
                over[0].place,
            )
        return tuple(StepFound(s.stage, s.text, self.spot(s.place)) for s in steps)

    # ---- arrays' ALUs ----

    def _alus(self, stages: Stages) -> int:
        """The fewest ALUs: arrays that are always used at one index can share one, in halves."""
        halves: dict[tuple[object, int], int] = {}
        alus = 0
        for array, accesses in self.flow.groups.items():
            small = memory.element_bits(array) <= self.limits.half_bits
            if array.kind == "register" and small and stages.one_index(accesses):
                key = (accesses[0].index, array.size)
                halves[key] = halves.get(key, 0) + 1
            elif array.kind == "register":
                alus += 1
        alus += sum((count + 1) // 2 for count in halves.values())
        has = self.limits.arrays_per_stage * self.limits.stages
        if alus > has:
            place = list(self.flow.groups)[-1].place
            self.problem(
                "arrays-per-stage",
                f"registers need {alus} ALUs even in pairs, the pipeline has {has}"
                f" ({self.limits.arrays_per_stage} in each of {self.limits.stages} stages)",
                place,
            )
        return alus

    def _check_alus(self, stages: Stages) -> None:
        for access in self.flow.accesses:
            if access.kind != "write" or access.value is None:
                continue
            old = stages.old_values(access)
            alu = alu_of(access, old)
            name = short(access.array)
            if len(alu.conditions) > self.limits.conditions:
                self.problem(
                    "conditions",
                    f"register {name}: the new value depends on {len(alu.conditions)} comparisons"
                    f" with the old one, an ALU makes {self.limits.conditions}",
                    access.place,
                )
            if alu.operations > self.limits.operations:
                self.problem(
                    "operations",
                    f"register {name}: {alu.operations} operations in a row make the new value of"
                    f" the old one, an ALU does {self.limits.operations}",
                    access.place,
                )

    def _operations(self) -> None:
        """What no stage can do."""
        for flow in (self.flow, self.checks):
            for strange in flow.strange:
                self.problem("operation", f"{strange.text} is not in the pipeline", strange.place)
        roots = [v for a in self.flow.accesses for v in (a.index, a.value) if v is not None]
        roots += [c for a in self.flow.accesses for c in a.conditions]
        roots += [v for a in self.flow.applications for v in (*a.keys, *a.conditions)]
        wide = [
            v
            for v in self.sources.all([*roots, *self.flow.ends])
            if v.kind == "op"
            and v.data in ADDING
            and max(a.width for a in v.args) > self.limits.operand_bits
        ]
        for value in sorted(wide, key=lambda v: v.place):
            width = max(a.width for a in value.args)
            self.problem(
                "operand-bits",
                f"{value.data} on {width} bits, an ALU has {self.limits.operand_bits}",
                value.place,
            )

    # ---- memory ----

    def _memory(self, arrays: tuple[ArrayFound, ...], tables: tuple[TableFound, ...]) -> None:
        limits = self.limits
        for array, found in zip(self._arrays(), arrays, strict=True):
            if found.sram_bits > limits.sram_bits:
                self.problem(
                    "sram-bits",
                    f"{array.kind} {short(array)} takes {found.sram_bits} bits of SRAM, a stage has"
                    f" {limits.sram_bits}",
                    array.place,
                )
        for what, per_stage in (("sram", limits.sram_bits), ("tcam", limits.tcam_bits)):
            sizes = [(getattr(t, f"{what}_bits"), t.spot) for t in tables]
            if what == "sram":
                sizes += [(a.sram_bits, a.spot) for a in arrays]
            total = sum(size for size, _ in sizes)
            if total > per_stage * limits.stages:
                most = max(sizes, key=lambda pair: pair[0])
                text = (
                    f"all together take {total} bits of {what.upper()}, the pipeline has"
                    f" {per_stage * limits.stages} in {limits.stages} stages; most are here"
                )
                self.problems.append(Problem(f"{what}-bits", text, most[1]))


def _kind(group: tuple[Access, ...]) -> str:
    kinds = {a.kind for a in group}
    return "read and write" if {"read", "write"} <= kinds else group[0].kind


def analyse(
    path: str | os.PathLike[str],
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] = (),
    *,
    limits: Limits | None = None,
    target: str = "tofino-like",
) -> Report:
    """Compare a program with a pipeline; arguments as of `compile_program`. Raises P4Error."""
    instances, diagnostics = load(path, defines, include_dirs)
    with deep():
        analysis = Analysis(instances, diagnostics, limits or Limits())
        return analysis.report(Path(path).name, target)
