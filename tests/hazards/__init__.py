"""The hazards of the protocols and what guards against each: the table of named mutations.

mutations.py says what becomes of them.
"""

from __future__ import annotations

from tests.hazards import grid, hosts, switches
from tests.mutations import Mutation

MUTATIONS = (*switches.MUTATIONS, *grid.MUTATIONS, *hosts.MUTATIONS)


def named(name: str) -> Mutation:
    return next(mutation for mutation in MUTATIONS if mutation.name == name)
