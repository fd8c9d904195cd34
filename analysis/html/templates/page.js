"use strict";
// The page's own behaviour: draws the charts, switches jobs on and off, zooms all time axes
// together, sorts and filters tables.
(() => {
  const { charts } = JSON.parse(document.getElementById("charts").textContent);
  const { config } = shared;
  const drawn = new Map(); // name -> the chart's element
  const page = document.documentElement.dataset; // how far it is, for tests that wait for it
  page.drawn = "0";

  const themed = (name) => {
    const { data, layout } = charts[name];
    return shared.themed({ data, layout });
  };
  const shown = (data, hidden) =>
    data.map((trace) => (hidden.has(jobOf(trace)) ? { ...trace, visible: false } : trace));

  // In other colours, with the jobs and the zoom that are chosen.
  function redraw() {
    for (const [name, element] of drawn) {
      const { data, layout } = themed(name);
      const { width, xaxis } = element.layout;
      const zoomed = xaxis && xaxis.range && !xaxis.autorange && { range: [...xaxis.range] };
      Plotly.react(
        element,
        shown(data, hiddenJobs()),
        { ...layout, width, autosize: true, xaxis: { ...layout.xaxis, ...zoomed } },
        config,
      );
    }
  }

  async function draw(name) {
    const element = document.getElementById(`chart-${name}`);
    if (drawn.has(name)) return;
    const hidden = hiddenJobs();
    const { data, layout, overTime } = { ...charts[name], ...themed(name) };
    const range = overTime && chosenRange();
    drawn.set(name, element);
    await Plotly.newPlot(
      element,
      shown(data, hidden),
      { ...layout, autosize: true, xaxis: { ...layout.xaxis, ...(range && { range }) } },
      config,
    );
    if (overTime) element.on("plotly_relayout", (change) => follow(name, change));
    page.drawn = String(drawn.size);
  }

  // A chart is drawn when it comes near the window, and the others one by one while the browser has
  // nothing else to do: so a page of many charts is open at once, and paper has them all. What is
  // folded or not picked has no width yet: its charts wait until it is shown.
  const visible = (name) => !shared.isHidden(document.getElementById(`chart-${name}`));
  const near = new Set(); // names of charts near the window that are still to be drawn
  let drawing = false;
  const whenIdle = window.requestIdleCallback || ((call) => setTimeout(call, 50));

  const waiting = () => Object.keys(charts).filter((name) => !drawn.has(name) && visible(name));

  async function drawNext() {
    if (drawing) return;
    drawing = true;
    for (;;) {
      const names = waiting();
      const first = names.find((name) => near.has(name));
      if (first === undefined) {
        page.near = "drawn";
        if (!names.length) break;
        await new Promise((next) => whenIdle(next, { timeout: 1000 }));
      }
      const next = waiting();
      if (next.length) await draw(next.find((name) => near.has(name)) || next[0]);
      await new Promise((next) => setTimeout(next)); // the page stays usable meanwhile
    }
    drawing = false;
  }

  const watch = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const name = target.id.slice("chart-".length);
        if (isIntersecting) near.add(name);
        else near.delete(name);
      }
      drawNext();
    },
    { rootMargin: "200px" },
  );

  // -- jobs

  const boxes = [...document.querySelectorAll("input[data-job]")];
  const jobOf = (trace) => trace.meta && trace.meta.job;
  const hiddenJobs = () =>
    new Set(boxes.filter((box) => !box.checked).map((box) => Number(box.dataset.job)));

  function showJobs(name, hidden) {
    const element = drawn.get(name);
    const traces = [];
    element.data.forEach((trace, number) => {
      if (jobOf(trace) !== undefined) traces.push(number);
    });
    if (!traces.length) return Promise.resolve();
    const shown = traces.map((number) => !hidden.has(jobOf(element.data[number])));
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
    return end > begin ? [begin, end] : null;
  }

  let following = false;

  // Charts that are compared have a range from the start; it is theirs again after a zoom.
  const whole = (name) => {
    const range = charts[name].layout.xaxis.range;
    return range ? { "xaxis.range": range } : { "xaxis.autorange": true };
  };

  async function zoomAll(range, except) {
    following = true;
    for (const [name, element] of drawn)
      if (charts[name].overTime && name !== except)
        await Plotly.relayout(element, range ? { "xaxis.range": range } : whole(name));
    following = false;
  }

  function follow(name, change) {
    if (following) return;
    if (change["xaxis.autorange"]) {
      from.value = to.value = "";
      zoomAll(null, name);
    } else if (change["xaxis.range[0]"] !== undefined) {
      const range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      [from.value, to.value] = range.map((time) => Number(time.toPrecision(6)));
      zoomAll(range, name);
    }
  }

  if (from) {
    const apply = async () => {
      // Where the run ends is known from the charts themselves.
      for (const name of waiting()) if (charts[name].overTime) await draw(name);
      zoomAll(chosenRange());
    };
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
    if (Number.isNaN(x) && Number.isNaN(y)) return a.localeCompare(b, undefined, { numeric: true });
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

  // -- colours, pickers, folded sections, paper

  shared.onScheme(redraw); // before paper takes its width below
  for (const select of document.querySelectorAll("select[data-choice]"))
    select.addEventListener("change", () => {
      shared.pick(select.dataset.choice, select.value);
      drawNext();
    });

  for (const details of document.querySelectorAll("details"))
    details.addEventListener("toggle", drawNext);
  const opened = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
    return target;
  };
  addEventListener("hashchange", opened);
  // The browser goes to the address's place in its own time; the charts there are to be drawn first.
  opened()?.scrollIntoView();

  const fit = (width) => {
    for (const element of drawn.values()) {
      const beside = width && element.closest(".multiples");
      Plotly.relayout(element, { width: beside ? width / 2 - 10 : width });
    }
  };
  addEventListener("beforeprint", () => {
    for (const name of waiting()) draw(name); // Plotly draws before it returns
    fit(680);
  });
  addEventListener("afterprint", () => fit(null));

  for (const element of document.querySelectorAll(".chart")) watch.observe(element);
})();
