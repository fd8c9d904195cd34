"""Hardware that a run's jobs use beside the network: hosts, each with a port of a switch, and
parameter servers, on hosts of their own or on workers'; and the costs that its hosts were given.

A system with servers may be faster because it has more hosts. So tables that compare runs show
them beside the times.
"""

from __future__ import annotations

from testbed.results import Results

NAMES = ("servers", "hosts")
SAYING = {"name", "about", "protocol", "sources"}  # keys of a cost profile that cost nothing


def hardware(results: Results) -> dict[str, int]:
    """Numbers of `servers` and of `hosts` with a role, each of which uses a port; {} where jobs
    come and go, or no experiment was recorded."""
    jobs = results.experiment.get("jobs")
    if not jobs:
        return {}
    servers, hosts = 0, set()
    for job in jobs:
        placed = job.get("placement")
        if not isinstance(placed, dict):
            return {}
        own = [placed["ps"]] if isinstance(placed.get("ps"), str) else placed.get("ps") or []
        hosts |= {*placed["workers"], *own}
        servers += len(own) or _on_workers(results.experiment.get("system"), placed["workers"])
    return {"servers": servers, "hosts": len(hosts)}


def costs_words(results: Results) -> str:
    """The cost profile of a run, as `costs: profile none, all 0`; "" where it names none."""
    costs = results.experiment.get("costs")
    if not isinstance(costs, dict):
        return ""
    return f"costs: profile {costs.get('name')}{'' if costs.keys() - SAYING else ', all 0'}"


def _on_workers(system: object, workers: list[str]) -> int:
    """Parameter servers of a job that are on its workers' hosts."""
    if not isinstance(system, dict) or system.get("name") != "colocated_ps":
        return 0
    given = system.get("servers")
    return min(given, len(workers)) if isinstance(given, int) else len(workers)
