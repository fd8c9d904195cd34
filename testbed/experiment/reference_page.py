"""docs/experiment.md, made from the schema, so that the page and the program always agree.

python -m testbed.experiment.reference_page > docs/experiment.md
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from p4fabric.base.config.explain import section_model
from p4fabric.base.config.fields import Kind, Quantity, kind_of
from p4fabric.base.config.link_settings import LinkSettings
from pydantic.fields import FieldInfo

from testbed import systems
from testbed.algorithms.by_name import USE_OF
from testbed.costs.profile import (
    AlgorithmCosts,
    Algorithms,
    CopyCosts,
    Costs,
    CostSection,
    HostCosts,
    NicCosts,
    ProtocolCosts,
    ServerCosts,
    Source,
    SwitchCosts,
)
from testbed.experiment.figure import Figure
from testbed.experiment.resolve_topology import parameters
from testbed.experiment.schema import ExperimentFile, Memory, Timers, VirtualTime
from testbed.experiment.schema_arrivals import Arrivals, ClusterTrace, Poisson
from testbed.experiment.schema_arrivals import Kind as JobKind
from testbed.experiment.schema_background import Background
from testbed.experiment.schema_collectives import Collectives, Route
from testbed.experiment.schema_jobs import (
    Experts,
    Fault,
    Job,
    JobShape,
    Parallel,
    Placement,
    RankModel,
    Sample,
)
from testbed.experiment.schema_network import (
    LinkException,
    Links,
    Lossless,
    Paths,
    Switches,
    SwitchException,
    SwitchSettings,
    Transport,
)
from testbed.experiment.schema_serving import Requests, ServingChecks
from testbed.protocols.sizes import BITMAP_WIDTHS, MAX_JOBS
from testbed.results.schema import FIGURE_MEASURES
from testbed.topos import KINDS

OPENING = """\
# The experiment file

An experiment is one YAML file. `ina check FILE` checks it, `ina show FILE` prints it with all
defaults, `ina FILE` runs it. A small example:

```yaml
topology: {kind: star, hosts: 5}
system: esa
memory: {aggregators: 256}
jobs:
  - {model: resnet50, workers: 4, iterations: 3, scale: 0.02}
```

The file is checked completely before anything is built. All errors are printed together, each with
the line, the key, the value found, the allowed values and, for a misspelt key, the nearest key.

**Quantities carry units**: rates `bit/s kbit/s Mbit/s Gbit/s Tbit/s` (also `bps`, `Mbps`, ...),
times `ns us ms s min`, sizes `B KiB MiB GiB` (powers of 1024) and `kB MB GB` (powers of 1000),
`packets`, `%`. Only 0 needs none. A quantity is a whole number of its base unit (bit/s, ns, B,
packets).

**Paths** (a trace, a topology, a P4 program of your own) are relative to the experiment file.

**YAML**: a word is a number if it looks like a decimal number (`1e3` does), a boolean if it is
`true` or `false`, otherwise text. Keys that take a boolean also accept `on`, `off`, `yes` and `no`.
A key without a value, a key given twice, tags and merge keys (`<<`) are errors. Anchors and aliases
work.

This page is made from the schema by `python -m testbed.experiment.reference_page`.
"""

TOPOLOGY = """\
`kind` names a topology of the folder topos/ or of an installed plug-in. `class` names one of
your own: `class: my.py:MyTopology` is the class `MyTopology` in `my.py`, a subclass of
`testbed.topology.Topology`. A subclass of Mininet's `Topo` is converted, with `bw`, `delay`,
`jitter`, `loss` and `max_queue_size` of its links. The other keys are the arguments of the class.

```python
from p4fabric.base.topology import Topology

class Pair(Topology):
    def __init__(self, hosts: int = 2):
        self.add_switch("s1")
        for number in range(1, hosts + 1):
            self.add_link(self.add_host(f"h{number}"), "s1", bandwidth="10 Mbit/s")
```

A name has a small letter and up to 7 more small letters or digits. A host has exactly one link, to
a switch. A switch has at most 510 links, because port numbers have 9 bits in P4's v1model, and a
topology at most 65,000 nodes. All nodes must be connected. `add_link` takes the keys of `links:`,
`forward` and `backward`, and `tier`, a word for what the link is.

### Servers

