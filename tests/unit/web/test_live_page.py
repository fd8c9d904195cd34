"""A live page's server and its charts, without a browser."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from testbed.web.live_charts import LiveCharts
from testbed.web.live_page import LivePage
from tests.support.live_runs import JOBS, MS, FakeRun, snapshot, state


def answer(address: str, **headers: str) -> tuple[int, bytes]:
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as found:
            return found.status, found.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def events(text: bytes) -> dict[str, dict]:
    """The last event of each kind in a stream."""
    found = {}
    for part in text.decode().split("\n\n"):
        lines = part.split("\n")
        if lines[0].startswith("event: "):
            found[lines[0][7:]] = json.loads(lines[1][6:])
    return found


def test_the_token_opens_the_page_and_nothing_else_does():
    """An unknown page is 404 only for who has the token; another site's name is refused."""
    page = LivePage()
    root, token = page.address[:-1].rsplit("/", 1)
    assert answer(page.address)[0] == 200
    assert answer(f"{root}/{token}")[0] == 200  # led to the address with its stroke
    assert answer(page.address + "else")[0] == 404
    assert answer(page.address + "report.html")[0] == 404
    wrong = ["", "/", "/events", f"/{token[:-1]}/", f"/{token}x/events", f"/x/{token}/"]
    assert [answer(root + path)[0] for path in wrong] == [403] * len(wrong)
    assert answer(page.address, Host="elsewhere.example:80")[0] == 403
    # As when the run is killed: nothing says that it is over.
    page._connection.close()
    assert page._process.wait(60) == 0


def begin_and_draw(page: LivePage) -> FakeRun:
    run = FakeRun()
    page.begin(JOBS, run.sources())
    run.snapshots.add("s1", 5 * MS, snapshot(3, 2))
    run.iterate(0)
    run.iterate(1, end=False)
    page.show(state("a run, 15 ms"))
    page.draw(15 * MS, run.ports())
    return run


def test_a_reader_hears_of_tables_charts_and_the_end(tmp_path):
    (tmp_path / "report.html").write_text("the report")
    with LivePage(stay=True) as page:
        begin_and_draw(page)
        answered = urllib.request.urlopen(page.address + "events", timeout=30)
        heard = b""
        while b"event: charts" not in heard:
            heard += answered.read1()
        page.end("Finished.", tmp_path / "report.html")
        while b"event: end" not in heard:
            heard += answered.read1()
        assert answer(page.address + "report.html") == (200, b"the report")
    heard += answered.read()  # the page's end ends the stream
    found = events(heard)
    assert found["state"]["headline"] == "a run, 15 ms"
    names = {"topology", "timeline", "states-s1", "owners-s1", "pool-s1"}
    assert set(found["charts"]) == names
    assert found["drawn"] == {"elapsed_ns": 15 * MS}
    assert found["end"] == {
        "how": "Finished.",
        "report": str(tmp_path / "report.html"),
        "link": "report.html",
    }
    with pytest.raises(OSError):
        answer(page.address)


def test_charts_grow_and_only_those_that_changed_are_told():
    charts, run = LiveCharts(), FakeRun()
    charts.begin(JOBS, 0)
    page = Told()
    LivePage.begin(page, JOBS, run.sources())
    run.iterate(0)
    run.iterate(1, end=False)
    run.snapshots.add("s1", 5 * MS, snapshot(3, 2))
    run.carried = 1000
    LivePage.draw(page, 15 * MS, run.ports())
    charts.add(page.said["draw"])
    first = charts.changed()
    bars = [trace for trace in first["timeline"]["data"] if "base" in trace]
    # Forward and backward pass of each iteration, the wait between, and the first one's exchange.
    assert sum(len(trace["x"]) for trace in bars) == 6
    assert not charts.changed()
    run.iterate(1)
    run.said = [
        {"job": 0, "worker": 0, "number": 0, "name": "loss", "step": 1, "time_ns": 1, "value": 0.5}
    ]
    LivePage.draw(page, 15 * MS, run.ports())
    # What has ended is told once.
    assert page.said["draw"]["times"][0]["first"] == 1
    charts.add(page.said["draw"])
    assert set(charts.changed()) == {"timeline", "measure-loss"}


def test_loads_are_those_since_the_last_look():
    charts, run, page = LiveCharts(), FakeRun(), Told()
    charts.begin(JOBS, 0)
    LivePage.begin(page, JOBS, run.sources())
    for elapsed_ms, carried in ((1000, 100_000), (2000, 112_500)):
        run.carried = carried
        LivePage.draw(page, elapsed_ms * MS, run.ports())
        charts.add(page.said["draw"])
    traces = charts.changed()["topology"]["data"]
    # 12 500 bytes in a second are a tenth of 1 Mbit/s, 112 500 in two were 45 %.
    assert "12.5 kB, 10.0 % of its rate" in next(
        text for trace in traces for text in trace.get("hovertext", []) if "rate" in text
    )


class Told(LivePage):
    """Says nothing to anybody."""

    def __init__(self) -> None:
        self.said: dict[str, dict] = {}

    def _say(self, kind: str, content: dict) -> None:
        self.said[kind] = content
