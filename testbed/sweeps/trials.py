"""Options that a file leaves to be tuned (testbed/systems/tuned_options.py), tried before a run.

Each trial is a run of the same experiment with some values and another seed: seeds are drawn from
the experiment's first one, and are none of those that it reports, so that a system is not chosen by
the luck that is then shown. best_values.py says which values are tried with the first seed. Those
within CLOSE of the best are tried with two more seeds. Of those whose mean JCT is then within ALIKE
of the lowest, the smallest is taken: a window that is larger than useful only fills queues and
memory.

A trial is kept below `results`, in the folder TRIALS, by its identity, and not run again as long as
the code is the same. The run itself gets a table with all trials.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import tempfile
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.errors import RunError, UserError
from p4fabric.base.linux.whole_files import write_whole
from p4fabric.base.steps import quiet_console, step

from testbed.results import environment, hand_over, read
from testbed.run_parts.program import prepare
from testbed.runner import VIRTUAL, carry_out, get_ready
from testbed.schemes import set_up
from testbed.setup.window_range import tried_values
from testbed.sweeps import best_values
from testbed.systems.tuned_options import Trial, Tried, Tuned, Tuning, Values

if TYPE_CHECKING:
    from rich.console import Console

    from testbed.experiment import Experiment
    from testbed.setup import Setup

TRIALS = ".trials"  # folder below `results`, which a shell leaves out of results/*
CLOSE = 0.02  # of the best JCT: tried with more seeds
MOST_CLOSE = 4
ALIKE = 0.005
SEEDS = 3
_SEEDS_BELOW = 2 * 10**9


def seeds_of(first: int, repetitions: int, count: int = SEEDS) -> list[int]:
    """The seeds of trials: none of first, first + 1, ..., which the repetitions have. count: with
    further ones."""
    found: list[int] = []
    number = 0
    while len(found) < count:
        text = f"tuning {first} {number}"
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % _SEEDS_BELOW
        if seed not in found and not first <= seed < first + repetitions:
            found.append(seed)
        number += 1
    return found


def tuned(
    experiment: Experiment,
    results: Path,
    console: Console | None = None,
    pool: Executor | None = None,
) -> Experiment:
    """The experiment with the best values of what it leaves to be tuned; itself, if that is
    nothing. Trials are kept below `results`, and run side by side in a `pool`, if there is one.
    Raises UserError, and RunError if no trial succeeds."""
    if experiment.tuning is None:
        return experiment
    from testbed.experiment.load import load_tried

    get_ready([experiment])
    tuning, quiet = experiment.tuning, console or quiet_console()
    values = tried_values(set_up(experiment), tuning)
    folder = str(results / TRIALS)
    found = _Trials(experiment, tuning, values, folder, pool)
    with step(quiet, found.state):
        chosen = found.best()
    made = load_tried(tuning, chosen)
    return made.with_tuned(Tuned(chosen, found.edges(chosen), tuple(found.trials)))


class _Trials:
    """The trials of one experiment."""

    def __init__(
        self,
        experiment: Experiment,
        tuning: Tuning,
        values: Tried,
        folder: str,
        pool: Executor | None,
    ) -> None:
        self.trials: list[Trial] = []
        self._tuning, self._values, self._folder, self._pool = tuning, values, folder, pool
        self._seeds = seeds_of(experiment.seed, experiment.repetitions)
        self._name = experiment.name

    def state(self) -> str:
        return f"tuning {', '.join(self._values)}: {len(self.trials)} trials"

    def best(self) -> Values:
        """The best values. Raises RunError."""
        first, *others = self._seeds
        known = best_values.search(
            [len(each) for each in self._values.values()],
            lambda places: self._run([(place, first) for place in places]),
        )
        least = min(known.values())
        if math.isinf(least):
            reason = next(trial.error for trial in self.trials if trial.error)
            count = len(self.trials)
            raise RunError(f"{self._name}: none of {count} trials of tune succeeds: {reason}")
        close = [place for place in known if known[place] <= (1 + CLOSE) * least]
        close = sorted(close, key=lambda place: (known[place], place))[:MOST_CLOSE]
        if len(close) > 1:
            pairs = [(place, seed) for place in close for seed in others]
            costs = dict(zip(pairs, self._run(pairs), strict=True))
            known = {
                place: (known[place] + sum(costs[place, seed] for seed in others)) / SEEDS
                for place in close
            }
        least = min(known.values())
        return self._at(min(place for place in known if known[place] <= (1 + ALIKE) * least))

    def edges(self, chosen: Values) -> tuple[str, ...]:
        """Options whose chosen value is the first or the last of several."""
        return tuple(
            key
            for key, values in self._values.items()
            if len(values) > 1 and chosen[key] in (values[0], values[-1])
        )

    def _at(self, place: best_values.Place) -> Values:
        pairs = zip(self._values.items(), place, strict=True)
        return {key: values[number] for (key, values), number in pairs}

    def _run(self, asked: Sequence[tuple[best_values.Place, int]]) -> list[float]:
        """Costs of values with a seed each."""
        from testbed.experiment.load import load_tried

        chosen = [(self._at(place), seed) for place, seed in asked]
        sound: list[Experiment | str] = []
        for values, seed in chosen:
            keys = {"seed": seed, "repetitions": 1, "name": self._name}
            try:
                sound.append(load_tried(self._tuning, values, **keys))
            except UserError as wrong:
                sound.append(str(wrong))
        tried = [each for each in sound if not isinstance(each, str)]
        run = self._pool.map if self._pool else map
        outcomes = iter(run(try_one, tried, [self._folder] * len(tried)))
        costs = []
        for (values, seed), each in zip(chosen, sound, strict=True):
            jct_ns, error = (None, each) if isinstance(each, str) else next(outcomes)
            self.trials.append(Trial(values, seed, jct_ns, error))
            costs.append(math.inf if jct_ns is None else jct_ns)
        return costs


def try_one(experiment: Experiment, folder: str) -> tuple[float | None, str]:
    """The mean JCT of a run in ns, or None and why it has failed; from `folder`, if it is there."""
    kept = Path(folder) / f"{experiment.identity[:24]}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(kept.read_text())
        if known["identity"] == experiment.identity and environment.of_this_code(known):
            return float(known["jct_ns"]), ""
    try:
        jct_ns = _mean_jct(experiment)
    except (RunError, UserError) as error:
        return None, str(error).splitlines()[0]
    with contextlib.suppress(OSError):  # it is run again then
        kept.parent.mkdir(parents=True, exist_ok=True)
        about = {"identity": experiment.identity, "code": environment.code()}
        write_whole(kept, json.dumps({**about, "jct_ns": jct_ns}) + "\n")
        hand_over(kept.parent, below=True)
    return jct_ns, ""


def _mean_jct(experiment: Experiment) -> float:
    if experiment.runtime == VIRTUAL:
        from testbed.simulate.virtual_run import run_repetition

        setup = set_up(experiment)
        tables = run_repetition(setup, prepare(setup).compiled, sampled=False)
        jct_ns = [row["jct_ns"] for row in tables["jobs"] if row["jct_ns"] is not None]
    else:
        with tempfile.TemporaryDirectory(prefix="ina-trial-") as parent:
            folder = carry_out(experiment, Path(parent), (), quiet_console())
            jct_ns = read(folder).jobs["jct_ns"].dropna().tolist()
    if not jct_ns:
        raise RunError("no job ended")
    return sum(jct_ns) / len(jct_ns)


def plan_of(experiment: Experiment, setup: Setup) -> list[str]:
    """A sentence on the trials; [] if nothing is tuned. setup: of the experiment. Raises
    UserError."""
    if experiment.tuning is None:
        return []
    values = tried_values(setup, experiment.tuning)
    total = math.prod(map(len, values.values()))
    few = max(map(len, values.values())) <= best_values.FEW
    listed = "; ".join(f"{key} {', '.join(map(str, each))}" for key, each in values.items())
    text = (
        f"tunes {listed}: {'all' if few else 'some'} of {total} combinations are tried, with a seed"
        " that is not reported"
    )
    if experiment.runtime != VIRTUAL:
        text += "; on Mininet each trial takes as long as a repetition of the run"
    return [text]
