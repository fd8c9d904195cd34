"""A program's needs against what a pipeline has: see docs/fit.md for the model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from p4engine.fit.accesses import Sources, Together, Way, most_together, worst_way
from p4engine.fit.flow import Flow
from p4engine.fit.report import (
    AccessFound,
    ArrayFound,
    CircleFound,
    Limits,
    Problem,
    Report,
    Spot,
    StepFound,
    TableFound,
)
from p4engine.fit.stages import Circle, Stages, short
from p4engine.fit.values import Value
from p4engine.fit.ways import Access, Application
from p4engine.frontend.diagnostics import Diagnostics, Place
from p4engine.middle.instantiate import ExternInstance, Instances, TableInstance
from p4engine.middle.load import deep, load

# What one control does, in all pipelines: accesses to arrays, applications of tables, what the
# packet leaves with.
Found = tuple[list[Access], list[Application], list[Value]]


class Analysis:
    """Compares one program with one set of limits."""

    def __init__(self, instances: Instances, diagnostics: Diagnostics, limits: Limits) -> None:
        self.instances, self.diagnostics, self.limits = instances, diagnostics, limits
        self.problems: list[Problem] = []
        self.flow = Flow(instances)
        self.found = {
            words: self._follow(name) for words, name in instances.architecture.controls.items()
        }
        self.together, self.sources = Together(self.flow.graph), Sources(self.flow)

    def _follow(self, control: str) -> Found:
        """What a control does, of all pipelines."""
        flow = self.flow
        before = len(flow.accesses), len(flow.applications), len(flow.ends)
        for name, block in self.instances.blocks.items():
            if name.partition("_")[0] == control:
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

    def report(self, program: str) -> Report:
        """Everything about the program."""
        stages = Stages(self.flow, self.together, self.limits)
        self.sources.circular |= {u for circle in stages.circles for u in circle.units}
        externs = self.instances.externs
        found = [x for kind in ("register", "counter", "meter") for x in externs.get(kind, [])]
        arrays = tuple(map(self._array, found))
        tables = tuple(map(self._table, self.instances.tables))
        circles = tuple(map(self._circle, stages.circles))
        ingress, egress = (self._chain(stages, name) for name in ("ingress", "egress"))
        for place, text in self.flow.loops.items():
            self.problem("loop", f"{text} is not in the pipeline", place)
        return Report(
            program, self.limits, arrays, tables, ingress, egress, circles, tuple(self.problems)
        )

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
        did = tuple(
            AccessFound(_kind(group), tuple(self.spot(a.place) for a in group))
            for group in way.accesses
        )
        return ArrayFound(array.name, array.kind, did, self.spot(array.place))

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
        return TableFound(table.name, len(way), self.spot(table.decl.place))

    def _circle(self, circle: Circle) -> CircleFound:
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
            self.problem(
                "stages",
                f"the longest chain in {name} has {steps[-1].stage} stages, the pipeline has"
                f" {self.limits.stages}; this is the first step beyond: {over[0].text}",
                over[0].place,
            )
        return tuple(StepFound(s.stage, s.text, self.spot(s.place)) for s in steps)


def _kind(group: tuple[Access, ...]) -> str:
    kinds = {a.kind for a in group}
    return "read and write" if {"read", "write"} <= kinds else group[0].kind


def analyse(
    path: str | os.PathLike[str],
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] = (),
    *,
    limits: Limits | None = None,
) -> Report:
    """Compare a program with a pipeline; arguments as of `compile_program`. Raises P4Error."""
    instances, diagnostics = load(path, defines, include_dirs)
    with deep():
        analysis = Analysis(instances, diagnostics, limits or Limits())
        return analysis.report(Path(path).name)
