"""The keys of an experiment file about what carries which collective; see schema.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from p4fabric.base.config.fields import NAME, Choice, Quantity, Section, as_pydantic
from p4fabric.base.config.units import SIZE, FieldError
from pydantic import Field, create_model, model_validator

from testbed.algorithms.by_name import ALGORITHMS, USE_OF
from testbed.algorithms.choice import CANDIDATES, SYSTEM, Network
from testbed.traffic.call_algorithms import ANY, AUTO, AlgorithmRules

LARGEST = 1 << 40
INSIDE = ("ring", "halving_doubling", "double_tree")


class Route(Section):
    """Carrier of the calls of a kind up to a size."""

    up_to_bytes: Annotated[int | None, Quantity(SIZE, 1, LARGEST, (("any", None),))] = Field(
        default=None,
        alias="up to",
        description="The largest call, in bytes of all ranks' parts together; any size only in the"
        " last one of a kind.",
    )
    use: Annotated[str, NAME] = Field(
        description="The experiment's system; an algorithm of hosts (docs/baselines.md): ring,"
        " halving_doubling, double_tree or hierarchical; or `auto`: whichever of the system, ring,"
        " halving_doubling and double_tree takes the least time in the alpha-beta model.",
    )
    inside: Annotated[str | None, Choice(INSIDE)] = Field(
        default=None,
        json_schema_extra={"default": "none: in one step"},
        description="An algorithm of hosts that adds up inside servers, so that `use` carries only"
        " what is between them: the ranks of a server add up and each gets a part, those with the"
        " same part add up across servers, and the ranks of a server exchange the parts. Only of"
        " all_reduce, and on servers with equally many ranks of each group.",
    )


if TYPE_CHECKING:
    _Lists = Section
else:
    _Lists = create_model(
        "_Lists",
        __base__=Section,
        **{
            kind: (
                tuple[Route, ...],
                Field((), json_schema_extra={"default": "the system"}, description=f"Of {kind}."),
            )
            for kind in USE_OF
        },
    )


class Collectives(_Lists):
    """Carriers of a program's calls, by kind and size, as NCCL chooses its algorithms: for each
    kind a list, of which the first one that fits counts, such as `all_reduce: [{up to: 64 KiB, use:
    double_tree}, {use: esa}]`. What a list does not name goes by the system. Only for jobs that
    replay a program of ranks (docs/workloads.md)."""

    def each(self) -> Iterator[tuple[str, int, Route]]:
        """(kind, place, route) of all."""
        for kind in USE_OF:
            for place, route in enumerate(getattr(self, kind)):
                yield kind, place, route

    @model_validator(mode="after")
    def _ascending(self) -> Collectives:
        for kind in USE_OF:
            sizes = [route.up_to_bytes or LARGEST + 1 for route in getattr(self, kind)]
            if kind != "all_reduce" and any(route.inside for route in getattr(self, kind)):
                found = f"{kind}: found `inside`"
                raise as_pydantic(FieldError(found, "`inside` in routes of all_reduce"))
            if any(route.use == AUTO and route.inside for route in getattr(self, kind)):
                found = f"{kind}: found `use: auto` with `inside`"
                raise as_pydantic(FieldError(found, "the system or an algorithm with `inside`"))
            if sizes != sorted(set(sizes)):
                found = f"{kind}: a route that no call takes"
                raise as_pydantic(FieldError(found, "routes with larger and larger sizes"))
        return self

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The algorithms of hosts that they may use, beside the system."""
        routes = [route for *_, route in self.each()]
        used = [each for route in routes for each in (route.use, route.inside) if each]
        names = [*used, *(CANDIDATES if AUTO in used else ())]
        return tuple(dict.fromkeys(name for name in names if name in ALGORITHMS))

    def routes(self, system: str, network: Network, per_server: int) -> AlgorithmRules | None:
        """The routes of calls with this system, and with so many ranks of a job on each server;
        None if all go by it."""
        rules = tuple(
            (
                kind,
                route.up_to_bytes or ANY,
                SYSTEM if route.use == system else route.use,
                route.inside or "",
            )
            for kind, _, route in self.each()
        )
        if not rules:
            return None
        choosing = any(use == AUTO for _, _, use, _ in rules)
        return AlgorithmRules(rules, network if choosing else None, per_server)