A host is one rank, with a link and a network card (NIC) of its own. Several hosts may be one
*server*, a machine with several GPUs and NICs: `add_host("h1", server="n1")`. Links, addresses and
ports are the same with and without servers. The hosts of a server have the *local ranks* 0, 1, ...
in order; of equally short paths the r-th leads to a host of local rank r, and the communicator of a
job or group takes the r-th if its first worker has local rank r. A host with `ps=True` is for
parameter servers: a worker gets it only if no other host is free. On Mininet the hosts of a server
share a network namespace ([servers.md](servers.md)).
"""

_WIDTHS = f"{', '.join(map(str, BITMAP_WIDTHS[:-1]))} or {BITMAP_WIDTHS[-1]} bits"
MEMORY = f"""\
An aggregator's size counts all its state: values, bitmap (as wide as the largest job needs:
{_WIDTHS}) and the system's own record. `ina show` prints the size.
"""


TIMERS = """\
On a real clock, the values of `auto` allow for processes that are not scheduled for milliseconds.
In virtual time they follow the network. F is the time of a whole frame on the slowest of the job's
links to its switches (1 Gbit/s if all are unlimited). R is the round trip in the empty network
between a worker and its server (or root switch, or neighbour).

| `auto` | real clock | virtual time |
|---|---|---|
| timeouts, minimum and maximum | 100 ms, 1 s | 400 F + 4 R, ten times that |
| reminders, minimum and maximum | 2 ms, 200 ms | 8 F + R, a hundred times that |
| acknowledgements | 5 ms | 20 F |
| burst | 50 F, within 2 ms to 10 ms | 8 F |

At 10 Mbit/s both give about the same, except for the burst: in virtual time no sender is late. With
system grid, the minimum of reminders is at least the time of a window at the plan's rate, in both
runtimes.
"""

VIRTUAL = """\
[virtual.md](virtual.md) explains the model and where the defaults come from.
"""

COSTS = """\
A profile by its name (`none`, `h100-nvlink`, `h100-nvlink-graphs`, `h100-roce-400g`,
`tofino-100g-dpdk`, `mininet`), a file, or a mapping of the keys below, also with `from`:

```yaml
costs: {from: tofino-100g-dpdk, host: {delay: 2 us}}
```

