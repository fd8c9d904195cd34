"""What is wrong with the layout of a page that a browser shows."""

from __future__ import annotations

from typing import Any

# Texts of charts that reach out of their chart, which would cut them.
_CUT = """
[...document.querySelectorAll(".chart:not([hidden] *)")].flatMap((chart) => {
  const box = chart.getBoundingClientRect();
  return [...chart.querySelectorAll("text")].filter((text) => {
    const own = text.getBoundingClientRect();
    return own.width && (own.left < box.left - 1 || own.right > box.right + 1
      || own.top < box.top - 1 || own.bottom > box.bottom + 1);
  }).map((text) => `${chart.id}: ${text.textContent}`);
})
"""
# Tables whose last row is below the edge of what shows them.
_HIDDEN_ROWS = """
[...document.querySelectorAll(".scroll:not(.long)")].filter((each) => {
  const last = each.querySelector("tbody tr:last-child");
  return last && last.getBoundingClientRect().bottom > each.getBoundingClientRect().bottom + 1;
}).map((each) => each.getAttribute("aria-label"))
"""
# Pixels between the texts of neighbouring cells, the fewest.
_GAP = """
(() => {
  const text = (cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getBoundingClientRect();
  };
  const gaps = [...document.querySelectorAll("tr")].flatMap((row) => {
    const cells = [...row.cells].filter((cell) => cell.textContent.trim());
    return cells.slice(1).map((cell, at) => text(cell).left - text(cells[at]).right);
  });
  return Math.min(1000, ...gaps);
})()
"""
# Contrast of each text that is seen in tables and at a chart's axes and legend with the page
# (WCAG 2.1), the least.
_CONTRAST = """
(() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[0-9.]+/g).map(Number).map((part) => part / 255)
      .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const ratio = (ink) => (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  const texts = document.querySelectorAll(".xtick text, .ytick text, .legendtext, td, th, h2, p");
  return Math.min(...[...texts].filter((each) => each.getClientRects().length).map((each) => {
    const style = getComputedStyle(each);
    return ratio(light(each.closest("svg") ? style.fill : style.color));
  }));
})()
"""
# Texts of a chart, its title included, that its tools cover, and tools that stand in the plot.
_COVERED = """
[...document.querySelectorAll("figure:not([hidden] *, [hidden])")].flatMap((figure) => {
  const tools = [...figure.querySelectorAll(".modebar-btn")]
    .map((each) => each.getBoundingClientRect()).filter((each) => each.width);
  const boxes = [...figure.querySelectorAll(".chart text, .nsewdrag")].map((each) =>
    [each.textContent || "the plot", each.getBoundingClientRect()]);
  const title = figure.querySelector("h3");
  const words = document.createRange();
  words.selectNodeContents(title);
  boxes.push(...[...words.getClientRects()].map((each) => [title.textContent, each]));
  return boxes.filter(([, each]) => each.width && tools.some((tool) => tool.left < each.right
    && tool.right > each.left && tool.top < each.bottom && tool.bottom > each.top))
    .map(([text]) => text);
})
"""
# Names in legends of charts whose traces show nothing, and of tools that are there for good or that
# send a chart somewhere.
_EMPTY = """
[...document.querySelectorAll(".js-plotly-plot")].flatMap((chart) => {
  const groups = {};
  for (const trace of chart.data) {
    if (!trace.name || trace.visible === "legendonly") continue;
    const group = groups[trace.legendgroup || trace.name] ||= { name: trace.name };
    const values = trace.orientation === "h" ? trace.x : trace.y || [];
    const areas = trace.stackgroup || trace.type === "bar";
    group.seen ||= values.some((each) => each !== null && (!areas || each !== 0));
  }
  return Object.values(groups).filter((each) => !each.seen).map((each) => chart.id + each.name);
})
"""
_TOOLS = """
[...document.querySelectorAll(".modebar:not(.modebar--hover), .modebar-btn[data-title^=Share]")]
  .map((each) => each.dataset.title || "tools without the pointer")
"""
# Keys of files in what a reader sees, where it is not the file or the keys that are shown.
_SECTION = r"\b(memory|links|system|jobs(\[.\])?|topology|virtual|timers)\.[a-z_]+"
_KEYS = f"""
[...document.querySelectorAll("h1, h2, h3, header p, figcaption, .note, .words, th, td, text")]
  .filter((each) => !each.closest("#table-differences")).map((each) => each.textContent)
  .filter((text) => /{_SECTION}/.test(text))
"""
_PAPER = "getComputedStyle(document.body).backgroundColor"
_WIDEST = "document.documentElement.scrollWidth"


def faults(page: Any, width: int, scheme: str) -> list[str]:
    """What of a page that is `width` pixels wide and `light` or `dark` is cut, hidden, too close or
    unreadable. page: Playwright's; all that it evaluates are expressions, since a page's policy may
    forbid functions."""
    found = [f"cut: {text}" for text in page.evaluate(_CUT)]
    found += [f"covered by tools: {text}" for text in page.evaluate(_COVERED)]
    found += [f"in a legend for nothing: {text}" for text in page.evaluate(_EMPTY)]
    found += [f"tool: {text}" for text in page.evaluate(_TOOLS)]
    found += [f"a key of a file: {text}" for text in page.evaluate(_KEYS)]
    found += [f"last row hidden: {name}" for name in page.evaluate(_HIDDEN_ROWS)]
    if (widest := page.evaluate(_WIDEST)) > width:
        found.append(f"{widest} pixels wide")
    if (gap := page.evaluate(_GAP)) < 8:
        found.append(f"cells {gap} pixels apart")
    if (contrast := page.evaluate(_CONTRAST)) < 4:
        found.append(f"contrast {contrast}")
    if (page.evaluate(_PAPER) != "rgb(255, 255, 255)") != (scheme == "dark"):
        found.append(f"not {scheme}")
    return found
