"""docs/results.md, generated from the declarations, so that both always agree.

python -m testbed.results.results_page > docs/results.md
"""

from __future__ import annotations

from testbed.results.counters import COUNTERS, DEPARTURES, LOSSES, RESENT
from testbed.results.fidelity import CPU_LIMIT, LAG_LIMIT, WINDOW_LIMIT
from testbed.results.schema import FORMAT, TABLES, Column

_HEAD = f"""# Results

<!-- Generated: python -m testbed.results.results_page > docs/results.md -->

Every run leaves one folder, `results/<name>-<UTC time>-<id>/`:

| path | content |
|---|---|
| `status.json` | state, fidelity mark and its reasons, the error of a failed run; format {FORMAT} |
| `experiment.yaml` | the resolved experiment, with every default; `ina` accepts it again |
| `environment.json` | kernel, CPU, versions, commit, unit of P4 timestamps, what the run has read |
| `tables/*.parquet` | the tables below |
| `logs/` | one log per host and switch |
| `figures/` | PNG and PDF, drawn from the tables |
| `captures/` | with `--pcap`: packets of the chosen ports ([captures.md](captures.md)) |
| `tags.txt` | words that `ina tag` has given, a line each |
| `report.txt` | the printed table |
| `report.html` | all of it as one page for the browser |

The [glossary](glossary.md) explains the terms.

`status.json` is written first, with the state `running`. It is replaced atomically at the end of
the run, with `finished`, `failed` or `interrupted`. If the state is `running` but the named process
no longer exists, the run was killed. Its tables are read as far as they were written, and the run
counts as unfinished. Files belong to the user who called sudo.

A run is `finished` only if every value was checked and correct, and every job ended, except jobs
killed by planned faults. Its fidelity mark is `ok` if all of these hold, otherwise `degraded`, with
the reasons ([fidelity.md](fidelity.md) explains the limits):

- no socket and no queue outside the experiment dropped a packet;
- no switch or host used more than {CPU_LIMIT:.0%} of a core in any second;
- the 99th percentile of each sender's lag is at most {LAG_LIMIT:.0%} of its job's mean iteration;
- the time that a fragment waits for processors on its way out and back is at most
  {WINDOW_LIMIT:.1%} of the time that its window takes at the links' rate;
- every planned fault took place.

The first four ignore hosts and switches that a planned fault paused, slowed, killed or restarted. A
runtime without invariants has no mark.

To read the results in Python:

```python
from testbed.results import read

results = read("results/quickstart-20260101T120000Z-3f9a")
print(results.state, results.fidelity, results.notice)
print(results.jobs[["name", "jct_ns", "ps_packets"]])
```

Each table is an attribute with a pandas data frame. A table that the run did not reach is empty.
Any Parquet reader opens the files; a field's metadata has the column's unit and meaning. All times
are nanoseconds since the start of the run. Null means "not measured", never 0.

## What a run has read

`inputs` in `environment.json` lists the content that the run depends on, each with its role, its
name without folders, and the SHA-256 of its content:

- the P4 program and every file that it may include, whichever conditions hold;
- models, recordings, programs of ranks, cluster traces;
- the file of the topology's class, a command's Python files, and the modules beside them that they
  import; files that a topology or a command names. For a topology of your own also the network that
  it made. What a program opens by itself, and folders, are not seen;
- packages of plug-ins that it used, with their versions.

`identity` is a hash of these and of the experiment without its name. Equal files in another folder
or checkout have the same identity. A [sweep](experiment.md#sweep) runs what has changed, `ina diff`
names the inputs that differ, and `trace`, `twin` and `pack` refuse a run whose inputs are not there
any more as they were. Older results have no `inputs`: a sweep runs them again, the others warn. A
network file's `results.json` has `inputs`, too.

The testbed's own code is not an input: a new version does not make finished points invalid, and
`sweep`, `figure` and `trace` say where results come from another one. `code` is a hash of all code
that a run depends on, `testbed` and `commit` are the version.

## Versions

The number `format` in `status.json`, now {FORMAT}, covers the whole folder: files, tables, columns
and units. The policy:

- It is raised when a reader of the old format would misread the new one: a column changes its
  meaning, unit or type, or is removed.
- Tables, columns and files may be added without a new format. In older results they are empty or
  null, and the hash of a run (`show --hash`) does not change.
- A version reads only the format that it writes. For another one, the error names the file with the
  commit that wrote the results, which can read them.

`CHANGELOG.md` lists the formats. Artifacts have a separate format ([artifacts.md](artifacts.md)).

## Tables
"""


def markdown() -> str:
    """The whole page."""
    parts = [_HEAD]
    for table in TABLES.values():
        parts.append(f"### {table.name}\n\n{table.meaning}\nKey: {', '.join(table.key)}.\n")
        lines = ["| column | dtype | unit | null | meaning |", "|---|---|---|---|---|"]
        lines += [_line(column) for column in table.columns]
        parts.append("\n".join(lines) + "\n")
    lines = ["## Switch counters", "", "| counter | unit | meaning |", "|---|---|---|"]
    for name, meaning in COUNTERS.items():
        lines.append(f"| `{name}` | {'ns' if name.endswith('_ns') else 'count'} | {meaning} |")
    parts.append("\n".join(lines) + "\n")
    lines = ["## Causes of departures", "", "| cause | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in DEPARTURES.items()]
    for title, causes in (("losses", LOSSES), ("retransmissions", RESENT)):
        lines += ["", f"## Causes of {title}", "", "| cause | meaning |", "|---|---|"]
        lines += [f"| `{name}` | {meaning} |" for name, meaning in causes.items()]
    parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _line(column: Column) -> str:
    meaning = column.meaning
    if column.allowed and len(column.allowed) < 6:
        meaning += f" ({', '.join(column.allowed)})"
    null = "yes" if column.nullable else ""
    return f"| `{column.name}` | {column.dtype} | {column.unit} | {null} | {meaning} |"


if __name__ == "__main__":
    print(markdown(), end="")
