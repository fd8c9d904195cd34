"use strict";
// The live page's own behaviour: takes the stream of what is new, and shows it in tables and charts.
(() => {
  const config = { displaylogo: false, responsive: true, scrollZoom: false };
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
    document.getElementById("now").append(made);
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

  function figure(name, { section }) {
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
    place.append(made);
    drawn.set(name, chart);
    return chart;
  }

  // What a reader has chosen stays: zooms by `uirevision`, lines that were switched off as well.
  async function draw(name, { data, layout, title, text, note, height, section }) {
    const chart = drawn.get(name) || figure(name, { section });
    chart.style.height = `${height}px`;
    chart.parentElement.querySelector("h3").textContent = title;
    chart.parentElement.querySelector("figcaption").textContent = `${text} ${note}`;
    const kept = { ...layout, height, autosize: true, uirevision: "same" };
    await Plotly.react(chart, data, kept, config);
    page.charts = [...drawn.keys()].join(" ");
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
    page.charts = "";
  }

  // -- the stream

  const stream = new EventSource("events");
  const on = (kind, call) =>
    stream.addEventListener(kind, ({ data }) => later(() => call(JSON.parse(data))));

  on("begin", forget);
  on("state", ({ headline, tables }) => {
    document.getElementById("headline").textContent = headline;
    document.title = headline;
    say("The run goes on.", "");
    const now = tables.map(({ name }) => name).join(" ");
    if (now !== names) for (const old of document.querySelectorAll("#now table")) old.remove();
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
