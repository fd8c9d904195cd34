"use strict";
// The page's own behaviour: draws the charts, switches jobs on and off, zooms all time axes
// together, sorts and filters tables.
(() => {
  const { charts } = JSON.parse(document.getElementById("charts").textContent);
  const config = { displaylogo: false, responsive: true, scrollZoom: false };
  const drawn = new Map(); // name -> the chart's element

  async function draw(name) {
    const element = document.getElementById(`chart-${name}`);
    if (!element || drawn.has(name)) return;
    drawn.set(name, element);
    const { data, layout } = charts[name];
    await Plotly.newPlot(element, data, { ...layout, autosize: true }, config);
    const hidden = hiddenJobs();
    if (hidden.size) await showJobs(name, hidden);
    const range = chosenRange();
    if (charts[name].overTime && range) await Plotly.relayout(element, range);
    if (charts[name].overTime) element.on("plotly_relayout", (change) => follow(name, change));
  }

  // Folded sections have no width yet: their charts are drawn when they are opened.
  const visible = (name) => !document.getElementById(`chart-${name}`).closest("details:not([open])");

  async function drawVisible() {
    for (const name of Object.keys(charts)) {
      if (!visible(name)) continue;
      await draw(name);
      await new Promise((next) => setTimeout(next)); // the page stays usable meanwhile
    }
    document.documentElement.dataset.drawn = String(drawn.size);
  }

  // -- jobs

  const boxes = [...document.querySelectorAll("input[data-job]")];
  const hiddenJobs = () =>
    new Set(boxes.filter((box) => !box.checked).map((box) => Number(box.dataset.job)));

  function showJobs(name, hidden) {
    const element = drawn.get(name);
    const traces = [];
    element.data.forEach((trace, number) => {
      if (trace.meta && trace.meta.job !== undefined) traces.push(number);
    });
    if (!traces.length) return Promise.resolve();
    const shown = traces.map((number) => !hidden.has(element.data[number].meta.job));
    return Plotly.restyle(element, { visible: shown }, traces);
  }

  for (const box of boxes)
    box.addEventListener("change", () => {
      const hidden = hiddenJobs();
      for (const name of drawn.keys()) showJobs(name, hidden);
    });

  // -- time

  const from = document.getElementById("from");
  const to = document.getElementById("to");

  function chosenRange() {
    if (!from || (from.value === "" && to.value === "")) return null;
    const ends = [...drawn.entries()]
      .filter(([name]) => charts[name].overTime)
      .map(([, element]) => element.layout.xaxis.range[1]);
    const begin = from.value === "" ? 0 : Number(from.value);
    const end = to.value === "" ? Math.max(...ends) : Number(to.value);
    return end > begin ? { "xaxis.range": [begin, end] } : null;
  }

  let following = false;

  async function zoomAll(change, except) {
    following = true;
    for (const [name, element] of drawn)
      if (charts[name].overTime && name !== except) await Plotly.relayout(element, change);
    following = false;
  }

  function follow(name, change) {
    if (following) return;
    if (change["xaxis.autorange"]) {
      from.value = to.value = "";
      zoomAll({ "xaxis.autorange": true }, name);
    } else if (change["xaxis.range[0]"] !== undefined) {
      const range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      [from.value, to.value] = range.map((time) => Number(time.toPrecision(6)));
      zoomAll({ "xaxis.range": range }, name);
    }
  }

  if (from) {
    const apply = () => zoomAll(chosenRange() || { "xaxis.autorange": true });
    from.addEventListener("change", apply);
    to.addEventListener("change", apply);
    document.getElementById("whole").addEventListener("click", () => {
      from.value = to.value = "";
      apply();
    });
  }

  // -- tables

  const number = (text) => (text === "" || text === "nan" ? NaN : Number(text));

  function compare(a, b) {
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) && Number.isNaN(y)) return a.localeCompare(b);
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1; // words last
    return x - y;
  }

  for (const button of document.querySelectorAll("th button"))
    button.addEventListener("click", () => {
      const heading = button.parentElement;
      const body = heading.closest("table").tBodies[0];
      const down = heading.getAttribute("aria-sort") === "ascending";
      for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows];
      const key = (row) => row.cells[heading.cellIndex].dataset.key;
      rows.sort((a, b) => (down ? -1 : 1) * compare(key(a), key(b)));
      body.append(...rows);
    });

  for (const field of document.querySelectorAll("input[data-table]"))
    field.addEventListener("input", () => {
      const rows = [...document.getElementById(`table-${field.dataset.table}`).tBodies[0].rows];
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
      const left = rows.filter((row) => !row.hidden).length;
      field.closest(".table").querySelector(".found").textContent =
        words.length ? `${left} of ${rows.length} rows` : "";
    });

  // -- folded sections, paper

  for (const details of document.querySelectorAll("details"))
    details.addEventListener("toggle", drawVisible);
  const opened = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", opened);
  opened();

  const fit = (width) => {
    for (const element of drawn.values()) Plotly.relayout(element, { width });
  };
  addEventListener("beforeprint", () => fit(680));
  addEventListener("afterprint", () => fit(null));

  drawVisible();
})();
