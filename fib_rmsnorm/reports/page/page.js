"use strict";
// Draws the charts from the JSON in the page, sorts and filters its tables. No library, no network.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 380, LEFT = 62, RIGHT = 14, TOP = 10, BOTTOM = 42;
const DASHES = ["6 4", "2 3", "8 3 2 3", "12 4"];
const COLOURS = 8;

function make(name, attributes, parent) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (parent) parent.append(node);
  return node;
}

function short(value) {
  if (value === 0) return "0";
  for (const [scale, unit] of [[1e9, "G"], [1e6, "M"]])
    if (Math.abs(value) >= scale) return +(value / scale).toPrecision(3) + unit;
  if (Math.abs(value) >= 1e5) return +(value / 1e3).toPrecision(3) + "k";
  return String(+value.toPrecision(value >= 1000 ? 5 : 3));
}

// A scale maps values to pixels and knows where its ticks stand.
function makeScale(values, kind, from, to, base) {
  let low = Math.min(...values), high = Math.max(...values);
  const ticks = [];
  if (kind === "log") {
    const log = (value) => Math.log(value) / Math.log(base);
    let first = log(low), last = log(high);
    const room = Math.max(0.04 * (last - first), 0.1);
    first -= room;
    last += room;
    const step = Math.max(1, Math.ceil((last - first) / 8));
    for (let power = Math.ceil(first / step) * step; power <= last; power += step) ticks.push(base ** power);
    return { place: (value) => from + (log(value) - first) / (last - first) * (to - from), ticks };
  }
  const room = Math.max(0.06 * (high - low), 1e-9);
  low -= room;
  high += room;
  const rough = (high - low) / 6, unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough);
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(+tick.toPrecision(12));
  return { place: (value) => from + (value - low) / (high - low) * (to - from), ticks };
}

