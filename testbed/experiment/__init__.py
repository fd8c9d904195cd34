"""What an experiment file may say, and how it becomes an `Experiment`.

    experiment = load("experiments/quickstart.yaml")

units.py reads quantities, fields.py knows the kinds of value, schema.py lists every key (and
reference.py documents them), document.py reads YAML with line numbers, topologies.py finds and
builds the topology, load.py puts them together, resolve.py decides what was left open and checks
what must agree, problems.py and explain.py word the errors, printing.py goes the way back.
"""

from testbed.config.problems import ExperimentError
from testbed.experiment.experiment import Experiment, LinkDirection
from testbed.experiment.load import load, load_text

__all__ = ["Experiment", "ExperimentError", "LinkDirection", "load", "load_text"]
