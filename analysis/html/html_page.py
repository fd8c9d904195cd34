"""Charts, tables and texts as one self-contained HTML file.

A page has sections, a section has blocks. Blocks are data until the template writes them, which
escapes their texts. Numbers for charts go into the file as JSON, in an element that no browser
executes.
"""

from __future__ import annotations

import functools
import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from p4fabric.base.text_table import Table

from testbed.paths import sudo
from testbed.results import ResultsError, write_whole

_log = logging.getLogger(__name__)
FORMAT = 1  # of the data inside the file
LEGEND = 12  # names that a chart has room for
LONG = 60  # rows: a longer table scrolls in itself


@dataclass(frozen=True)
class Chart:
    """`spec` is Plotly's {data, layout}. `text` tells what it shows to those who cannot see it;
    `note` says how it was made (what was left out, thinned, merged). `height` in pixels.
    `over_time`: its x axis is the run's time in seconds, which all such charts zoom together.
    `link`: where its title leads."""

    name: str
    title: str
    spec: dict[str, Any]
    text: str
    note: str = ""
    height: int = 320
    over_time: bool = False
    link: str = ""
    kind: str = field(default="chart", init=False)


@dataclass(frozen=True)
class Multiples:
    """Charts side by side, as many in a row as there is room for, each at least `width` pixels
    wide. `legend`: (name, colour) of what all of them show; `text` stands above them."""

    name: str
    charts: Sequence[Chart]
    legend: Sequence[tuple[str, str]] = ()
    text: str = ""
    width: int = 260
    kind: str = field(default="multiples", init=False)


@dataclass(frozen=True)
class TableView:
    """A table on the page. With `filtered` it gets a field to search in it; `note` stands below.
    `links`: where cells lead, by their text."""

    table: Table
    filtered: bool = False
    note: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    kind: str = field(default="table", init=False)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `tone` is "", "good" or "bad". `link`: where it leads."""

    text: str
    tone: str = ""
    link: str = ""
    kind: str = field(default="words", init=False)


@dataclass(frozen=True)
class Figures:
    """The few numbers to look at first: (what, number, explanation)."""

    entries: Sequence[tuple[str, str, str]]
    kind: str = field(default="figures", init=False)


@dataclass(frozen=True)
class Listing:
    """A text as it stands, such as a file."""

    text: str
    kind: str = field(default="listing", init=False)


@dataclass(frozen=True)
class Choice:
    """Options of which one is shown: (title, blocks). `label` stands before the picker; choices of
    one `name` are made together."""

    name: str
    label: str
    options: Sequence[tuple[str, Sequence[Block]]]
    kind: str = field(default="choice", init=False)


Block = Chart | Multiples | TableView | Paragraph | Figures | Listing | Choice


@dataclass(frozen=True)
class Section:
    """`folded`: shown on demand; on paper it is left out."""

    name: str
    title: str
    blocks: Sequence[Block]
    folded: bool = False


@dataclass(frozen=True)
class Job:
    """A job that can be switched off in all charts."""

    number: int
    name: str
    color: str


@dataclass(frozen=True)
class Page:
    """A whole page; `jobs` are those that can be switched off. `wide`: it is as wide as its
    window."""

    title: str
    subtitle: str
    sections: Sequence[Section]
    jobs: Sequence[Job] = ()
    wide: bool = False

    @property
    def charts(self) -> list[Chart]:
        return [chart for section in self.sections for chart in charts(section.blocks)]


def charts(blocks: Sequence[Block]) -> Iterator[Chart]:
    """All charts in blocks."""
    for block in blocks:
        if isinstance(block, Chart):
            yield block
        elif isinstance(block, Multiples):
            yield from block.charts
        elif isinstance(block, Choice):
            for _, some in block.options:
                yield from charts(some)


def write(page: Page, path: Path) -> Path:
    """Writes the file; returns its path. Raises OSError, and ResultsError without Plotly."""
    text = render(page)
    write_whole(path, text)
    _log.debug("%s: %d charts, %d kB", path, len(page.charts), len(text) // 1000)
    return path


def render(page: Page) -> str:
    """The page as HTML."""
    charts = {
        chart.name: {
            **without_long_legend(chart.spec),
            "height": chart.height,
            "overTime": chart.over_time,
        }
        for chart in page.charts
    }
    if len(charts) < len(page.charts):
        raise ValueError("two charts of one name")
    return _template().render(
        page=page,
        over_time=any(chart.over_time for chart in page.charts),
        css=style_sheet(),
        shared=shared_script(),
        script=_file("page.js"),
        long=LONG,
        plotly=plotly_script() if charts else "",
        charts=script_json({"format": FORMAT, "charts": charts}),
    )


def without_long_legend(spec: dict[str, Any]) -> dict[str, Any]:
    """A chart ({data, layout}) whose legend does not name the jobs if there are many: it would take
    the chart's room, and the list of jobs above all charts has their colours."""
    data: list[dict[str, Any]] = spec["data"]
    if not spec["layout"].get("showlegend", True):
        return spec
    shown = [each for each in data if each.get("name") and each.get("showlegend", True)]
    if len({str(each.get("legendgroup", each["name"])) for each in shown}) <= LEGEND:
        return spec
    unnamed = {"showlegend": False}
    return spec | {"data": [each | unnamed if "meta" in each else each for each in data]}


def script_json(value: object) -> str:
    """JSON that may stand inside a <script> element; NaN and infinity become null."""
    text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    # "</script" and "<!--" would end the element or change how it is read.
    return text.replace("<", "\\u003c")


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@functools.cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("testbed.analysis.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")


def style_sheet() -> str:
    """The look of a page, as CSS."""
    return _file("page.css")


def shared_script() -> str:
    """JavaScript that the scripts of all pages share."""
    return _file("shared.js")


@functools.cache
def _file(name: str) -> str:
    return (
        resources.files("testbed.analysis.html")
        .joinpath("templates", name)
        .read_text(encoding="utf-8")
    )


@functools.cache
def plotly_script() -> str:
    """Plotly's program, from its Python package, which is not imported for it."""
    import importlib.util

    found = importlib.util.find_spec("plotly")
    if found is None or found.origin is None:
        raise ResultsError(
            f"the report needs the package plotly; run `{sudo()}./demo` to set it up"
        )
    path = Path(found.origin).parent / "package_data" / "plotly.min.js"
    # Nothing in it may end the element that it is put into.
    return path.read_text(encoding="utf-8").replace("</script", "<\\/script")