function marker(index, x, y, colour, parent) {
  const r = 3.6, shapes = [
    () => make("circle", { cx: x, cy: y, r }, parent),
    () => make("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r }, parent),
    () => make("path", { d: `M${x} ${y - 5}L${x + 4} ${y}L${x} ${y + 5}L${x - 4} ${y}Z` }, parent),
    () => make("path", { d: `M${x} ${y - 4.5}L${x + 4.5} ${y + 3.5}L${x - 4.5} ${y + 3.5}Z` }, parent),
    () => make("path", { d: `M${x} ${y + 4.5}L${x + 4.5} ${y - 3.5}L${x - 4.5} ${y - 3.5}Z` }, parent),
  ];
  shapes[index % shapes.length]().setAttribute("fill", colour);
}

class Chart {
  constructor(figure, chart) {
    this.figure = figure;
    this.chart = chart;
    this.hidden = new Set();
    this.styles = new Map();
    let shown = 0, limits = 0;
    for (const series of chart.series) {
      const isLimit = series.kind === "limit";
      const index = isLimit ? limits++ : shown++;
      this.styles.set(series, {
        index,
        isLimit,
        colour: isLimit ? "var(--text)" : `var(--s${index % COLOURS})`,
        dash: isLimit ? DASHES[index % DASHES.length] : "",
      });
    }
    this.svg = make("svg", { role: "img" });
    this.svg.setAttribute("aria-label", chart.title);
    this.tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
    figure.append(this.svg, this.makeLegend(), this.tip);
    if (chart.note)
      figure.append(Object.assign(document.createElement("p"), { className: "note", textContent: chart.note }));
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerdown", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => {
      this.tip.hidden = true;
    });
    new ResizeObserver(() => this.resize()).observe(figure);
    this.resize();
  }

  // A pixel of the drawing is one of the screen, so that its text is as large as the page's.
  resize() {
    const width = Math.max(280, this.figure.clientWidth - 24);
    if (width === this.width) return;
    this.width = width;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.draw();
  }

  makeLegend() {
    const legend = Object.assign(document.createElement("div"), { className: "legend" });
    for (const series of this.chart.series) {
      const style = this.styles.get(series);
      const button = Object.assign(document.createElement("button"), { type: "button", title: "show or hide" });
      const key = make("svg", { viewBox: "0 0 22 12" });
      if (series.kind === "bars" || series.kind === "spread")
        make("rect", { x: 5, y: 1, width: 12, height: 10, fill: style.colour }, key);
      else {
        make(
          "line",
          { x1: 0, x2: 22, y1: 6, y2: 6, stroke: style.colour, "stroke-width": 1.6, "stroke-dasharray": style.dash },
          key);
        if (!style.isLimit) marker(style.index, 11, 6, style.colour, key);
      }
      button.append(key, series.name);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const isHidden = this.hidden.has(series);
        this.hidden[isHidden ? "delete" : "add"](series);
        button.setAttribute("aria-pressed", String(isHidden));
        this.draw();
      });
      legend.append(button);
    }
    return legend;
  }

  draw() {
    const { chart } = this;
    this.svg.replaceChildren();
    this.spots = [];
    const series = chart.series.filter((each) => !this.hidden.has(each));
    const points = series.flatMap((each) => each.points);
    if (!points.length) return;
    const ys = points.flatMap((point) => [point.y, point.low, point.high])
                 .filter((y) => y !== null && (y > 0 || chart.y_scale !== "log"));
    const bars = series.some((each) => each.kind === "bars");
    if (bars && chart.y_scale === "log") ys.push(Math.min(...ys) / 3);
    this.y = makeScale(ys, chart.y_scale, HEIGHT - BOTTOM, TOP, 10);
    if (chart.categories.length) {
      const width = (this.width - LEFT - RIGHT) / chart.categories.length;
      this.x = {
        place: (value) => LEFT + (value + 0.5) * width,
        ticks: chart.categories.map((_, index) => index),
        width
      };
    } else
      this.x = makeScale(points.map((point) => point.x), chart.x_scale, LEFT, this.width - RIGHT, 2);
    this.drawAxes();
    const ranged = series.filter((each) => each.kind === "bars" || each.kind === "spread");
    for (const each of series) {
      const style = this.styles.get(each);
      if (each.kind === "bars" || each.kind === "spread")
        this.drawRanged(each, style, ranged.indexOf(each), ranged.length);
      else
        this.drawLine(each, style);
    }
  }

  drawAxes() {
    const { chart, svg, x, y } = this;
    for (const tick of y.ticks) {
      const at = y.place(tick);
      make("line", { class: "grid", x1: LEFT, x2: this.width - RIGHT, y1: at, y2: at }, svg);
      make("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, svg).textContent = short(tick);
    }
    const room = (this.width - LEFT - RIGHT) / x.ticks.length, every = Math.ceil(46 / room);
    for (const tick of x.ticks.filter((_, index) => index % every === 0)) {
      const at = x.place(tick);
      if (!chart.categories.length) make("line", { class: "grid", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }, svg);
      make("text", { x: at, y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, svg).textContent =
        chart.categories.length ? chart.categories[tick] : short(tick);
    }
    make("text", { x: (LEFT + this.width - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, svg).textContent =
      chart.x_label;
    const middle = (TOP + HEIGHT - BOTTOM) / 2;
    make("text", { x: 13, y: middle, "text-anchor": "middle", transform: `rotate(-90 13 ${middle})` }, svg)
      .textContent = chart.y_label;
  }

  drawLine(series, style) {
    const at = series.points.map((point) => [this.x.place(point.x), this.y.place(point.y)]);
    make(
      "polyline", {
        points: at.map((pair) => pair.join(",")).join(" "),
        fill: "none",
        stroke: style.colour,
        "stroke-width": style.isLimit ? 1.2 : 1.8,
        "stroke-dasharray": style.dash,
      },
      this.svg);
    series.points.forEach((point, index) => {
      const [x, y] = at[index];
      if (point.low > 0 && point.high > 0)
        make(
          "line", {
            x1: x,
            x2: x,
            y1: this.y.place(point.low),
            y2: this.y.place(point.high),
            stroke: style.colour,
            "stroke-width": 1.8
          },
          this.svg);
      if (!style.isLimit) marker(style.index, x, y, style.colour, this.svg);
      this.spots.push({ x, y, series, point });
    });
  }

  drawRanged(series, style, index, total) {
    const width = 0.8 * this.x.width / total;
    for (const point of series.points) {
      const x = this.x.place(point.x) + (index - (total - 1) / 2) * width;
      const isBar = series.kind === "bars";
      const top = this.y.place(isBar ? point.y : point.high);
      const bottom = isBar ? HEIGHT - BOTTOM : this.y.place(point.low);
      make(
        "rect",
        { x: x - 0.4 * width, y: top, width: 0.8 * width, height: Math.max(1, bottom - top), fill: style.colour },
        this.svg);
      if (!isBar) {
        const y = this.y.place(point.y);
        make(
          "line",
          { x1: x - 0.5 * width, x2: x + 0.5 * width, y1: y, y2: y, stroke: "var(--text)", "stroke-width": 1.2 },
          this.svg);
      }
      this.spots.push({ x, y: isBar ? top : (top + bottom) / 2, series, point });
    }
  }

  // The nearest point says what it is.
  point(event) {
    const box = this.svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * this.width / box.width, y = (event.clientY - box.top) * HEIGHT / box.height;
    let best = null, least = 45 ** 2;
    for (const spot of this.spots) {
      const distance = (spot.x - x) ** 2 + (spot.y - y) ** 2;
      if (distance < least) {
        least = distance;
        best = spot;
      }
    }
    this.tip.hidden = best === null;
    if (best === null) return;
    const { point, series } = best;
    const range = point.low && point.high ? ` (${short(point.low)} to ${short(point.high)})` : "";
    this.tip.textContent =
      `${series.name}\n${point.note ? point.note + ": " : ""}${short(point.y)}${range} ${this.chart.y_label}`;
    const frame = this.figure.getBoundingClientRect();
    const left = event.clientX - frame.left + 14;
    const most = frame.width - this.tip.offsetWidth - 6;
    this.tip.style.left = `${Math.max(6, Math.min(left, most))}px`;
    this.tip.style.top = `${event.clientY - frame.top + 16}px`;
  }
}

function sortBy(table, column, isDescending) {
  const key = (body) => body.rows[0].cells[column].dataset.sort;
  const order = (one, other) => {
    const [a, b] = [key(one), key(other)];
    if (a === "" || b === "") return (a === "") - (b === "");  // what is not known comes last either way
    const difference = isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b;
    return isDescending ? -difference : difference;
  };
  table.append(...[...table.tBodies].sort(order));
}

for (const table of document.querySelectorAll(".sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const isDescending = head.ariaSort === "ascending";
    for (const other of heads) other.ariaSort = "none";
    head.ariaSort = isDescending ? "descending" : "ascending";
    sortBy(table, column, isDescending);
  }));
}

for (const input of document.querySelectorAll(".filter")) {
  const table = input.closest("section").querySelector(".sortable");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const body of table.tBodies) {
      const text = body.textContent.toLowerCase();
      body.hidden = !words.every((word) => text.includes(word));
    }
  });
}

const charts = JSON.parse(document.getElementById("charts").textContent);
for (const figure of document.querySelectorAll(".chart"))
  new Chart(figure, charts[figure.dataset.section][figure.dataset.chart]);