A file has the same keys, and needs a `source` for each number. What a profile does not name costs
0, also delays of hosts and switches that have other defaults without a profile. A key of
[virtual](#virtual) that the file gives counts more than the profile. What the runtime or the system
cannot honour is an error. [costs.md](costs.md) says what each number does, and where those of the
shipped profiles are from.
"""

ARRIVALS = """\
```yaml
arrivals:
  placement: spread
  poisson:
    jobs: 40
    interval: 2 ms
    kinds:
      - {name: small, model: resnet18, workers: 4, iterations: 3, scale: 0.01, weight: 3}
      - {name: large, model: vgg16, workers: 8, iterations: 3, scale: 0.01}
```

The first line of a CSV file names its columns. A cell has the value as in YAML; an empty cell
leaves the key out. Lines that begin with `#` are skipped:

```csv
submit, model, workers, iterations, scale
0, resnet50, 4, 3, 0.01
1.5 ms, vgg16, 8, 3, 0.005
```

A job is submitted, waits for enough free hosts (in the order of `queue`), runs on its hosts, and
frees them. The completion time (JCT) counts from the submission; tables and report show the waiting
time separately. [virtual.md](virtual.md#jobs-that-come-and-go) describes the model.
"""

KINDS_OF_JOBS = """\
In addition to the keys of [jobs](#jobs) except `start` and `placement`:
"""

CLUSTER_TRACE = """\
```yaml
arrivals:
  queue: first_fit
  cluster_trace:
    file: cluster_log.csv
    format: helios
    jobs: 500
    time_scale: 0.000001     # a day of the trace is 86.4 ms
    most_workers: 16
    models:
      - {model: resnet50, scale: 0.001, compute_scale: 0.0001, weight: 3}
      - {model: vgg16, scale: 0.0005, compute_scale: 0.0001}
```

[virtual.md](virtual.md#cluster-traces) describes the use and the sources of the traces.
"""

BACKGROUND = """\
```yaml
background:
  - {kind: tcp, from: h7, to: h8}
  - {kind: udp, from: random, to: random, flows: 4, rate: 20 Mbit/s, on: 50 ms, off: 150 ms}
  - {name: incast, kind: tcp, from: [h5, h6, h7], to: h1, burst: 64 KiB, every: 100 ms}
```

Table `flows` of the results has each flow's traffic. [background.md](background.md) describes the
flows on each runtime.
"""

FAULTS = """\
```yaml
faults:
  - {at: 2 s, fault: pause, job: big, worker: 1, for: 500 ms}
  - {at: 3 s, fault: slow, job: big, worker: 0, factor: 3}
  - {at: 4 s, fault: restart, switch: s1}
  - {at: 5 s, fault: kill, job: small}
  - {at: 6 s, fault: link_down, between: [s1, s3], for: 2 s, failover: 100 ms}
```

Table `faults` of the results has the actual time of each fault. If the target had finished before,
the fault did not take place, and the run is `degraded`. Two faults cannot affect one process at the
same time, except `kill`. Faults of links work in virtual time as on Mininet, and not with BMv2.
[reliability.md](reliability.md) describes the systems' behaviour.
"""


TUNE = """\
Options of the system that are numbers may be tuned before a run, in place of being named. `window:
best` under `system` tries the powers of two from half the bandwidth-delay product to 1,024, or to
eight times the product, as far as the switch memory has use for them. `tune` names values, each of
which is tried with those of the other options:

```yaml
system: {name: ps, window: best}
tune: {servers: [1, 2, 4]}       # lists, ranges as in a sweep, or `window: best`
```

A trial is a run with one repetition and a seed that is not among the reported ones. All values are
tried of a key with up to six, else golden section chooses which. Values within 2 % of the best mean
JCT are tried with two more seeds; of those within 0.5 % then the smallest is taken. Trials are kept
in `results/.trials/` and are not run again as long as nothing that they depend on has changed. The
results of the run have table `tuning` with all trials; tables and pages name the values, with an
asterisk where the best one is at the edge of its range. In a sweep, each point is tuned for itself,
and options that only some of its systems have are tuned for those. On Mininet each trial takes as
long as a repetition of the run.
[verdicts.md](verdicts.md) says why.
"""


SWEEP = """\
A file with the key `sweep` describes several experiments, its *points*: `ina sweep FILE` (or
`ina FILE`) checks all of them, runs them and compares them. Each key of the file may be varied.
It is named by its path; `[*]` means all members of a list.

```yaml
sweep:
  system: [esa, {name: atp, release: on_completion}, switchml]   # every value of one key with
  memory.aggregators: {from: 16, to: 256, times: 2}              # every value of the others
  links.loss: [0 %, 1 %]
  together:                  # values that vary together: the first with the first, ...
    - links.delay: [10 us, 1 ms]
      jobs[*].iterations: [4, 2]
  skip:                      # points to skip: all of these keys match
    - {system: switchml, links.loss: 1 %}
```

A range is `{from, to, step}` or `{from, to, times}`. A value replaces the whole value of that key,
so a system needs all its options again. A point whose system does not aggregate in the switch
ignores the file's `memory`. Points that become equal because of this are merged. Jobs without an
explicit placement have the same workers at all points. If only some systems have servers, the
servers' hosts stay idle at the other points, if there are enough hosts; otherwise `check` and
`sweep` warn that workers differ.

The results are in `results/NAME/`: `report.txt`, `data.csv` and `figures/` of the sweep, and one
folder per point. The folder's name is a hash of the resolved experiment without its name, and of
the content of [all files that it reads](results.md#what-a-run-has-read). A repeated command
continues with the unfinished points, and runs points again whose experiment or files have changed;
it says what has. Earlier runs stay in the folder, outside the sweep; they count again when a file
is as it was. To repeat a point, delete its folder. The command reports points that finished with
other code of the testbed, which it does not run again. A point that fails is reported and does not
stop the others; the exit code is then 1. Points in virtual time run in parallel: on all processors,
on `--processes N`, or on a Dask cluster that shares the folder (`--dask tcp://HOST:PORT`,
[dask.md](dask.md)). Points on Mininet run one after the other, on a cluster one at a time on each
machine.
"""


ROBUST = """\
```yaml
robust: {runs: 32}
```

Further runs of a sweep, at most so many, that show what its verdicts depend on; `ina sweep FILE
--robust [RUNS]` asks for them, too. Points that differ in nothing but their `system` are a
comparison. When they have finished, all of its systems run again, with one repetition and one thing
changed at a time: the seed, the delay and jitter of hosts, the window (half and twice), the scale,
the phase of jobs, the length of queues, the order and names of jobs; then with several changes at
once, drawn as a Latin hypercube. What was tuned keeps its value. Report, JSON and page say in
which range the verdict holds, what it depends on, and which factors do not apply and why. If the
runs do not suffice for every comparison of the sweep, some are varied, evenly spread over them.
[verdicts.md](verdicts.md) has an example.
"""


FIGURE = """
```yaml
figure:
  claim: ESA needs less switch memory than ATP for the same JCT.
  x: memory.aggregators
  panels: [ps_packets_per_fragment, jct, jct_ratio]
```

The figure has one panel per measure. With three or more repetitions it shows 95 % confidence
intervals. `results/NAME/figures/` gets the figure as PDF and PNG and its numbers as CSV.

With `rows` the figure is a map of where aggregation in switches pays, here one for each model:

```yaml
sweep:
  jobs[0].model: [vgg16, gpt2]
  gpu: [v100, a100]
  links.bandwidth: [10 Gbit/s, 100 Gbit/s]
  system: [esa, switchml, ring, double_tree]
figure:
  claim: Faster GPUs and slower links favour aggregation in switches.
  x: links.bandwidth
  rows: [gpu]
  each: jobs[0].model
```

[figures.md](figures.md) lists the figures of this repository. `--scale X` multiplies the jobs'
`scale` and `compute_scale` and writes into `results/NAME-xX`.
"""


COST_SECTIONS = {
    "sources": Source,
    "algorithms": Algorithms,
    "algorithms.ring": AlgorithmCosts,
    "algorithms.ring.Simple": ProtocolCosts,
    "nic": NicCosts,
    "host": HostCosts,
    "server": ServerCosts,
    "copy": CopyCosts,
    "switch": SwitchCosts,
}


def reference() -> str:
    """The page."""
    parts = [OPENING, "## Top level\n", _table(ExperimentFile)]
    parts += ["## topology\n", TOPOLOGY, *_topologies()]
    parts += ["## links\n", _table(Links), "### links.each[]\n", _text(LinkException)]
    parts += [_table(LinkException, leave_out=LinkSettings)]
    parts += ["### links.lossless\n", _text(Lossless), _table(Lossless)]
    parts += ["## paths\n", _text(Paths), _table(Paths)]
    parts += ["## switches\n", _table(Switches), "### switches.each[]\n", _text(SwitchException)]
    parts += [_table(SwitchException, leave_out=SwitchSettings), "## system\n"]
    for system in systems.SYSTEMS.values():
        parts += [f"### {system.name}\n", _text(system.option_model), _options(system)]
    parts += ["## collectives\n", _text(Collectives), _table(Collectives)]
    parts += ["### collectives.all_reduce[]\n", _text(Route), _table(Route)]
    parts += ["## memory\n", _text(Memory), _table(Memory), MEMORY]
    parts += ["## timers\n", _text(Timers), TIMERS, _table(Timers)]
    parts += ["## virtual\n", _text(VirtualTime), VIRTUAL, _table(VirtualTime)]
    parts += ["## costs\n", COSTS, _table(Costs)]
    for key, model in COST_SECTIONS.items():
        parts += [f"### costs.{key}\n", _text(model), _table(model)]
    parts += ["## jobs[]\n", _text(Job), _table(Job)]
    parts += ["### jobs[].model\n", _text(RankModel), _table(RankModel)]
    parts += ["### jobs[].model.experts\n", _text(Experts), _table(Experts)]
    parts += ["### jobs[].model.requests\n", _text(Requests), _table(Requests)]
    parts += ["### jobs[].model.checks\n", _text(ServingChecks), _table(ServingChecks)]
    parts += ["### jobs[].model.sample\n", _text(Sample), _table(Sample)]
    parts += ["### jobs[].placement\n", _text(Placement), _table(Placement)]
    parts += ["### jobs[].parallel\n", _text(Parallel), _table(Parallel)]
    parts += ["## arrivals\n", _text(Arrivals), ARRIVALS, _table(Arrivals)]
    parts += ["### arrivals.poisson\n", _text(Poisson), _table(Poisson)]
    parts += ["### arrivals.poisson.kinds[]\n", _text(JobKind), KINDS_OF_JOBS]
    parts += [_table(JobKind, leave_out=JobShape)]
    parts += ["### arrivals.cluster_trace\n", _text(ClusterTrace), CLUSTER_TRACE]
    parts += [_table(ClusterTrace)]
    parts += ["## background[]\n", _text(Background), BACKGROUND, _table(Background)]
    parts += ["## transport\n", _text(Transport), _table(Transport)]
    parts += ["## faults[]\n", _text(Fault), FAULTS, _table(Fault)]
    parts += ["## tune\n", TUNE, "## sweep\n", SWEEP]
    parts += ["## robust\n", ROBUST]
    parts += ["## figure\n", _text(Figure), _table(Figure), FIGURE.removeprefix("\n")]
    return "\n".join(parts)


def _text(model: type) -> str:
    return (inspect.getdoc(model) or "") + "\n"


def _options(system: systems.System) -> str:
    """The table of a system's options, with its own name as the only one allowed."""
    table = _table(system.option_model).split("\n")
    table[2] = f"| `name` | {system.name} | required | The system's name. |"
    return "\n".join(table)


def _table(model: Any, leave_out: Any = None) -> str:
    rows = ["| key | allowed | default | meaning |", "|---|---|---|---|"]
    for name, info in model.model_fields.items():
        if leave_out is not None and name in leave_out.model_fields:
            continue
        cells = (f"`{info.alias or name}`", _allowed(name, info), _default(info), info.description)
        rows.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _allowed(name: str, info: FieldInfo) -> str:
    kind = kind_of(info)
    if kind:
        return kind.allowed
    if (model := section_model(info.annotation)) and issubclass(model, CostSection):
        return "a mapping; see below" if model is not Costs else "see [costs](#costs)"
    sections = {
        "topology": "see [topology](#topology)",
        "links": "see [links](#links)",
        "switches": "see [switches](#switches)",
        "switch": "a name",
        "system": "a name, or a mapping; see [system](#system)",
        "paths": "see [paths](#paths)",
        "memory": "see [memory](#memory)",
        "collectives": "see [collectives](#collectives)",
        "jobs": f"a list of 1 to {MAX_JOBS}; see [jobs](#jobs)",
        "background": "a list; see [background](#background)",
        "faults": "a list; see [faults](#faults)",
        "timers": "see [timers](#timers)",
        "virtual": "see [virtual](#virtual)",
        "each": "a list; see below",
        "lossless": "`none`, `pfc`, `cbfc`, or a mapping; see [below](#linkslossless)",
        "forward": "a mapping",
        "backward": "a mapping",
        "between": "two names",
        **dict.fromkeys(USE_OF, "a list; see below"),
        "panels": f"a list of {', '.join(FIGURE_MEASURES)}",
        "reported": "a list of 1 to 4 names",
        "rows": "a list of 1 to 4 varied keys",
        "workers": "a list of hosts",
        "model": "text, or a mapping; see [below](#jobsmodel)",
        "sample": "a mapping; see [below](#jobsmodelsample)",
        "requests": "a mapping; see [below](#jobsmodelrequests)",
        "checks": "a mapping; see [below](#jobsmodelchecks)",
        "experts": "a mapping; see [below](#jobsmodelexperts)",
        "parallel": "a mapping; see [below](#jobsparallel)",
        "placement": "`packed`, `spread`, `random`, or a mapping; see [below](#jobsplacement)",
        "arrivals": "see [arrivals](#arrivals)",
        "transport": "a mapping; see [transport](#transport)",
        "poisson": "a mapping; see [below](#arrivalspoisson)",
        "cluster_trace": "a mapping; see [below](#arrivalscluster_trace)",
        "models": f"a list of 1 to {MAX_JOBS}",
        "submissions": f"a list of 1 to {MAX_JOBS}",
        "kinds": f"a list of 1 to {MAX_JOBS}; see [below](#arrivalspoissonkinds)",
    }
    return sections[name]


def _default(info: FieldInfo) -> str:
    extra = info.json_schema_extra
    if isinstance(extra, dict) and "default" in extra:
        return str(extra["default"])
    if info.is_required():
        return "required"
    kind = kind_of(info)
    if isinstance(info.default, CostSection):
        return "all 0"
    if kind is None:
        usual = (Links(), Switches(), Timers(), Collectives())
        return "all defaults" if info.default in usual else "none"
    value = kind.show(info.default) if info.default is not None or _has_word(kind) else None
    if value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _has_word(kind: Kind) -> bool:
    """True if it has a word for None."""
    if isinstance(kind, Quantity):
        return any(meaning is None for _, meaning in kind.words)
    return bool(getattr(kind, "word", ""))


def _topologies() -> Iterator[str]:
    for kind, cls in KINDS.items():
        yield f"### kind: {kind}\n"
        yield (inspect.getdoc(cls) or "") + "\n"
        rows = ["| key | type | default |", "|---|---|---|"]
        for name, (annotation, default) in parameters(cls).items():
            required = default is inspect.Parameter.empty
            shown = "required" if required else f"`{default}`"
            of_several = str(annotation).replace(" | None", "").replace(" | ", " or ")
            type_name = getattr(annotation, "__name__", of_several)
            rows.append(f"| `{name}` | {type_name} | {shown} |")
        yield "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
