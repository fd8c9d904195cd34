"""Presets of the key `fabric`: settings of a network, by name, each with its source.

A preset is a file of experiments/fabrics. Its `settings` are keys of an experiment file, with a
value and the name of a source. They become keys of the experiment that names the preset, unless it
has them itself, and are checked as if they stood there.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated

from p4fabric.base.config.data_files import read_text
from p4fabric.base.config.fields import ANY_TEXT, NAME, Section
from p4fabric.base.config.yaml_document import MAX_BYTES, read_yaml
from pydantic import Field, model_validator

from testbed.costs.profile import Source
from testbed.paths import EXPERIMENTS

FOLDER = EXPERIMENTS / "fabrics"


class Setting(Section):
    """A key's value."""

    value: object = Field(description="As an experiment file writes it.")
    source: Annotated[str, NAME] = Field(description="A key of `sources`.")


class Fabric(Section):
    """A preset. `settings` by the path of a key, such as links.queue."""

    about: Annotated[str, ANY_TEXT] = Field(description="The network that it describes.")
    sources: dict[str, Source] = Field(description="Sources, by the name used here.")
    settings: dict[str, Setting] = Field(description="Keys of an experiment file.")

    @model_validator(mode="after")
    def _sources_are_there(self) -> Fabric:
        for key, setting in self.settings.items():
            if setting.source not in self.sources:
                raise ValueError(f"{key}: no source {setting.source}")
        return self


FABRICS = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def fabric(name: str) -> Fabric:
    """The preset of this name, one of FABRICS."""
    path = FOLDER / f"{name}.yaml"
    return Fabric.model_validate(read_yaml(read_text(path, MAX_BYTES), str(path)).data)


def is_preset(data: object, path: tuple[object, ...]) -> bool:
    """True if the preset that an experiment file names has this key."""
    name = data.get("fabric") if isinstance(data, dict) else None
    return name in FABRICS and ".".join(map(str, path)) in fabric(name).settings


def with_fabric(data: dict[str, object]) -> dict[str, object]:
    """An experiment file's keys with those of the preset that it names. A section that is no
    mapping in the file stays as it is."""
    name = data.get("fabric")
    if name not in FABRICS:
        return data
    found = dict(data)
    for key, setting in fabric(name).settings.items():
        *sections, last = key.split(".")
        part = found
        for section in sections:
            inner = part.get(section, {})
            if not isinstance(inner, dict):
                break
            part[section] = part = dict(inner)
        else:
            part.setdefault(last, setting.value)
    return found
