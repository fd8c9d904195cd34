"""The keys of an experiment file about what carries which collective; see schema.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, model_validator

from testbed.algorithms.choice import CANDIDATES, SYSTEM, Network
from testbed.algorithms.registry import ALGORITHMS, USE_OF
from testbed.config.fields import NAME, Quantity, Section, as_pydantic
from testbed.config.units import SIZE, FieldError
from testbed.traffic.call_routes import ANY, AUTO, Routes

LARGEST = 1 << 40


class Route(Section):
    """What carries the calls of a kind up to a size."""

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


def _kind(what: str) -> tuple[Route, ...]:
    made: tuple[Route, ...] = Field(
        default=(), json_schema_extra={"default": "the system"}, description=f"Of {what}."
    )
    return made


class Collectives(Section):
    """What carries a program's calls, by kind and size, as NCCL chooses its algorithms: for each
    kind a list, of which the first one that fits counts, such as `all_reduce: [{up to: 64 KiB, use:
    double_tree}, {use: esa}]`. What a list does not name goes by the system. Only for jobs that
    replay a program of ranks (docs/workloads.md)."""

    all_reduce: tuple[Route, ...] = _kind("all_reduce")
    reduce_scatter: tuple[Route, ...] = _kind("reduce_scatter")
    all_gather: tuple[Route, ...] = _kind("all_gather")
    broadcast: tuple[Route, ...] = _kind("broadcast")
    reduce: tuple[Route, ...] = _kind("reduce")
    barrier: tuple[Route, ...] = _kind("barrier")

    def each(self) -> Iterator[tuple[str, int, Route]]:
        """(kind, place, route) of all."""
        for kind in USE_OF:
            for place, route in enumerate(getattr(self, kind)):
                yield kind, place, route

    @model_validator(mode="after")
    def _ascending(self) -> Collectives:
        for kind in USE_OF:
            sizes = [route.up_to_bytes or LARGEST + 1 for route in getattr(self, kind)]
            if sizes != sorted(set(sizes)):
                found = f"{kind}: a route that no call takes"
                raise as_pydantic(FieldError(found, "routes with larger and larger sizes"))
        return self

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The algorithms of hosts that they may use, beside the system."""
        used = [route.use for *_, route in self.each()]
        names = [*used, *(CANDIDATES if AUTO in used else ())]
        return tuple(dict.fromkeys(name for name in names if name in ALGORITHMS))

    def routes(self, system: str, network: Network) -> Routes | None:
        """The routes of calls with this system; None if all go by it."""
        rules = tuple(
            (kind, route.up_to_bytes or ANY, SYSTEM if route.use == system else route.use)
            for kind, _, route in self.each()
        )
        if not rules:
            return None
        return Routes(rules, network if any(use == AUTO for *_, use in rules) else None)
