"""The types of machines, as numba tells them apart."""

from __future__ import annotations

import importlib
import pkgutil

from testbed import protocols, workload


def test_no_two_named_tuples_of_machines_look_alike_to_numba():
    """Where they are not placed, as in tests, only the name of the class and the types of its
    fields tell them apart."""
    seen: dict[tuple, type] = {}
    for package in (protocols, workload):
        for found in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            for each in vars(module).values():
                is_own = isinstance(each, type) and each.__module__ == module.__name__
                if is_own and issubclass(each, tuple) and hasattr(each, "_fields"):
                    other = seen.setdefault((each.__name__, each._fields), each)
                    assert other is each, f"{other} and {each}"
    assert len(seen) > 20
