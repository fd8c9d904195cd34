"""Checks that a plan can be run, independently of the planners.

The checker reads a plan and the network and computes again what flows where. It shares no code with
the modules that make plans (rates, groups, loads). So it does not repeat their mistakes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from testbed.routing.network import Network, PlanJob
from testbed.routing.plan import Group, JobPlan, Plan

RELATIVE = Fraction(1, 10**9)  # tolerance: a plan read from JSON has rates as floats


def violations(network: Network, jobs: Sequence[PlanJob], plan: Plan) -> list[str]:
    """Violations of a plan, in words; [] if it can be run and its own numbers are right."""
    checker = _Checker(network, plan)
    if [job.name for job in plan.jobs] != [job.name for job in jobs]:
        return ["the plan's jobs are not those of the network"]
    for job, part in zip(jobs, plan.jobs, strict=True):
        checker.job(job, part)
    checker.capacities()
    checker.summary()
    return checker.found


class _Checker:
    def __init__(self, network: Network, plan: Plan) -> None:
        self.plan = plan
        self.found: list[str] = []
        self.links = {(link.source, link.target): link.capacity_bps for link in network.links}
        self.switches = {switch.name: switch for switch in network.switches}
        self.network = network
        self.on_link: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
        self.at_switch: dict[str, Fraction] = defaultdict(Fraction)
        self.at_server: dict[str, Fraction] = defaultdict(Fraction)
        self.results: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
        self.slots: dict[str, int] = defaultdict(int)

    def report(self, message: str) -> None:
        self.found.append(message)

    def same(self, a: Fraction, b: Fraction) -> bool:
        return abs(a - b) <= RELATIVE * max(abs(a), abs(b))

    def job(self, job: PlanJob, part: JobPlan) -> None:
        who = f"job {job.name}"
        if part.ps != job.ps or tuple(each.host for each in part.workers) != job.workers:
            self.report(f"{who}: other hosts than the job has")
            return
        groups = {group.number: group for group in part.groups}
        if len(groups) != len(part.groups) or min(groups, default=1) < 1:
            self.report(f"{who}: group numbers are not distinct and from 1")
        inputs: dict[int, dict[int, Fraction]] = {number: {} for number in groups}
        steering: dict[tuple[int, str], tuple[str, int]] = {}
        for number, worker in enumerate(part.workers):
            name = f"{who}, worker {number}"
            if worker.number != number:
                self.report(f"{name}: is numbered {worker.number}")
            if job.max_rate_bps is not None and worker.rate_bps > job.max_rate_bps:
                self.report(f"{name}: sends faster than its most, {job.max_rate_bps} bit/s")
            at = Fraction(0)
            for each in worker.assignments:
                if each.range.start != at or each.range.end <= at:
                    self.report(f"{name}: its ranges do not follow each other")
                at = each.range.end
                rate = worker.rate_bps * (each.range.end - each.range.start)
                if not self.same(rate, each.rate_bps):
                    self.report(f"{name}: a range's rate is not its share of the worker's")
                self.path(name, each.path, worker.host, each.node)
                self.flow(each.path, rate)
                self.steer(who, steering, each.tag, each.path[1:], each.group)
                group = groups.get(each.group)
                if each.group == 0:
                    if each.node != job.ps:
                        self.report(f"{name}: what no group takes does not go to the PS")
                    self.at_server[job.ps] += rate
                elif group is None:
                    self.report(f"{name}: there is no group {each.group}")
                else:
                    inputs[each.group][number] = rate
                    self.at_switch[each.node] += rate
                    if (group.node, group.range) != (each.node, each.range):
                        self.report(f"{name}: its fragments do not fit group {each.group}")
            if at != 1:
                self.report(f"{name}: its ranges do not cover all fragments")
        for group in part.groups:
            if group.parent:
                self.subtotal(who, group, groups, inputs)
        for group in part.groups:
            name = f"{who}, group {group.number}"
            members = inputs[group.number]
            if not members or tuple(sorted(members)) != group.workers:
                self.report(f"{name}: its workers are not those who send to it")
                continue
            if not self.same(max(members.values()), group.rate_bps):
                self.report(f"{name}: its rate is not that of its fastest worker")
            switch = self.switches.get(group.node)
            if switch is None or not switch.aggregates:
                self.report(f"{name}: {group.node} does not aggregate")
            parent = groups.get(group.parent)
            self.path(name, group.path, group.node, job.ps if parent is None else parent.node)
            self.flow(group.path, max(members.values()))
            self.steer(who, steering, group.tag, group.path[1:], group.parent)
            if parent is None:
                self.at_server[job.ps] += max(members.values())
            else:  # flows that may not join there go on to the PS
                self.steer(who, steering, group.tag, parent.path[1:], 0)
                self.at_switch[parent.node] += max(members.values())
            self.slots[group.node] += group.slots
            if group.slots < 1:
                self.report(f"{name}: takes no aggregator")
        if part.rate_bps != min(worker.rate_bps for worker in part.workers):
            self.report(f"{who}: its rate is not that of its slowest worker")
        self.check_results(who, part)

    def subtotal(
        self,
        who: str,
        group: Group,
        groups: dict[int, Group],
        inputs: dict[int, dict[int, Fraction]],
    ) -> None:
        """Add a group's subtotal to the input of its parent."""
        name, parent = f"{who}, group {group.number}", groups.get(group.parent)
        if parent is None or parent.parent:
            self.report(f"{name}: its aggregate joins no group that sends to the PS")
            return
        if group.range != parent.range or group.node == parent.node:
            self.report(f"{name}: its aggregate does not fit group {parent.number}")
        got = inputs[parent.number]
        if not got.keys().isdisjoint(inputs[group.number]):
            self.report(f"{name}: group {parent.number} has one of its workers already")
        if set(group.path) & set(parent.path[1:]):
            self.report(f"{name}: its way to the PS has a loop")
        got |= inputs[group.number]

    def check_results(self, who: str, part: JobPlan) -> None:
        """Check that the results' links are a tree that reaches all nodes that wait for them."""
        reached = {part.ps}
        room = part.results.room_bps
        for source, target in part.results.links:
            if (source, target) not in self.links:
                self.report(f"{who}, results: there is no link {source} -> {target}")
            if source not in reached or target in reached:
                self.report(f"{who}, results: {source} -> {target} does not continue a tree")
            if source != part.ps and source not in self.switches:
                self.report(f"{who}, results: {source} does not forward")
            reached.add(target)
            self.results[source, target] += (
                part.rate_bps if room is None else min(room, part.rate_bps)
            )
        counted = self.plan.results == "counted"
        if counted and room is not None and room < part.rate_bps * (1 - RELATIVE):
            self.report(f"{who}: its rate does not hold with results, which have less room")
        waiting = {worker.host for worker in part.workers}
        waiting |= {group.node for group in part.groups}
        if part.results.links and not waiting <= reached:
            self.report(f"{who}, results: they do not reach {min(waiting - reached)}")
        if not part.results.links and room != 0:
            self.report(f"{who}, results: there is no tree for them, but room is not 0")

    def path(self, name: str, path: Sequence[str], start: str, end: str) -> None:
        if len(path) < 2 or path[0] != start or path[-1] != end:
            self.report(f"{name}: its path does not lead from {start} to {end}")
        if len(set(path)) != len(path):
            self.report(f"{name}: its path has a loop")
        for node in path[1:-1]:
            if node not in self.switches:
                self.report(f"{name}: its path goes through {node}, which does not forward")
        for a, b in zip(path, path[1:], strict=False):
            if (a, b) not in self.links:
                self.report(f"{name}: there is no link {a} -> {b}")

    def flow(self, path: Sequence[str], rate: Fraction) -> None:
        for ends in zip(path, path[1:], strict=False):
            self.on_link[ends] += rate

    def steer(
        self,
        who: str,
        steering: dict[tuple[int, str], tuple[str, int]],
        tag: int,
        path: Sequence[str],
        group: int,
    ) -> None:
        """Note what switches do with a tag. It must be the same for the packets of all workers."""
        does = [(node, (after, 0)) for node, after in zip(path, path[1:], strict=False)]
        if group:
            does.append((path[-1], ("", group)))
        for node, action in does:
            if steering.setdefault((tag, node), action) != action:
                self.report(f"{who}: {node} cannot steer by tag {tag}, which leads two ways there")

    def capacities(self) -> None:
        for ends, load in self.on_link.items():
            self.within(f"link {ends[0]} -> {ends[1]}", load, self.links.get(ends))
        for ends, results in self.results.items():
            both = results + self.on_link.get(ends, Fraction(0))
            self.within(f"link {ends[0]} -> {ends[1]}, with results", both, self.links.get(ends))
        for name, load in self.at_switch.items():
            switch = self.switches.get(name)
            if switch is None:
                continue
            self.within(f"switch {name}", load, switch.aggregation_bps)
            if switch.slots is not None and self.slots[name] > switch.slots:
                self.report(f"switch {name}: {self.slots[name]} slots of {switch.slots}")
        for name, load in self.at_server.items():
            self.within(f"PS {name}", load, self.network.ingress_bps(name))

    def within(self, name: str, load: Fraction, capacity: int | None) -> None:
        if capacity is not None and load > capacity * (1 + RELATIVE):
            self.report(f"{name}: {float(load):g} of {capacity} bit/s")

    def summary(self) -> None:
        """Check the loads and rates that the plan states."""
        plan = self.plan
        if plan.rate_bps != min(job.rate_bps for job in plan.jobs):
            self.report("the plan's rate is not that of its slowest job")
        if plan.bound_bps is not None and plan.rate_bps > plan.bound_bps * (1 + RELATIVE):
            self.report("the plan's rate is above its bound")
        for said, counted in (
            (plan.links, self.on_link),
            (plan.switches, self.at_switch),
            (plan.servers, self.at_server),
        ):
            for name in {*said, *counted}:
                load = said[name].load_bps if name in said else Fraction(-1)
                if not self.same(load, counted.get(name, Fraction(0))):
                    self.report(f"{name}: its load is not what the plan says")
        for ends, link in plan.links.items():
            if not self.same(link.results_bps, self.results.get(ends, Fraction(0))):
                self.report(f"{ends}: its results are not what the plan says")
