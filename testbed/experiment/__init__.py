"""The experiment file, and how it becomes an `Experiment`.

    experiment = load("experiments/quickstart.yaml")

schema.py and schema_*.py list every key, and reference_page.py makes docs/experiment.md of them.
load.py reads a file with p4fabric.base.config (YAML with line numbers, quantities, errors).
resolve.py has the table of checks (rules.py) that fill in what was left open and say what must
agree; resolve_*.py are the longer ones, and resolve_topology.py finds and builds the topology.
sweep_file.py and figure.py are files with several experiments. printing.py writes an experiment as
a file again.
"""

from p4fabric.base.config.problems import ExperimentError

from testbed.experiment.experiment import Experiment, LinkDirection
from testbed.experiment.load import load, load_text

__all__ = ["Experiment", "ExperimentError", "LinkDirection", "load", "load_text"]
