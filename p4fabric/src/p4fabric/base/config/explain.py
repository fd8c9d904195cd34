"""pydantic's errors as problems with place and remedy.

pydantic says where something is wrong and of what type the error is; what is allowed there, and
which key was probably meant, comes from the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from p4fabric.base.config.fields import Section
from p4fabric.base.config.problems import Path, Problem
from p4fabric.base.config.units import FieldError, describe


def explain(
    error: ValidationError,
    path: Path,
    model: Any,
    unknown: Callable[[Path, list[str]], Problem] = Problem.unknown,
) -> list[Problem]:
    """pydantic's errors in the words of this package. `path` leads to the validated part, which was
    read as `model`. `unknown` makes the problem of an unknown key out of its path and the known
    keys."""
    problems = []
    for each in error.errors(include_url=False):
        where = (*path, *each["loc"])
        context = each.get("ctx", {})
        kind = each["type"]
        if kind == "field":
            field_error = FieldError(context["found"], context["allowed"], context["hint"])
            problems.append(Problem.of(where, field_error))
        elif kind == "extra_forbidden":
            problems.append(unknown(where, _keys_at(model, each["loc"][:-1])))
        elif kind == "missing":
            problems.append(Problem.missing(where, _meaning(model, each["loc"])))
        elif kind in ("tuple_type", "list_type"):
            problems.append(Problem.of(where, FieldError(describe(each["input"]), "a list")))
        elif kind in ("model_type", "model_attributes_type", "dict_type"):
            keys = ", ".join(_keys_at(model, each["loc"]))
            allowed = f"a mapping with the keys {keys}"
            problems.append(Problem.of(where, FieldError(describe(each["input"]), allowed)))
        elif kind in ("too_short", "too_long"):
            low, high = context.get("min_length", 0), context.get("max_length")
            if kind == "too_short" and len(each["input"]) >= low:
                continue  # pydantic counts only sound entries; the others have their own errors
            limit = f"at least {low}" if kind == "too_short" else f"at most {high}"
            found = f"a list of {len(each['input'])}"
            problems.append(Problem.of(where, FieldError(found, f"a list of {limit}")))
        else:
            problems.append(Problem(where, f"found {describe(each['input'])}; {each['msg']}"))
    return problems


def section_model(annotation: Any) -> type[Section] | None:
    """The section's model in an annotation such as `tuple[Link, ...]`, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        model = section_model(part)
        if model is not None:
            return model
    return None


def keys_of(model: type[Section]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]


def _field_at(model: Any, location: Path) -> tuple[Any, FieldInfo | None]:
    """The model that `location` leads to (if any) and the last field on the way."""
    current, info, named = section_model(model), None, False
    for part in location:
        if named:  # a name that the user has chosen, in a mapping of sections
            named = False
            continue
        if isinstance(part, int) or current is None:
            continue
        fields = {each.alias or name: each for name, each in current.model_fields.items()}
        info = fields.get(part)
        current = section_model(info.annotation) if info else None
        named = info is not None and get_origin(info.annotation) is dict
    return current, info


def _keys_at(model: Any, location: Path) -> list[str]:
    found, _ = _field_at(model, location)
    return keys_of(found) if found else []


def _meaning(model: Any, location: Path) -> str:
    _, info = _field_at(model, location)
    return first_words(info) if info else ""


def first_words(info: FieldInfo) -> str:
    return (info.description or "").split(". ")[0].rstrip(".")
