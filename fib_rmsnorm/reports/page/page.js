"use strict";
// Draws the charts from the JSON in the page, sorts and filters its tables. No library, no network.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 380, LEFT = 58, RIGHT = 34, TOP = 10, BOTTOM = 42, LINE = 13;
const LIMIT_DASHES = ["6 4", "2 3", "8 3 2 3", "12 4"];
// A kernel has the same colour, marker, dashes and letter in every chart. The dashes recur in another rhythm than the
// colours, so no two of 44 kernels look alike.
const COLOURS = 11;
const DASHES = ["", "9 2", "3 2", "9 2 2 2"];
const MARKERS = [
  "M4 0A4 4 0 1 1 -4 0A4 4 0 1 1 4 0Z", "M-3.6 -3.6H3.6V3.6H-3.6Z", "M0 -5L4 0L0 5L-4 0Z", "M0 -4.5L4.5 3.5H-4.5Z",
  "M0 4.5L4.5 -3.5H-4.5Z", "M-1.6 -4.8H1.6V-1.6H4.8V1.6H1.6V4.8H-1.6V1.6H-4.8V-1.6H-1.6Z",
  "M-4.5 -2.3L-2.3 -4.5L0 -2.3L2.3 -4.5L4.5 -2.3L2.3 0L4.5 2.3L2.3 4.5L0 2.3L-2.3 4.5L-4.5 2.3L-2.3 0Z",
  "M0 -5.5L1.6 -1.8L5.3 -1.7L2.5 .8L3.4 4.5L0 2.5L-3.4 4.5L-2.5 .8L-5.3 -1.7L-1.6 -1.8Z", "M-4.5 0L3.5 -4.5V4.5Z",
  "M4.5 0L-3.5 -4.5V4.5Z", "M-2.5 -4.3H2.5L5 0L2.5 4.3H-2.5L-5 0Z"
];

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
  if (Math.abs(value) < 1e-3) return value.toExponential().replace(/(\.\d\d)\d+/, "$1");
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
    const between = base === 10 && last - first < 5 ? [1, 2, 5] : [1];
    for (let power = Math.floor(first / step) * step; power <= last; power += step)
      ticks.push(...between.map((factor) => factor * base ** power));
    const isIn = (tick) => first <= log(tick) && log(tick) <= last;
    return { place: (value) => from + (log(value) - first) / (last - first) * (to - from), ticks: ticks.filter(isIn) };
  }
  const room = Math.max(0.06 * (high - low), 1e-9);
  low -= room;
  high += room;
  const rough = (high - low) / 6, unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough);
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(+tick.toPrecision(12));
  return { place: (value) => from + (value - low) / (high - low) * (to - from), ticks };
}

function marker(style, x, y, parent, isHollow) {
  const shape = make("path", { d: style.marker, transform: `translate(${x} ${y})`, stroke: style.colour }, parent);
  shape.setAttribute("fill", isHollow ? "var(--card)" : style.colour);
  shape.setAttribute("stroke-width", isHollow ? 1.4 : 0.5);
}

// A, B, ... Z, AA, AB: the letter of a kernel in charts and legends.
function letter(number) {
  const last = String.fromCharCode(65 + number % 26);
  return number < 26 ? last : letter(Math.floor(number / 26) - 1) + last;
}

class Chart {
  constructor(figure, chart, numbers) {
    this.figure = figure;
    this.chart = chart;
    this.hidden = new Set();
    this.styles = new Map();
    let limits = 0;
    for (const series of chart.series) {
      const isLimit = series.is_limit;
      const number = isLimit ? limits++ : numbers[series.name];
      const dashes = isLimit ? LIMIT_DASHES : DASHES;
      this.styles.set(series, {
        isLimit,
        colour: isLimit ? "var(--text)" : `var(--s${number % COLOURS})`,
        dash: dashes[number % dashes.length],
        marker: MARKERS[number % MARKERS.length],
        letter: isLimit ? "" : letter(number),
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
      make(
        "line",
        { x1: 0, x2: 22, y1: 6, y2: 6, stroke: style.colour, "stroke-width": 1.6, "stroke-dasharray": style.dash },
        key);
      if (!style.isLimit) marker(style, 11, 6, key);
      if (style.letter) button.append(Object.assign(document.createElement("b"), { textContent: style.letter }));
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
    this.y = makeScale(ys, chart.y_scale, HEIGHT - BOTTOM, TOP, 10);
    this.x = makeScale(points.map((point) => point.x), "log", LEFT, this.width - RIGHT, 2);
    this.drawAxes();
    for (const each of series) this.drawLine(each, this.styles.get(each));
    this.drawLetters(series);
  }

  // Each line's letter stands right of its end, moved up or down where others stand, with a thin line to it.
  drawLetters(series) {
    const ends = series.filter((each) => !each.is_limit).map((each) => {
      const point = each.points.at(-1), at = this.y.place(point.y);
      return { style: this.styles.get(each), x: this.x.place(point.x), at, y: at };
    });
    ends.sort((one, other) => one.at - other.at);
    const lowest = HEIGHT - BOTTOM, room = Math.min(LINE, (lowest - TOP) / ends.length);
    ends.forEach((end, index) => {
      end.y = Math.max(end.at, index ? ends[index - 1].y + room : TOP + 4);
    });
    for (let index = ends.length - 1, most = lowest; index >= 0; index--, most = ends[index + 1].y - room)
      ends[index].y = Math.min(ends[index].y, most);
    const x = this.width - RIGHT + 16;
    for (const { style, x: from, at, y } of ends) {
      make("line", { class: "leader", x1: from, y1: at, x2: x - 3, y2: y, stroke: style.colour }, this.svg);
      const text = make("text", { x, y: y + 4, class: "letter", style: `fill: ${style.colour}` }, this.svg);
      text.textContent = style.letter;
    }
  }

  drawAxes() {
    const { chart, svg, x, y } = this;
    let above = Infinity;
    for (const tick of y.ticks) {
      const at = y.place(tick);
      if (above - at < LINE) continue;
      above = at;
      make("line", { class: "grid", x1: LEFT, x2: this.width - RIGHT, y1: at, y2: at }, svg);
      make("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, svg).textContent = short(tick);
    }
    const room = (this.width - LEFT - RIGHT) / x.ticks.length, every = Math.ceil(46 / room);
    for (const tick of x.ticks.filter((_, index) => index % every === 0)) {
      const at = x.place(tick);
      make("line", { class: "grid", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }, svg);
      make("text", { x: at, y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, svg).textContent = short(tick);
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
      if (!style.isLimit) marker(style, x, y, this.svg, point.noisy);
      this.spots.push({ x, y, series, point });
    });
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
  new Chart(figure, charts.sections[figure.dataset.section][figure.dataset.chart], charts.numbers);
