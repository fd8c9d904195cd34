"""The hazards of the protocols and what guards against each: the table of named mutations.

mutation.py says what becomes of them.
"""

from __future__ import annotations

from tests.support.mutations import grid, hosts, switches
from tests.support.mutations.mutation import Mutation

MUTATIONS = (*switches.MUTATIONS, *grid.MUTATIONS, *hosts.MUTATIONS)


def named(name: str) -> Mutation:
    return next(mutation for mutation in MUTATIONS if mutation.name == name)
