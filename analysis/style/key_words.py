"""Keys of experiment files in words, for axes, legends and the headings of tables.

A key such as `jobs[0].speed_spread` is an address in a file; a reader of a figure does not have the
file. Its words are those of its last part, with what its section adds to them. Keys that nobody has
named, such as options of plug-ins, follow the same rule: `system.max_age` is "max age".
"""

from __future__ import annotations

import re

from testbed.collective_kinds import CARRIED

# What a section adds to the words of its keys; longer paths count first.
_SECTIONS = {
    "links": "link {}",
    "links.each.forward": "link {} forward",
    "links.each.backward": "link {} backward",
    "switches": "switch {}",
    "timers": "{} of hosts",
    "transport": "{} between hosts",
    "paths": "{} of paths",
    "jobs.model": "{} of the model",
    "jobs.model.requests": "{} of requests",
    "jobs.model.checks": "check of {}",
    "jobs.model.experts": "{} of experts",
    "jobs.placement": "placement of {}",
    "arrivals": "{} of arrivals",
    "arrivals.poisson": "{} of random arrivals",
    "arrivals.poisson.kinds": "{}",
    "arrivals.cluster_trace": "{} of the cluster trace",
    "arrivals.cluster_trace.models": "{}",
    "arrivals.submissions": "{}",
    **{f"collectives.{kind}": f"{{}} of {kind.replace('_', '-')}" for kind in CARRIED},
}
# What a member of a list is.
_MEMBERS = {
    "jobs": "job",
    "jobs.model.layers": "layer",
    "links.each": "exception",
    "switches.each": "exception",
    "arrivals.poisson.kinds": "job kind",
    "arrivals.cluster_trace.models": "traced job kind",
    "arrivals.submissions": "submission",
    "background": "background flow",
    "faults": "fault",
    **{f"collectives.{kind}": "rule" for kind in CARRIED},
}
# Keys whose last part is not what a reader would call them.
_KEYS = {
    "name": "name of the experiment",
    "timeout": "timeout of the run",
    "fabric": "preset of the fabric",
    "scale_windows": "windows scaled",
    "value_bits": "bits per value",
    "topology.per_server": "hosts per server",
    "topology.links": "links of the topology",
    "topology.switches": "switches of the topology",
    "topology.servers": "servers of the topology",
    "topology.tors": "ToR switches",
    "topology.k": "k of the fat tree",
    "memory.size": "switch memory",
    "system.name": "system",
    "system.memory": "memory rules",
    "links.each": "exceptions of links",
    "switches.each": "exceptions of switches",
    "switches.each.switch": "switch",
}
_PARTS = {
    "ecn_threshold": "ECN threshold",
    "duplicate": "duplicates",
    "reorder": "reordering",
    "ack_delay": "delay of acknowledgements",
    "gpu": "GPU",
    "gpus_per_worker": "GPUs per worker",
    "ps": "PS",
    "csv": "CSV file",
    "tp": "tensor parallelism",
    "cp": "context parallelism",
    "ep": "expert parallelism",
    "dp": "data parallelism",
    "pp": "pipeline parallelism",
    "up to": "largest size",
    "use": "algorithm",
    "inside": "algorithm inside servers",
    "between": "place",
    "from": "source",
    "to": "target",
    "for": "duration",
    "at": "time",
    "on": "time on",
    "off": "time off",
}
_INDEX = re.compile(r"\[(\d+|\*)\]")
# Of plain numbers; other quantities have their unit in the file.
_UNITS = {"system.window": "fragments", "system.gap": "fragments", "system.quota": "slots"}


def words(key: str) -> str:
    """Words for a key: `links.loss` is "link loss", `jobs[1].scale` "scale of job 1", and
    `jobs[*].scale` "scale"."""
    path = _INDEX.sub("", key)
    section, _, last = path.rpartition(".")
    said = _KEYS.get(path)
    if section.split(".")[0] == "costs":  # whose parts have the same keys
        said = f"cost {path.partition('.')[2].replace('.', ' ').replace('_', ' ')}"
    if said is None:
        ways = (way for each in _upwards(section) if (way := _SECTIONS.get(each)))
        said = next(ways, "{}").format(_PARTS.get(last, last.replace("_", " ")))
    for index in _INDEX.finditer(key):
        inside = _INDEX.sub("", key[: index.start()])
        member = _MEMBERS.get(inside, inside.rpartition(".")[2].replace("_", " "))
        if index[1] != "*":
            said += f" of {member} {index[1]}"
        elif inside != "jobs":
            said += f" of each {member}"
    return said


def unit(key: str) -> str:
    """The unit of a key's plain numbers, "" for none."""
    return _UNITS.get(key, "")


def heading(key: str) -> str:
    """The words of a key with the unit of its plain numbers."""
    return f"{words(key)} ({unit(key)})" if unit(key) else words(key)


def _upwards(section: str) -> list[str]:
    """A section, the one around it, and so on."""
    parts = section.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
