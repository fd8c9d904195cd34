"use strict";
// The live page's own behaviour: takes the stream of what is new, and shows it in tables and charts.
(() => {
  const { config } = shared;
  const page = document.documentElement.dataset; // how far it is, for tests that wait for it
  const status = document.getElementById("state");
  const drawn = new Map(); // name -> the chart's element
  let names = "";

  function say(words, tone, link) {
    status.className = `words ${tone}`;
    status.replaceChildren(words);
    if (link) {
      const anchor = document.createElement("a");
      anchor.href = link;
      anchor.append("its report");
      status.append(" ", anchor);
    }
  }

  // -- tables: the terminal's, cell by cell

  function table({ name, columns }) {
    const made = document.createElement("table");
    made.id = `table-${name}`;
    const head = made.createTHead().insertRow();
    for (const column of columns) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.append(column);
      head.append(cell);
    }
    made.createTBody();
    const around = document.createElement("div");
    around.className = "scroll";
    around.append(made);
    document.getElementById("now").append(around);
    return made;
  }

  function fill({ name, columns, rows, ended }) {
    const body = (document.getElementById(`table-${name}`) || table({ name, columns })).tBodies[0];
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach((texts, number) => {
      const row = body.rows[number] || body.insertRow();
      row.className = ended.includes(number) ? "ended" : "";
      texts.forEach((text, place) => {
        const cell = row.cells[place] || row.insertCell();
        if (cell.textContent !== text) cell.textContent = text;
      });
    });
  }

  // -- charts: the report's

  // A section's charts of several switches: one of them is shown, the others wait.
  function picker(place, option) {
    const select = place.querySelector("select");
    if (select) {
      if (![...select.options].some(({ value }) => value === option)) select.add(new Option(option));
      select.parentElement.hidden = select.options.length < 2;
      return select;
    }
    const label = document.createElement("label");
    label.className = "pick";
    label.append("Switch ");
    const made = document.createElement("select");
    made.dataset.choice = "switch";
    made.add(new Option(option));
    made.addEventListener("change", () => {
      shared.pick("switch", made.value);
      for (const name of drawn.keys()) later(() => paint(name));
    });
    label.append(made);
    label.hidden = true;
    place.append(label);
    return made;
  }

  function figure(name, { section, option }) {
    const made = document.createElement("figure");
    const title = document.createElement("h3");
    title.id = `title-${name}`;
    const chart = document.createElement("div");
    chart.className = "chart";
    chart.id = `chart-${name}`;
    chart.setAttribute("role", "group");
    chart.setAttribute("aria-labelledby", title.id);
    made.append(title, chart, document.createElement("figcaption"));
    const place = document.getElementById(section);
    place.hidden = false;
    if (option) {
      made.dataset.optionOf = "switch";
      made.dataset.option = option;
      made.hidden = picker(place, option).value !== option;
    }
    place.append(made);
    drawn.set(name, chart);
    return chart;
  }

  const told = new Map(); // name -> the chart as it was told last

  async function draw(name, chart) {
    const { title, text, note, height } = chart;
    const element = drawn.get(name) || figure(name, chart);
    element.style.height = `${height}px`;
    element.parentElement.querySelector("h3").textContent = title;
    element.parentElement.querySelector("figcaption").textContent = `${text} ${note}`;
    told.set(name, chart);
    await paint(name);
    page.charts = [...drawn.keys()].join(" ");
  }

  // What a reader has chosen stays: zooms by `uirevision`, lines that were switched off as well.
  async function paint(name) {
    const element = drawn.get(name);
    if (!element || shared.isHidden(element)) return; // painted when it is picked
    const { data, layout, height } = told.get(name);
    const themed = shared.themed({ data, layout });
    const kept = { ...themed.layout, height, autosize: true, uirevision: "same" };
    await Plotly.react(element, themed.data, kept, config);
  }

  let queue = Promise.resolve();
  const later = (call) => {
    queue = queue.then(call).catch((error) => console.error(error));
  };

  function forget() {
    for (const chart of drawn.values()) {
      Plotly.purge(chart);
      chart.parentElement.remove();
    }
    drawn.clear();
    told.clear();
    for (const label of document.querySelectorAll("label.pick")) label.remove();
    page.charts = "";
  }

  shared.onScheme(() => {
    for (const name of drawn.keys()) later(() => paint(name));
  });

  // -- how far the charts are behind the tables

  let reached = 0; // by the run, in ns
  let shown = null;

  // As p4fabric/base/units.py writes times.
  function words(ns) {
    const [size, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]].find(([size]) => ns >= 0.9995 * size)
      || [1, "ns"];
    const number = ns / size;
    return `${number < 999.5 ? number.toPrecision(3) : Math.round(number)} ${unit}`;
  }

  function sayLag() {
    const behind = reached - shown;
    document.getElementById("lag").textContent =
      shown === null || behind <= 0.05 * reached
        ? ""
        : `Charts lag: they show the run up to ${words(shown)}, ${words(behind)} ago.`;
  }

  // -- the stream

  const stream = new EventSource("events");
  const on = (kind, call) =>
    stream.addEventListener(kind, ({ data }) => later(() => call(JSON.parse(data))));

  on("begin", () => {
    forget();
    shown = null;
  });
  on("drawn", ({ elapsed_ns }) => {
    shown = elapsed_ns;
    sayLag();
  });
  on("state", ({ headline, tables, elapsed_ns }) => {
    reached = elapsed_ns;
    sayLag();
    document.getElementById("headline").textContent = headline;
    document.title = headline;
    say("The run goes on.", "");
    const now = tables.map(({ name }) => name).join(" ");
    if (now !== names) for (const old of document.querySelectorAll("#now .scroll")) old.remove();
    names = now;
    tables.forEach(fill);
    page.states = String(Number(page.states || 0) + 1);
  });
  on("charts", async (charts) => {
    for (const [name, chart] of Object.entries(charts)) await draw(name, chart);
  });
  on("end", ({ how, report, link }) => {
    stream.close();
    say(report && !link ? `${how} Its report is ${report}.` : how, how.startsWith("Finished") ? "good" : "bad", link);
    page.ended = "yes";
  });
  stream.onerror = () => {
    if (stream.readyState !== EventSource.CLOSED || page.ended) {
      if (!page.ended) later(() => say("The page has lost the run, and tries again.", "bad"));
    } else later(() => say("The run does not answer any more.", "bad"));
  };
})();
