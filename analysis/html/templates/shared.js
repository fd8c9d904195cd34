"use strict";
// What the report's pages and the live page have in common: the colour scheme that the reader
// prefers, and pickers of which one option is shown.
const shared = (() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let printing = false; // on paper, which is white
  const COLORS = new Set([
    "color", "fgcolor", "bgcolor", "fillcolor", "colorscale", "gridcolor", "linecolor",
    "paper_bgcolor", "plot_bgcolor", "bordercolor",
  ]);

  // A dark page turns its greys around, from ink on paper to chalk on slate. Colours, which mean
  // something, stay.
  function turned(color) {
    const digits = { white: "ffffff", black: "000000" }[color] || color.replace("#", "");
    const hex = digits.length === 3 ? digits.replace(/./g, "$&$&") : digits;
    if (!/^[0-9a-f]{6}$/i.test(hex)) return color;
    const parts = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
    if (Math.max(...parts) - Math.min(...parts) > 8) return color;
    const light = Math.round(24 + ((255 - parts[0]) * 206) / 255);
    return `rgb(${light}, ${light}, ${light})`;
  }

  function walk(value, isColor) {
    if (typeof value === "string") return isColor ? turned(value) : value;
    if (Array.isArray(value))
      return isColor || typeof value[0] === "object" ? value.map((each) => walk(each, isColor)) : value;
    if (value === null || typeof value !== "object") return value;
    const entries = Object.entries(value);
    return Object.fromEntries(entries.map(([key, each]) => [key, walk(each, COLORS.has(key))]));
  }

  const isDark = () => dark.matches && !printing;
  const themed = (spec) => (isDark() ? walk(spec, false) : spec);

  const shade = (swatch) => {
    swatch.dataset.color ||= swatch.style.background;
    const [red, green, blue] = swatch.dataset.color.match(/\d+/g).map(Number);
    const hex = [red, green, blue].map((part) => part.toString(16).padStart(2, "0")).join("");
    swatch.style.background = isDark() ? turned(`#${hex}`) : swatch.dataset.color;
  };

  // Calls `redraw` whenever the scheme changes, also for paper.
  function onScheme(redraw) {
    const changed = () => {
      document.querySelectorAll(".swatch").forEach(shade);
      redraw();
    };
    dark.addEventListener("change", changed);
    addEventListener("beforeprint", () => {
      printing = true;
      if (dark.matches) changed();
    });
    addEventListener("afterprint", () => {
      printing = false;
      if (dark.matches) changed();
    });
    document.querySelectorAll(".swatch").forEach(shade);
  }

  // Pickers of one name choose together.
  function pick(name, option) {
    for (const select of document.querySelectorAll(`select[data-choice="${name}"]`))
      select.value = option;
    for (const element of document.querySelectorAll(`[data-option-of="${name}"]`))
      element.hidden = element.dataset.option !== option;
  }

  // Plotly's tools, which page.css puts beside a chart's title. None sends a chart anywhere.
  const config = {
    displaylogo: false,
    displayModeBar: "hover",
    modeBarButtonsToRemove: ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d"],
    responsive: true,
    scrollZoom: false,
  };

  const isHidden = (element) => element.closest("[hidden], details:not([open])") !== null;

  return { themed, onScheme, pick, config, isHidden };
})();
