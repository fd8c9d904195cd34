"""Checks of a trace in Chrome's JSON format, by the rules of its definition and of Perfetto's
importer: fields and types of each kind of event, slices of a thread that nest, async events in
pairs, counters with numbers, and names for all processes and threads."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

NUMBER = (int, float)
FIELDS = {
    "X": {"name": str, "cat": str, "ts": NUMBER, "dur": NUMBER},
    "b": {"name": str, "cat": str, "ts": NUMBER, "id": str},
    "e": {"name": str, "cat": str, "ts": NUMBER, "id": str},
    "C": {"name": str, "ts": NUMBER, "args": dict},
    "i": {"name": str, "cat": str, "ts": NUMBER, "s": str},
    "M": {"name": str, "args": dict},
}
METADATA = {
    "process_name": {"name": str},
    "process_sort_index": {"sort_index": int},
    "thread_name": {"name": str},
    "thread_sort_index": {"sort_index": int},
}


def checked(path: Path) -> list[dict]:
    """The events of a trace, after asserting that it is sound."""
    whole = json.loads(path.read_text())
    assert whole["displayTimeUnit"] in ("ms", "ns")
    assert isinstance(whole.get("otherData", {}), dict)
    events = whole["traceEvents"]
    slices: dict[tuple, list[tuple]] = defaultdict(list)
    flights: dict[tuple, list[dict]] = defaultdict(list)
    processes, threads, used = set(), set(), Counter()
    for event in events:
        kind = event["ph"]
        assert kind in FIELDS, event
        assert type(event["pid"]) is int and type(event["tid"]) is int, event
        for field, wanted in FIELDS[kind].items():
            value = event[field]
            assert isinstance(value, wanted) and not isinstance(value, bool), (field, event)
        if kind == "M":
            known = METADATA[event["name"]]
            assert {name: type(value) for name, value in event["args"].items()} == known, event
            if event["name"] == "process_name":
                assert event["pid"] not in processes, "a process has one name"
                processes.add(event["pid"])
            elif event["name"] == "thread_name":
                threads.add((event["pid"], event["tid"]))
            continue
        assert event["ts"] >= 0 and round(event["ts"] * 1000) / 1000 == event["ts"], event
        used[event["pid"]] += 1
        if kind == "X":
            assert event["dur"] >= 0
            assert (event["pid"], event["tid"]) in threads, event
            # In ns, since sums of decimals are not exact.
            begin = round(event["ts"] * 1000)
            place = event["pid"], event["tid"]
            slices[place].append((begin, begin + round(event["dur"] * 1000)))
        elif kind in "be":
            flights[event["pid"], event["cat"], event["id"]].append(event)
        elif kind == "C":
            assert event["args"], event
            for value in event["args"].values():
                assert isinstance(value, NUMBER) and not isinstance(value, bool), event
        elif kind == "i":
            assert event["s"] in ("g", "p", "t")
    assert set(used) <= processes, "every process has a name"
    for spans in slices.values():
        open_until: list[int] = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or end <= open_until[-1], "slices of a thread cross"
            open_until.append(end)
    for pair in flights.values():
        assert [each["ph"] for each in pair] == ["b", "e"], pair
        assert pair[0]["name"] == pair[1]["name"] and pair[0]["ts"] <= pair[1]["ts"], pair
    return events
