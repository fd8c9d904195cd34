"""An experiment's options as those of a kind of system, with their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from testbed.systems.options import SystemOptions, WorkerOptions

if TYPE_CHECKING:
    from testbed.experiment import Experiment

T = TypeVar("T", bound=SystemOptions)


def options_of(experiment: Experiment, kind: type[T]) -> T:
    """The options of the experiment's system, which must be of this kind."""
    options = experiment.system
    if not isinstance(options, kind):
        raise TypeError(f"options of system {options.name} are no {kind.__name__}")
    return options


def omits_zeros(experiment: Experiment) -> bool:
    """Whether packets whose values are all 0 go without them."""
    return isinstance(experiment.system, WorkerOptions) and experiment.system.zeros == "header_only"
