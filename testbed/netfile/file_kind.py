"""Whether a file is a network file, for commands that also read experiments.

To look at one key needs no schema: that of network files takes as long to import as a quarter of
an experiment's check.
"""

from __future__ import annotations

from pathlib import Path

from testbed.config.yaml_document import read_yaml
from testbed.errors import UserError
from testbed.experiment.load import read_file


def is_network(path: str | Path) -> bool:
    """True if a file is a network file: it has the key `network`."""
    path = Path(path)
    if not path.is_file():
        return False
    try:
        data = read_yaml(read_file(path), str(path)).data
    except UserError:
        return False  # the reader of experiments reports what is wrong
    return isinstance(data, dict) and "network" in data
