"""The planners' processor time on networks of data centres, and the rates that they reach.

    .venv/bin/python -m bench planners [--workers 40 100 250] [--planner NAME ...] [--seed 1]
        [--scenario leaf-spine fat-tree large]

A row per network of testbed/sweeps/planner_scenarios.py, number of workers and planner: processor
and elapsed seconds from the network to the checked plan (paths, bound, plan, check), the smallest
worker's rate, the planner's LP bound and the number of aggregates. `grid` draws 20 roundings."""

from __future__ import annotations

import argparse
import time

from testbed.routing.planners import PLANNERS, make_plan
from testbed.sweeps.planner_scenarios import LARGE, SCENARIOS, draw


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[40, 100, 250])
    parser.add_argument("--planner", nargs="+", choices=list(PLANNERS), default=list(PLANNERS))
    parser.add_argument("--seed", type=int, default=1)
    known = {**SCENARIOS, LARGE.name: LARGE}
    parser.add_argument("--scenario", nargs="+", choices=list(known), default=list(SCENARIOS))
    options = parser.parse_args()
    print("scenario    workers  planner      CPU s  elapsed s   Gbit/s    bound  aggregates")
    for scenario in map(known.__getitem__, options.scenario):
        hosts = len(scenario.topology().hosts)
        for workers in sorted({min(count, hosts - 2) for count in options.workers}):
            network, jobs = draw(scenario, workers, options.seed)
            for planner in options.planner:
                cpu, start = time.process_time(), time.perf_counter()
                plan = make_plan(network, jobs, planner, options.seed)
                spent = time.process_time() - cpu, time.perf_counter() - start
                bound = float("nan") if plan.bound_bps is None else float(plan.bound_bps) / 1e9
                groups = len(plan.jobs[0].groups)
                print(
                    f"{scenario.name:<12}{workers:>7}  {planner:<11}{spent[0]:>7.1f}"
                    f"{spent[1]:>11.1f}{float(plan.rate_bps) / 1e9:>9.2f}{bound:>9.2f}{groups:>12}",
                    flush=True,
                )
