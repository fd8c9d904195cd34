"""Keys of an experiment file that have a new name. The old one still works, with a warning."""

from __future__ import annotations

from typing import Any

from testbed.config.problems import Path, Problem, key_path
from testbed.config.yaml_document import Document

# Section and old key -> new key.
RENAMED = {
    ("timers", "least_timeout"): "min_timeout",
    ("timers", "most_timeout"): "max_timeout",
    ("timers", "least_reminder_delay"): "min_reminder_delay",
    ("timers", "most_reminder_delay"): "max_reminder_delay",
}


def with_new_names(document: Document) -> tuple[Any, list[str], list[Problem]]:
    """(the document's data with new names in place of old ones, a warning for each old name,
    problems). A section that has both names of a key is a problem."""
    data, warnings, problems = document.data, [], []
    for (section, old), new in RENAMED.items():
        own = data.get(section) if isinstance(data, dict) else None
        if not isinstance(own, dict) or old not in own:
            continue
        path: Path = (section, old)
        if new in own:
            problems.append(
                Problem(path, f"is the old name of {new}, which is there too; remove it")
            )
            continue
        renamed = {(new if key == old else key): value for key, value in own.items()}
        data = {**data, section: renamed}
        if path in document.lines:  # so that an error about the value names its line
            document.lines[section, new] = document.lines[path]
        warnings.append(f"{key_path(path)} is now called {key_path((section, new))}; rename it")
    return data, warnings, problems
