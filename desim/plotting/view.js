// Draw the charts of an interactive page with BokehJS; all data are in the page, nothing is fetched.
(() => {
"use strict";

const DATA = JSON.parse(document.getElementById("desim-data").textContent);
const SLOTS = DATA.unit === "slots";
const POLICIES = { light: ["#0072B2", "#D55E00", "#00805D", "#B0508C", "#A87000", "#5B4BB5", "#000000"],
                   dark: ["#4FA8E0", "#FF8A3D", "#2CC79A", "#E39AC6", "#F0B429", "#B4A5FF", "#FFFFFF"] };
const JOBS = ["#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#44BB99", "#99DDFF", "#BBCC33", "#AAAA00"];
const OTHER = "#BBBBBB";
const DASHES = ["solid", "dashed", "dotted", "dotdash"];
const LOOKS = DATA.looks;
const LOOK_COLORS = { down: "#8E8E8E", waiting: "#C4C4C4", window: "#BBD7EE", expired: "#F2B58A", lead_time: "#A8A8A8" };
const DARK_LOOKS = { down: "#4a4f57", waiting: "#59606b", window: "#31506b", expired: "#8a5a34", lead_time: "#59606b" };
const lookColor = (look) => (isDark() ? DARK_LOOKS : LOOK_COLORS)[look];
const LOOK_WORDS = { cut: "cut by an outage", duplicate: "duplicate", critical: "critical chain", down: "down",
                     waiting: "waiting", window: "start window", expired: "start window of an expired job",
                     lead_time: "known before its window" };
// maximum number of rectangles drawn individually; more are drawn as mean colours of pixels
const MOST_EXACT = 1500, MOST_LABELS = 500, MOST_STEPS = 700, MOST_ARROWS = 300;
const UNITS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];

const $ = (id) => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (value !== null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
};
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const isDark = () => document.documentElement.dataset.theme === "dark";
const runColor = (run) => POLICIES[isDark() ? "dark" : "light"][DATA.runs[run].color % 7];
const runDash = (run) => DASHES[Math.floor(DATA.runs[run].color / 7) % 4];
const narrow = () => innerWidth < 640;

// ---- numbers and times in words ---------------------------------------------------------------------------------

function number(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e12 || (size > 0 && size < 1e-4)) return value.toExponential(2);
  const digits = Number.isInteger(value) || size >= 1000 ? 0 : Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(size || 1))));
  return (value + 0).toLocaleString("en-US", { maximumFractionDigits: digits });
}

function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (SLOTS) return `${number(seconds)} slot${seconds === 1 ? "" : "s"}`;
  const size = Math.abs(seconds);
  if (size < 120) return `${number(seconds)} s`;
  if (size < 7200) return `${number(Math.round(seconds / 6) / 10)} min`;
  if (size < 172800) return `${number(Math.round(seconds / 360) / 10)} h`;
  return `${number(Math.round(seconds / 8640) / 10)} d`;
}

const two = (value) => String(value).padStart(2, "0");

// simulated time as text, with the precision that ticks `step` apart need
function moment(time, step) {
  if (SLOTS || !Number.isFinite(time)) return number(time + 0);  // avoids -0
  if (step < 1) return `${number(Number(time.toPrecision(10)))} s`;
  const rounded = Math.round(time), days = Math.floor(rounded / 86400), rest = rounded - 86400 * days;
  if (step >= 86400) return `${days} d`;
  const day = DATA.span[1] > 86400 ? `${days} d ` : "";
  const clock = `${two(Math.floor(rest / 3600))}:${two(Math.floor(rest / 60) % 60)}`;
  return day + clock + (step < 60 ? `:${two(rest % 60)}` : "");
}

// ticks of the time axis, a round step apart
function timeMarks(begin, end, most) {
  const raw = (end - begin) / most;
  let step = 0;
  if (!SLOTS && raw > 1 && raw <= 43200) step = UNITS.find((unit) => unit >= raw);
  else {
    const unit = SLOTS || raw <= 1 ? 1 : 86400, wanted = unit === 1 ? raw : Math.max(raw, unit);
    const power = 10 ** Math.floor(Math.log10(wanted / unit)) * unit;
    step = [1, 2, 5, 10].map((factor) => factor * power).find((nice) => nice >= wanted * (1 - 1e-9));
    if (SLOTS) step = Math.max(1, Math.round(step));
  }
  const marks = [];
  for (let at = Math.ceil(begin / step - 1e-9) * step; at <= end + step * 1e-6; at += step) marks.push(at);
  return { step, marks };
}

// ---- data ---------------------------------------------------------------------------------------------------------

async function unpack() {
  const text = atob($("desim-arrays").textContent.trim());
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  $("desim-arrays").textContent = "";
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

const TYPES = { u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };
let buffer = null;
const opened = new Map();

function array(packed) {
  if (!packed) return null;
  const key = packed.at + packed.type;
  if (opened.has(key)) return opened.get(key);
  const raw = new TYPES[packed.type](buffer, packed.at, packed.count);
  let found = raw;
  if (packed.type === "i4") {
    found = new Float64Array(raw.length);
    for (let i = 0; i < raw.length; i++) found[i] = raw[i] === -2147483648 ? NaN : raw[i] * packed.scale + packed.base;
  }
  opened.set(key, found);
  return found;
}

// jobs of a run: columns, and the row of each arrival number
function openCards() {
  for (const card of DATA.cards) {
    const numbers = array(card.numbers);
    card.place = new Map();
    card.inOrder = true;
    for (let i = 0; i < numbers.length; i++) if (numbers[i] !== i) card.inOrder = false;
    if (!card.inOrder) numbers.forEach((value, i) => card.place.set(value, i));
    card.at = (owner) => card.inOrder ? (owner < numbers.length ? owner : -1) : card.place.get(owner) ?? -1;
    card.count = numbers.length;
    card.numbersOf = numbers;
    for (const column of card.columns) column.array = array(column.values);
    card.key = card.columns.find((column) => column.name === "job_id");
  }
}

function jobName(run, owner) {
  const card = DATA.cards[run], at = card.at(owner);
  if (at < 0) return "";
  return card.key ? (card.key.kind === "text" ? card.key.words[card.key.array[at]] : String(card.key.array[at])) : String(owner);
}

function cell(column, at) {
  const value = column.array[at];
  if (column.kind === "text") return column.words[value] || "–";
  if (column.kind === "time") return Number.isFinite(value) ? moment(value, DATA.span[1] > 864000 ? 1 : 0.1) : "–";
  if (column.name === "job_id" || column.name === "user_id") return value < 0 ? "unknown" : String(value);
  if (column.unit === "s" || column.unit === "slots") return duration(value);
  return number(value) + (column.unit && !column.label.includes(column.unit) ? ` ${column.unit}` : "");
}

// ---- figures ------------------------------------------------------------------------------------------------------

const figures = [];
const B = window.Bokeh;
let timeRange = null;

function newFigure(options) {
  const { height, xRange, yRange, xType, yType, pan = "width", active = true, left = narrow() ? 52 : 76 } = options;
  const tools = [];
  if (active) tools.push(new B.PanTool({ dimensions: pan }), new B.WheelZoomTool({ dimensions: "width", zoom_on_axis: false }));
  const figure = B.Plotting.figure({
    height, sizing_mode: "stretch_width", x_range: xRange, y_range: yRange, toolbar_location: null, tools,
    x_axis_type: xType || "linear", y_axis_type: yType || "linear", min_border_left: left, min_border_right: 22,
    min_border_top: 4, min_border_bottom: 4, outline_line_color: null, lod_threshold: null,
  });
  if (active) {
    figure.toolbar.active_drag = tools[0];
    figure.toolbar.active_scroll = tools[1];
  }
  figures.push(figure);
  return figure;
}

// Each chart has its own range, which follows the common range while the chart is visible, so that hidden charts are
// not redrawn at every step of a zoom.
function ownRange() {
  const room = (DATA.span[1] - DATA.span[0]) * 0.01;
  return new B.Range1d({ start: timeRange.start, end: timeRange.end, bounds: [DATA.span[0] - room, DATA.span[1] + room] });
}

// Warm-up and cool-down of a window are simulated, but not measured.
function shadeUnmeasured(figure, run) {
  const { measured } = DATA.runs[run];
  for (const [left, right] of measured ? [[DATA.span[0], measured[0]], [measured[1], DATA.span[1]]] : []) {
    if (left < right) figure.add_layout(new B.BoxAnnotation({ left, right, fill_color: UNMEASURED, fill_alpha: 0.22, line_color: null }));
  }
}

const UNMEASURED = "#808080";

const axesOf = (figure) => [figure.below[0], figure.left[0]];

function paint(figure) {
  const faint = css("--faint"), line = css("--line"), grid = css("--grid");
  figure.background_fill_color = css("--idle");
  figure.border_fill_color = null;
  figure.background_fill_alpha = 1;
  for (const axis of axesOf(figure)) {
    axis.axis_line_color = line;
    axis.major_tick_line_color = line;
    axis.minor_tick_line_color = null;
    axis.major_label_text_color = faint;
    axis.axis_label_text_color = faint;
    axis.major_label_text_font_size = narrow() ? "10px" : "11px";
    axis.axis_label_text_font_size = "12px";
    axis.axis_label_text_font_style = "normal";
    axis.major_tick_in = 0;
  }
  for (const part of figure.center) {
    if (part.grid_line_color === undefined) continue;
    part.grid_line_color = grid;
    part.ticker = axesOf(figure)[part.dimension].ticker;  // grid lines at the ticks
  }
}

const source = (columns) => new B.ColumnDataSource({ data: Object.fromEntries(columns.map((name) => [name, []])) });
const field = (name) => ({ field: name });
const places = [];  // figures, with their elements
const views = new Map();

function place(figure, node) {
  paint(figure);
  places.push([figure, node]);
}

// all figures are in one document, because they share the time range
async function showFigures() {
  const all = new B.Document();
  for (const [figure] of places) all.add_root(figure);
  const made = await B.embed.add_document_standalone(all, document.body, places.map(([, node]) => node));
  for (const [figure] of places) {
    const view = made.get(figure), area = view.canvas_view.events_el;
    views.set(figure, view);
    area.tabIndex = -1;  // the focus belongs to the whole timeline
    if (figure.toolbar.tools.length) area.style.touchAction = "pan-y";  // vertical swipes scroll the page
  }
}

function useTimeMarks(figure, marks) {
  const axis = figure.below[0];
  axis.ticker = new B.FixedTicker({ ticks: marks.marks, minor_ticks: [] });
  axis.major_label_overrides = new Map(marks.marks.map((at) => [at, moment(at, marks.step)]));
  for (const part of figure.center) if (part.dimension === 0) part.ticker = axis.ticker;
}

function nameRows(axis, rows) {
  const most = narrow() ? 7 : 11;
  axis.ticker = new B.FixedTicker({ ticks: rows.map((row) => row[0]), minor_ticks: [] });
  axis.major_label_overrides = new Map(rows.map(([at, name]) => [at, name.length > most ? name.slice(0, most - 1) + "…" : name]));
}

// ---- colours of jobs -----------------------------------------------------------------------------------------------

const viridis = (share) => {
  const stops = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const at = Math.min(3.9999, Math.max(0, share * 4)), low = Math.floor(at), part = at - low;
  return stops[low].map((value, i) => Math.round(value + part * (stops[low + 1][i] - value)));
};
const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const hex = (parts) => "#" + parts.map((value) => Math.round(value).toString(16).padStart(2, "0")).join("");

const coloring = { by: "job", palette: JOBS, places: [], legend: null };

// palette position for each job of each run; equal jobs, values or words have the same everywhere
function colorBy(name) {
  coloring.by = name;
  const columns = DATA.cards.map((card) => card.columns.find((column) => column.name === name));
  if (name === "job" || columns.some((column) => !column)) {
    coloring.palette = JOBS;
    coloring.places = DATA.cards.map(() => null);  // arrival number modulo the palette
    coloring.legend = null;
  } else if (columns[0].kind === "text" || name === "user_id") {
    const counts = new Map();
    const word = (column, i) => column.kind === "text" ? column.words[column.array[i]] : `user ${column.array[i]}`;
    columns.forEach((column) => { for (let i = 0; i < column.array.length; i++) { const w = word(column, i); counts.set(w, (counts.get(w) || 0) + 1); } });
    const ranked = [...counts.entries()].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map((entry) => entry[0]);
    const index = new Map(ranked.map((w, i) => [w, Math.min(i, JOBS.length)]));
    coloring.palette = [...JOBS, OTHER];
    coloring.places = columns.map((column) => Uint8Array.from(column.array, (_, i) => index.get(word(column, i))));
    coloring.legend = ranked.slice(0, 8).map((w, i) => [w, JOBS[i]]).concat(ranked.length > 8 ? [[`${ranked.length - 8} others`, OTHER]] : []);
  } else {
    let low = Infinity, high = -Infinity;
    for (const column of columns) for (const value of column.array) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
    const log = high > 50 * Math.max(low, 1), from = log ? Math.log10(Math.max(low, 1)) : low, to = log ? Math.log10(high) : high;
    coloring.palette = [...Array.from({ length: 32 }, (_, i) => hex(viridis(i / 31))), OTHER];
    const level = (value) => !Number.isFinite(value) ? 32 : Math.max(0, Math.min(31, Math.round(31 * ((log ? Math.log10(Math.max(value, 1)) : value) - from) / (to - from || 1))));
    coloring.places = columns.map((column) => Uint8Array.from(column.array, level));
    const timed = columns[0].unit === "s" || columns[0].unit === "slots", words = timed ? duration : number;
    coloring.legend = { low: words(log ? Math.max(low, 1) : low), high: words(high), log };
  }
}

function colorPlace(run, owner) {
  const places = coloring.places[run];
  if (owner < 0) return -1;
  if (!places) return owner % coloring.palette.length;
  const at = DATA.cards[run].at(owner);
  return at < 0 ? coloring.palette.length - 1 : places[at];
}

// ---- charts of rectangles ------------------------------------------------------------------------------------------

let room = new Float32Array(0);  // buffer for sums of pixels, reused for the next picture

class LaneChart {
  constructor(spec) {
    Object.assign(this, spec);
    for (const name of ["begin", "end", "first", "last", "owner", "look", "texts"]) this[name] = array(spec[name]);
    this.count = this.begin.length;
    this.shades = new Uint8Array(this.count * 3);
    this.drawn = null;
    this.visible = true;
    const rows = Math.max(1, this.rows);
    this.yRange = new B.Range1d({ start: rows - 0.5, end: -0.5, bounds: [-0.5, rows - 0.5] });
    if (this.label === "cores") [this.yRange.start, this.yRange.end] = [-0.5, rows - 0.5];
  }

  draw(node, height) {
    const figure = this.figure = newFigure({ height, xRange: ownRange(), yRange: this.yRange, pan: "both" });
    const [, left] = axesOf(figure);
    if (this.label === "rows") left.ticker = new B.FixedTicker({ ticks: [] });
    else if (this.groups.length && this.groups.length <= height / 13) nameRows(left, this.groups.map(([name, row]) => [row - 0.5, name]));
    else if (this.names.length && this.names.length <= height / 13) nameRows(left, this.names.map((name, i) => [i, name]));
    else left.ticker = new B.BasicTicker({ desired_num_ticks: Math.max(2, Math.floor(height / 45)), num_minor_ticks: 0, min_interval: 1 });
    this.image = source(["image", "x", "y", "dw", "dh"]);
    this.quads = source(["left", "right", "bottom", "top", "color", "edge"]);
    this.hatched = source(["left", "right", "bottom", "top"]);
    this.framed = source(["left", "right", "bottom", "top"]);
    this.marked = source(["left", "right", "bottom", "top"]);
    this.labels = source(["x", "y", "text"]);
    const box = { left: field("left"), right: field("right"), bottom: field("bottom"), top: field("top") };
    this.imageGlyph = figure.image_rgba({ image: field("image"), x: field("x"), y: field("y"), dw: field("dw"), dh: field("dh"), source: this.image });
    this.quadGlyph = figure.quad({ ...box, fill_color: field("color"), line_color: field("edge"), line_width: 0.7, source: this.quads });
    figure.quad({ ...box, fill_alpha: 0, line_color: null, hatch_pattern: "/", hatch_color: "#222222", hatch_alpha: 0.7, hatch_scale: 7, source: this.hatched });
    this.frameGlyph = figure.quad({ ...box, fill_alpha: 0, line_color: "#000000", line_width: 2, source: this.framed });
    if (this.arrows) this.drawArrows(figure);
    figure.text({ x: field("x"), y: field("y"), text: field("text"), text_color: "#1a1a1a", text_font_size: "10px", text_align: "center", text_baseline: "middle", source: this.labels });
    this.markGlyph = figure.quad({ ...box, fill_color: "#D5006D", fill_alpha: 0.8, line_color: "#D5006D", line_width: 2.5, source: this.marked });
    shadeUnmeasured(figure, this.run);
    place(figure, node);
  }

  drawArrows(figure) {
    for (const name of ["begin", "end", "source", "destination", "critical"]) this.arrows[name] = array(this.arrows[name]);
    this.moves = source(["x0", "y0", "x1", "y1", "color", "width"]);
    figure.segment({ x0: field("x0"), y0: field("y0"), x1: field("x1"), y1: field("y1"), line_color: field("color"), line_width: field("width"), source: this.moves });
    this.tips = source(["x", "y", "angle", "color"]);
    figure.scatter({ x: field("x"), y: field("y"), size: 6, color: field("color"), marker: "circle", source: this.tips });
  }

  color(i) {
    const look = LOOKS[this.look[i]];
    if (LOOK_COLORS[look]) return lookColor(look);
    return coloring.palette[colorPlace(this.run, this.owner[i])] || OTHER;
  }

  // red, green and blue of each rectangle, for drawing by pixels
  paint() {
    const known = new Map();
    for (let i = 0; i < this.count; i++) {
      const color = this.color(i);
      let parts = known.get(color);
      if (!parts) known.set(color, parts = rgb(color));
      this.shades.set(parts, 3 * i);
    }
  }

  // half the height of a rectangle; rectangles in the background fill the row, or are a thin line
  half(i) {
    const look = LOOKS[this.look[i]];
    if (this.label === "cores" || look === "down") return 0.5;
    return look === "waiting" || look === "lead_time" ? 0.12 : look === "window" || look === "expired" ? 0.42 : 0.32;
  }

  // draw the visible range and as much on either side, so that small moves need no redrawing
  update(force) {
    const x0 = timeRange.start, x1 = timeRange.end, span = x1 - x0;
    const [y0, y1] = [Math.min(this.yRange.start, this.yRange.end), Math.max(this.yRange.start, this.yRange.end)];
    const was = this.drawn;
    const kept = was && !force && x0 >= was.from && x1 <= was.to && span > was.span * 0.7 && span < was.span * 1.5
      && y0 === was.y0 && y1 === was.y1;
    if (kept) return false;
    const from = x0 - span * 0.5, to = x1 + span * 0.5;
    this.drawn = { from, to, span, y0, y1 };
    const found = [], most = Math.max(250, MOST_EXACT / (charts.length - hidden.size));
    for (let i = 0; i < this.count && found.length <= most; i++) {
      if (this.begin[i] >= to) break;
      if (this.end[i] > from && this.last[i] + 0.5 > y0 && this.first[i] - 0.5 < y1) found.push(i);
    }
    this.exact = found.length <= most;
    this.imageGlyph.visible = !this.exact;
    this.quadGlyph.visible = this.exact;
    if (this.exact) this.drawExact(found, span, y1 - y0);
    else this.drawPixels(from, to, y0, y1);
    if (this.arrows) this.updateArrows(from, to);
    return true;
  }

  size() {
    const view = views.get(this.figure);
    const box = view && view.frame ? view.frame.bbox : null;
    return box && box.width > 10 ? [box.width, box.height] : [900, 200];
  }

  drawExact(found, span, rows) {
    const [width, height] = this.size(), n = found.length;
    const data = { left: new Float64Array(n), right: new Float64Array(n), bottom: new Float64Array(n), top: new Float64Array(n), color: new Array(n), edge: new Array(n) };
    const hatched = { left: [], right: [], bottom: [], top: [] }, framed = { left: [], right: [], bottom: [], top: [] };
    const labels = { x: [], y: [], text: [] };
    // labels go into the visible part of a rectangle
    const middle = (begin, end) => { const a = Math.max(begin, timeRange.start), b = Math.min(end, timeRange.end); return b > a ? (a + b) / 2 : (begin + end) / 2; };
    const edge = isDark() ? "rgba(0,0,0,0.75)" : "rgba(40,40,40,0.6)";
    for (let k = 0; k < n; k++) {
      const i = found[k], half = this.half(i), look = LOOKS[this.look[i]];
      data.left[k] = this.begin[i]; data.right[k] = this.end[i];
      data.bottom[k] = this.first[i] - half; data.top[k] = this.last[i] + half;
      data.color[k] = this.color(i);
      const wide = (this.end[i] - this.begin[i]) / span * width, high = (data.top[k] - data.bottom[k]) / rows * height;
      data.edge[k] = wide > 3 && high > 3 && look !== "waiting" && look !== "lead_time" ? edge : data.color[k];
      const target = look === "cut" || look === "duplicate" || look === "down" ? hatched : look === "critical" ? framed : null;
      if (target) for (const name of ["left", "right", "bottom", "top"]) target[name].push(data[name][k]);
      if (this.owner[i] >= 0 && !LOOK_COLORS[look] && high >= 10 && labels.x.length < MOST_LABELS) {
        const text = this.texts[i] !== undefined && this.words[this.texts[i]] ? this.words[this.texts[i]] : jobName(this.run, this.owner[i]);
        if (wide > text.length * 6.2 + 4) { labels.x.push(middle(this.begin[i], this.end[i])); labels.y.push((this.first[i] + this.last[i]) / 2); labels.text.push(text); }
      }
    }
    this.quads.data = data;
    this.fill(this.hatched, hatched); this.fill(this.framed, framed); this.fill(this.labels, labels);
  }

  // leave empty pixels unchanged
  fill(into, data) {
    const [first] = Object.values(data);
    if (first.length || into.get_length()) into.data = data;
  }

  // mean colour of each pixel, weighted by the area that each rectangle covers; no rectangle is omitted
  drawPixels(from, to, y0, y1) {
    const [wide, high] = this.size(), span = to - from;
    [from, to] = [Math.max(from, DATA.span[0]), Math.min(to, DATA.span[1])];
    const width = Math.max(20, Math.round(2 * wide * (to - from) / span)), height = Math.max(20, Math.round(high));
    if (room.length < width * height * 4) room = new Float32Array(width * height * 4);
    const sums = room.subarray(0, width * height * 4).fill(0), shades = this.shades;
    const sx = width / (to - from), sy = height / (y1 - y0);
    for (let i = 0; i < this.count; i++) {
      if (this.begin[i] >= to) break;
      if (this.end[i] <= from) continue;
      const half = this.half(i);
      const xa = Math.max(0, (this.begin[i] - from) * sx), xb = Math.min(width, (this.end[i] - from) * sx);
      const ya = Math.max(0, (this.first[i] - half - y0) * sy), yb = Math.min(height, (this.last[i] + half - y0) * sy);
      if (yb <= ya || xb < xa) continue;
      const red = shades[3 * i], green = shades[3 * i + 1], blue = shades[3 * i + 2];
      const c0 = Math.min(width - 1, Math.floor(xa)), c1 = Math.min(width - 1, Math.max(c0, Math.ceil(xb) - 1));
      const r0 = Math.floor(ya), r1 = Math.min(height - 1, Math.ceil(yb) - 1);
      for (let r = r0; r <= r1; r++) {
        const tall = Math.min(r + 1, yb) - Math.max(r, ya);
        for (let c = c0; c <= c1; c++) {
          const share = tall * Math.max(0.02, Math.min(c + 1, xb) - Math.max(c, xa)), at = (r * width + c) * 4;
          sums[at] += share * red; sums[at + 1] += share * green; sums[at + 2] += share * blue; sums[at + 3] += share;
        }
      }
    }
    const pixels = new Uint32Array(width * height);
    for (let k = 0; k < pixels.length; k++) {
      const share = sums[4 * k + 3];
      if (share === 0) continue;
      const alpha = Math.round(255 * Math.min(1, 0.12 + share));
      pixels[k] = (alpha << 24 | (sums[4 * k + 2] / share) << 16 | (sums[4 * k + 1] / share) << 8 | (sums[4 * k] / share)) >>> 0;
    }
    const image = B.require("core/util/ndarray").ndarray(pixels, { shape: [height, width], dtype: "uint32" });
    this.image.data = { image: [image], x: [from], y: [y0], dw: [to - from], dh: [y1 - y0] };
    const none = { left: [], right: [], bottom: [], top: [] };
    this.fill(this.hatched, { ...none }); this.fill(this.framed, { ...none }); this.fill(this.labels, { x: [], y: [], text: [] });
  }

  updateArrows(from, to) {
    const data = { x0: [], y0: [], x1: [], y1: [], color: [], width: [] }, tips = { x: [], y: [], angle: [], color: [] };
    const { begin, end, source: start, destination, critical } = this.arrows;
    const strong = css("--strong"), faint = css("--faint");
    let count = 0;
    for (let i = 0; i < begin.length; i++) if (end[i] > from && begin[i] < to) count++;
    for (let i = 0; i < begin.length; i++) {
      if (end[i] <= from || begin[i] >= to || (count > MOST_ARROWS && !critical[i])) continue;
      const side = Math.sign(destination[i] - start[i]) * 0.32, color = critical[i] ? strong : faint;
      data.x0.push(begin[i]); data.y0.push(start[i] + side); data.x1.push(end[i]); data.y1.push(destination[i] - side);
      data.color.push(color); data.width.push(critical[i] ? 2 : 0.9);
      tips.x.push(end[i]); tips.y.push(destination[i] - side); tips.angle.push(0); tips.color.push(color);
    }
    this.moves.data = data; this.tips.data = tips;
  }

  mark(owners) {
    const data = { left: [], right: [], bottom: [], top: [] };
    if (owners.size) for (let i = 0; i < this.count; i++) {
      if (!owners.has(this.owner[i]) || LOOK_COLORS[LOOKS[this.look[i]]]) continue;
      const half = this.half(i);
      data.left.push(this.begin[i]); data.right.push(this.end[i]); data.bottom.push(this.first[i] - half); data.top.push(this.last[i] + half);
    }
    this.marked.data = data;
    this.frameGlyph.glyph.line_color = css("--strong");
    this.imageGlyph.glyph.global_alpha = owners.size ? 0.4 : 1;
    this.quadGlyph.glyph.fill_alpha = owners.size ? 0.4 : 1;
  }

  // rectangle at a position, front ones first; thin ones can be hit slightly outside their edges
  at(x, y) {
    const near = (timeRange.end - timeRange.start) / this.size()[0] * 2;
    let best = -1;
    for (let i = 0; i < this.count; i++) {
      if (this.begin[i] - near > x) break;
      if (this.end[i] + near < x || this.first[i] - 0.5 > y || this.last[i] + 0.5 <= y) continue;
      if (best < 0 || !LOOK_COLORS[LOOKS[this.look[i]]] || LOOK_COLORS[LOOKS[this.look[best]]]) best = i;
    }
    return best;
  }

  said(i) {
    const look = LOOKS[this.look[i]], name = jobName(this.run, this.owner[i]);
    const text = this.texts[i] !== undefined ? this.words[this.texts[i]] : "";
    const title = this.owner[i] < 0 ? LOOK_WORDS[look] : `job ${name}` + (text ? `, ${text}` : "");
    const rows = this.label === "rows" ? [] : [[this.label.replace(/s$/, ""), this.rowName(i)]];
    if (this.groups.length) {
      const [first, last] = [this.first[i], this.last[i]].map((row) => this.groups.findLast(([, begin]) => begin <= row)[0]);
      rows.push([this.label === "cores" ? "node" : "on", first === last ? first : `${first} to ${last}`]);
    }
    if (text || this.owner[i] < 0) rows.push(["from", moment(this.begin[i], 0.1)], ["to", moment(this.end[i], 0.1)]);
    if (this.owner[i] >= 0 && LOOK_WORDS[look]) rows.push(["shown", LOOK_WORDS[look]]);
    return { title, rows, owner: this.owner[i], color: this.color(i) };
  }

  rowName(i) {
    const [first, last] = [this.first[i], this.last[i]].map((row) => this.names[row] ?? String(row));
    return first === last ? first : `${first} to ${last}`;
  }
}

// ---- maps: shares of rows in slots ---------------------------------------------------------------------------------

class MapChart {
  constructor(spec) {
    Object.assign(this, spec);
    this.edges = array(spec.edges); this.cells = array(spec.cells);
    this.columns = this.edges.length - 1;
    this.yRange = new B.Range1d({ start: this.rows - 0.5, end: -0.5, bounds: [-0.5, this.rows - 0.5] });
  }

  draw(node, height) {
    const figure = this.figure = newFigure({ height, xRange: ownRange(), yRange: this.yRange, pan: "both" });
    const [, left] = axesOf(figure);
    if (this.names.length <= height / 13) nameRows(left, this.names.map((name, i) => [i, name]));
    else {
      left.ticker = new B.BasicTicker({ desired_num_ticks: 5, num_minor_ticks: 0, min_interval: 1 });
      left.major_label_overrides = new Map(this.names.map((name, i) => [i, name]));
    }
    this.image = source(["image", "x", "y", "dw", "dh"]);
    this.glyph = figure.image_rgba({ image: field("image"), x: field("x"), y: field("y"), dw: field("dw"), dh: field("dh"), source: this.image });
    shadeUnmeasured(figure, this.run);
    place(figure, node);
  }

  size() { return LaneChart.prototype.size.call(this); }

  update(force) {
    const x0 = timeRange.start, x1 = timeRange.end, span = x1 - x0, was = this.drawn;
    if (was && !force && x0 >= was.from && x1 <= was.to && span > was.span * 0.7 && span < was.span * 1.5) return false;
    const from = Math.max(x0 - span / 2, this.edges[0]), to = Math.min(x1 + span / 2, this.edges[this.columns]);
    this.drawn = { from: x0 - span / 2, to: x1 + span / 2, span };
    if (to <= from) { this.image.data = { image: [], x: [], y: [], dw: [], dh: [] }; return true; }
    const width = Math.max(20, Math.round(this.size()[0] * (to - from) / span)), pixels = new Uint32Array(width * this.rows);
    const dark = isDark(), empty = dark ? 0xff4f4a45 : 0xffd8d4d0, low = dark ? [32, 36, 44] : [255, 255, 255], mid = [0, 114, 178], high = dark ? [150, 215, 255] : [0, 43, 69];
    const shade = (share) => { const t = share * 2, [a, b, p] = t < 1 ? [low, mid, t] : [mid, high, t - 1]; return a.map((value, i) => value + p * (b[i] - value)); };
    let column = 0;
    for (let c = 0; c < width; c++) {  // means over the slots of a pixel
      const a = from + (to - from) * c / width, b = from + (to - from) * (c + 1) / width;
      while (column > 0 && this.edges[column] > a) column--;
      while (column < this.columns - 1 && this.edges[column + 1] <= a) column++;
      let last = column;
      while (last < this.columns - 1 && this.edges[last + 1] < b) last++;
      for (let r = 0; r < this.rows; r++) {
        let sum = 0, known = 0;
        for (let k = column; k <= last; k++) { const value = this.cells[r * this.columns + k]; if (value !== 255) { sum += value; known++; } }
        const [red, green, blue] = known ? shade(sum / known / 254) : [0, 0, 0];
        pixels[r * width + c] = known ? (0xff << 24 | blue << 16 | green << 8 | red) >>> 0 : empty;
      }
    }
    const image = B.require("core/util/ndarray").ndarray(pixels, { shape: [this.rows, width], dtype: "uint32" });
    this.image.data = { image: [image], x: [from], y: [-0.5], dw: [to - from], dh: [this.rows] };
    return true;
  }

  mark() {}

  at(x, y) {
    const row = Math.round(y);
    if (row < 0 || row >= this.rows || x < this.edges[0] || x >= this.edges[this.columns]) return -1;
    let low = 0, high = this.columns - 1;
    while (low < high) { const mid = (low + high + 1) >> 1; if (this.edges[mid] <= x) low = mid; else high = mid - 1; }
    return row * this.columns + low;
  }

  said(at) {
    const row = Math.floor(at / this.columns), column = at % this.columns, value = this.cells[at];
    return { title: this.names[row], owner: -1, color: null, rows: [["slot", number(this.edges[column])], ["in use", value === 255 ? "has none" : `${number(value / 2.54)} %`]] };
  }
}

// ---- curves over time ----------------------------------------------------------------------------------------------

class CurveChart {
  constructor(spec) {
    Object.assign(this, spec);
    for (const line of this.lines) {
      line.time = array(line.time); line.value = array(line.value); line.bound = array(line.bound);
      const sum = line.sum = new Float64Array(line.time.length), bound = line.bound && (line.boundSum = new Float64Array(line.time.length));
      for (let i = 1; i < sum.length; i++) {
        sum[i] = sum[i - 1] + line.value[i - 1] * (line.time[i] - line.time[i - 1]);
        if (bound) line.boundSum[i] = line.boundSum[i - 1] + line.bound[i - 1] * (line.time[i] - line.time[i - 1]);
      }
    }
    this.yRange = new B.Range1d({ start: 0, end: this.top || 1 });
  }

  draw(node, height) {
    this.figure = newFigure({ height, xRange: ownRange(), yRange: this.yRange });
    const [, left] = axesOf(this.figure);
    left.ticker = new B.BasicTicker({ desired_num_ticks: 4, num_minor_ticks: 0 });
    left.formatter = new B.NumeralTickFormatter({ format: "0,0.[00]" });
    for (const line of [...this.lines].reverse()) {
      line.source = source(["x", "y", "bound"]);
      if (line.bound) line.boundGlyph = this.figure.line({ x: field("x"), y: field("bound"), line_color: "#888888", line_width: 1.4, source: line.source });
      if (this.lines.length === 1) line.area = this.figure.varea({ x: field("x"), y1: 0, y2: field("y"), fill_alpha: 0.22, fill_color: runColor(line.run), source: line.source });
      line.glyph = this.figure.line({ x: field("x"), y: field("y"), line_color: runColor(line.run), line_width: 1.6, line_dash: runDash(line.run), source: line.source });
    }
    shadeUnmeasured(this.figure, this.lines[0].run);
    place(this.figure, node);
  }

  // all steps if there are few, otherwise means over bins of a few pixels
  update() {
    const x0 = timeRange.start, x1 = timeRange.end;
    let highest = 0, binned = 0;
    for (const line of this.lines) {
      if (!isShown(line.run)) continue;
      const from = lower(line.time, x0), to = lower(line.time, x1);
      const data = { x: [], y: [], bound: [] };
      if (to - from <= MOST_STEPS / (this.lines.length > 3 ? 2 : 1)) {
        for (let i = Math.max(0, from - 1); i <= Math.min(to, line.time.length - 1); i++) { data.x.push(line.time[i]); data.y.push(line.value[i]); data.bound.push(line.bound ? line.bound[i] : 0); }
      } else {
        const bins = this.lines.length > 3 ? 120 : 240, begin = Math.max(x0, line.time[0]), end = Math.min(x1, line.time[line.time.length - 1]);
        binned = (end - begin) / bins;
        for (let k = 0; k <= bins; k++) {
          const a = begin + binned * Math.min(k, bins - 1);
          data.x.push(begin + binned * k);
          data.y.push((integral(line, line.sum, line.value, a + binned) - integral(line, line.sum, line.value, a)) / binned);
          data.bound.push(line.bound ? (integral(line, line.boundSum, line.bound, a + binned) - integral(line, line.boundSum, line.bound, a)) / binned : 0);
        }
      }
      for (const value of data.y) if (value > highest) highest = value;
      if (line.bound) for (const value of data.bound) if (value > highest) highest = value;
      line.source.data = stepped(data);
    }
    if (!this.top) this.yRange.end = niceTop(highest);
    if (this.remark) this.remark.textContent = binned ? `means over ${duration(binned)}` : "";
  }

  restyle() {
    for (const line of this.lines) {
      line.glyph.glyph.line_color = runColor(line.run);
      if (line.area) line.area.glyph.fill_color = runColor(line.run);
      for (const glyph of [line.glyph, line.boundGlyph]) if (glyph) glyph.visible = isShown(line.run);
    }
  }

  at(x) {
    return this.lines.filter((line) => isShown(line.run)).map((line) => {
      const i = Math.max(0, lower(line.time, x * (1 + 1e-15)) - 1);
      return [line.run, line.value[i], line.bound ? line.bound[i] : null];
    });
  }
}

// corners of a step function, in which each value holds until the next position
function stepped(data) {
  const n = data.x.length, found = {};
  for (const [name, values] of Object.entries(data)) {
    const corners = found[name] = new Float64Array(Math.max(0, 2 * n - 1));
    for (let i = 0; i < n; i++) {
      corners[2 * i] = values[i];
      if (i + 1 < n) corners[2 * i + 1] = name === "x" ? values[i + 1] : values[i];
    }
  }
  return found;
}

function niceTop(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value * 1.05));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((factor) => factor * power).find((nice) => nice >= value * 1.05);
}

function lower(values, wanted) {  // first index whose value is not smaller
  let low = 0, high = values.length;
  while (low < high) { const mid = (low + high) >> 1; if (values[mid] < wanted) low = mid + 1; else high = mid; }
  return low;
}

function integral(line, sums, values, at) {
  const i = Math.min(line.time.length - 1, Math.max(0, lower(line.time, at) - 1));
  return sums[i] + values[i] * (at - line.time[i]);
}

// ---- the timeline --------------------------------------------------------------------------------------------------

const charts = [], curves = [];
const hidden = new Set();
const isShown = (run) => !hidden.has(run);
let marked = new Set();
let pending = false, waiting = [];

function schedule() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(refresh);
}

let marks = null, width = 900, syncing = false;

// ticks for the visible range and as much on either side; new ticks need a new layout, so they are rarely set
function newMarks() {
  const { start, end } = timeRange, span = end - start, step = timeMarks(start, end, Math.max(3, Math.min(10, width / 95))).step;
  if (marks && marks.step === step && marks.from <= start && marks.to >= end) return;
  const from = start - span, to = end + span, found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  marks = { step, from, to, marks: found };
}

function refresh() {
  pending = false;
  newMarks();
  readout();
  waiting = [...curves, ...charts.filter((chart) => isShown(chart.run))].filter(isSeen);
  syncing = true;
  for (const chart of waiting) {
    const range = chart.figure.x_range;
    if (range.start !== timeRange.start || range.end !== timeRange.end) range.setv({ start: timeRange.start, end: timeRange.end });
    if (chart.marks !== marks) useTimeMarks(chart.figure, chart.marks = marks);
  }
  syncing = false;
  catchUp();
}

// update as many charts as fit into one frame, so that scrolling stays smooth
function catchUp() {
  const begin = performance.now();
  while (waiting.length) {
    waiting.shift().update(false);
    if (performance.now() - begin > 9) break;
  }
  if (waiting.length && !pending) requestAnimationFrame(() => { if (!pending) catchUp(); });
}

function isSeen(chart) {
  const box = chart.node.getBoundingClientRect();
  return box.bottom > -200 && box.top < innerHeight + 200;
}

function readout() {
  const begin = Math.max(timeRange.start, DATA.span[0]), end = Math.min(timeRange.end, DATA.span[1]);
  const span = end - begin, step = SLOTS ? 1 : span > 864000 ? 3600 : span > 3600 ? 60 : span > 60 ? 1 : 0.1;
  $("window").textContent = `${moment(begin, step)} to ${moment(end, step)} (${duration(SLOTS ? Math.round(span) : span)})`;
}

function show(begin, end) {
  const [low, high] = DATA.span, whole = (high - low) * 1.02;
  const span = Math.min(Math.max(end - begin, (high - low) * 1e-7), whole);
  let start = Math.max(low - (whole - (high - low)) / 2, Math.min((begin + end - span) / 2, high + (whole - (high - low)) / 2 - span));
  timeRange.setv({ start, end: start + span });
}

function zoom(factor, share = 0.5) {
  const { start, end } = timeRange, middle = start + share * (end - start), span = (end - start) * factor;
  show(middle - share * span, middle + (1 - share) * span);
}

// show more or fewer rows of a chart, keeping the row at a given fraction of its height in place; scales follow their
// ranges one frame later, so fractions of the height are used instead of rows
function zoomRows(chart, factor, above = 0.5) {
  const { start, end } = chart.yRange, low = -0.5, high = Math.max(1, chart.rows) - 0.5, up = start < end;
  const span = Math.min(high - low, Math.max(1, Math.abs(end - start) * factor)), share = up ? 1 - above : above;
  const middle = Math.min(start, end) + share * Math.abs(end - start);
  const from = Math.max(low, Math.min(middle - share * span, high - span));
  chart.yRange.setv(up ? { start: from, end: from + span } : { start: from + span, end: from });
}

function move(share) {
  const span = timeRange.end - timeRange.start;
  show(timeRange.start + share * span, timeRange.end + share * span);
}

function reset() {
  for (const chart of charts) { const rows = Math.max(1, chart.rows) - 0.5, up = chart.label === "cores"; chart.yRange.setv(up ? { start: -0.5, end: rows } : { start: rows, end: -0.5 }); }
  const room = (DATA.span[1] - DATA.span[0]) * 0.01;
  show(DATA.span[0] - room, DATA.span[1] + room);
}

function button(text, label, action) {
  const node = make("button", { type: "button", "aria-label": label, title: label, text });
  node.addEventListener("click", action);
  return node;
}

function toolbar(root) {
  const search = make("input", { type: "search", id: "search", placeholder: "job id or name", "aria-label": "search for a job", autocomplete: "off" });
  const known = DATA.cards.some((card) => card.columns.length);  // a page about very many jobs knows none of them
  const bar = make("div", { class: "bar", role: "toolbar", "aria-label": "timeline" }, ...(known ? [search] : []),
    make("span", { class: "group" }, button("−", "zoom out (-)", () => zoom(1.6)), button("+", "zoom in (+)", () => zoom(0.625)),
      button("‹", "earlier (left arrow)", () => move(-0.3)), button("›", "later (right arrow)", () => move(0.3)), button("all", "show all (0)", reset)));
  const names = [...new Set(DATA.cards.flatMap((card) => card.columns.filter((column) => column.color).map((column) => column.name)))];
  if (names.length && DATA.charts.some((chart) => chart.kind === "lanes")) {
    const labels = new Map(DATA.cards.flatMap((card) => card.columns.map((column) => [column.name, column.label])));
    const select = make("select", { id: "color" }, make("option", { value: "job", text: "job" }), ...names.map((name) => make("option", { value: name, text: labels.get(name) })));
    select.addEventListener("change", () => { colorBy(select.value); drawLegend(); for (const chart of charts) { chart.drawn = null; if (chart.paint) chart.paint(); } schedule(); });
    bar.append(make("label", {}, "colour", select));
  }
  bar.append(make("output", { id: "window", "aria-live": "off" }));
  root.append(bar);
  root.append(make("p", { class: "help wide" }));
  root.lastChild.innerHTML = "Drag to move, <kbd>Ctrl</kbd> + wheel, pinch or double-click to zoom, <kbd>Shift</kbd> + wheel for rows" + (known ? ", click a bar to keep its job" : "") + ". Keys: <kbd>←</kbd> <kbd>→</kbd> <kbd>+</kbd> <kbd>−</kbd> <kbd>[</kbd> <kbd>]</kbd> <kbd>0</kbd>" + (known ? ", <kbd>/</kbd> search, <kbd>Esc</kbd> let go." : ".");
  if (DATA.opening) root.append(make("p", { class: "help", text: "The page opens on the busiest part of the time; “all” shows the rest." }));
  search.addEventListener("input", () => find(search.value, false));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { find(search.value, true); event.preventDefault(); }
    if (event.key === "Escape") { search.value = ""; keep([]); }
    event.stopPropagation();
  });
  root.append(make("div", { class: "found", id: "found", "aria-live": "polite", hidden: "" }));
}

function chips(root) {
  if (DATA.runs.length < 2) return;
  const row = make("div", { class: "chips", role: "group", "aria-label": "runs that are shown" });
  DATA.runs.forEach((run, number) => {
    const dot = make("span", { class: "dot", "data-run": number });
    const chip = make("button", { type: "button", "aria-pressed": "true" }, dot, run.name);
    chip.addEventListener("click", () => {
      if (hidden.has(number)) hidden.delete(number); else if (hidden.size < DATA.runs.length - 1) hidden.add(number);
      chip.setAttribute("aria-pressed", String(isShown(number)));
      for (const chart of charts) if (chart.run === number) chart.node.hidden = !isShown(number);
      for (const curve of curves) curve.restyle();
      if (spread) spread.restyle();
      schedule();
    });
    row.append(chip);
  });
  root.append(row);
}

function drawLegend() {
  const node = $("legend"), parts = [];
  node.replaceChildren();
  if (Array.isArray(coloring.legend)) for (const [name, color] of coloring.legend) parts.push([name, `background:${color}`]);
  else if (coloring.legend) {
    const ramp = Array.from({ length: 9 }, (_, i) => hex(viridis(i / 8))).join(",");
    node.append(make("span", {}, coloring.legend.low, make("i", { class: "ramp", style: `background:linear-gradient(90deg,${ramp})` }), coloring.legend.high, coloring.legend.log ? " (logarithmic)" : ""));
  }
  const looks = new Set();
  for (const chart of charts) if (chart.look) for (const look of chart.look) looks.add(LOOKS[look]);
  for (const look of LOOKS) {
    if (!looks.has(look) || look === "runs") continue;
    const hatch = "repeating-linear-gradient(135deg,#222 0 1px,transparent 1px 4px)";
    const style = look === "cut" || look === "duplicate" ? `background:${hatch}` : look === "critical" ? "border:2px solid var(--strong)" : look === "down" ? `background:${hatch},${lookColor("down")}` : `background:${lookColor(look)}`;
    parts.push([look === "cut" && looks.has("duplicate") ? "cut, or duplicate" : LOOK_WORDS[look], style]);
  }
  if (DATA.runs.some((run) => run.measured)) parts.push(["warm-up, cool-down (not measured)", `background:${UNMEASURED}38`]);
  for (const [name, style] of parts) node.append(make("span", {}, make("i", { style }), name));
  if (charts.some((chart) => chart.kind === "map")) node.append(make("span", {}, "0 %", make("i", { class: "ramp", style: `background:linear-gradient(90deg,${isDark() ? "#20242c,#0072B2,#96d7ff" : "#fff,#0072B2,#002b45"})` }), "100 % of the capacity"));
}

function panel(root, run, text, remark) {
  const small = make("small", { text: remark || "" });
  const head = make("h3", {}, ...(run === null ? [text] : [make("span", { class: "dot", "data-run": run }), text]), small);
  const plot = make("div", { class: "plot" }), node = make("div", { class: "panel" }, head, plot);
  root.append(node);
  return { node, plot, small };
}

function overview(root) {
  const main = DATA.curves[0];
  if (!main) return;
  const [low, high] = DATA.span, room = (high - low) * 0.01;
  const figure = newFigure({ height: 62, xRange: new B.Range1d({ start: low - room, end: high + room }), yRange: new B.Range1d({ start: 0, end: 1 }), active: false });
  const line = curves[0].lines[0], bins = 300, x = [], y = [];
  for (let k = 0; k <= bins; k++) {
    const a = low + (high - low) * Math.min(k, bins - 1) / bins, b = a + (high - low) / bins;
    const clipped = (at) => Math.min(at, line.time[line.time.length - 1]);
    x.push(low + (high - low) * k / bins);
    y.push(Math.max(0, integral(line, line.sum, line.value, clipped(b)) - integral(line, line.sum, line.value, clipped(a))) / (b - a));
  }
  figure.y_range.end = Math.max(...y) * 1.1 || 1;
  overviewArea = figure.varea({ x: field("x"), y1: 0, y2: field("y"), fill_alpha: 0.35, fill_color: runColor(line.run), source: new B.ColumnDataSource({ data: stepped({ x, y }) }) });
  figure.left[0].visible = false;
  figure.left[0].ticker = new B.FixedTicker({ ticks: [] });
  const tool = new B.RangeTool({ x_range: timeRange });
  tool.overlay.fill_alpha = 0.22;
  figure.add_tools(tool);
  const { plot } = panel(root, null, "", "");
  plot.previousSibling.remove();
  plot.setAttribute("aria-hidden", "true");
  place(figure, plot);
  const marks = timeMarks(low, high, Math.max(3, Math.min(10, (root.clientWidth - 90) / 95)));
  useTimeMarks(figure, marks);
  overviewTool = tool;
}

let overviewArea = null, overviewTool = null;

function timeline() {
  const root = $("chart-timeline");
  if (!root) return;
  root.tabIndex = 0;
  timeRange = new B.Range1d({ start: DATA.span[0], end: DATA.span[1] });
  toolbar(root);
  chips(root);
  for (const spec of DATA.charts) charts.push(spec.kind === "map" ? new MapChart(spec) : new LaneChart(spec));
  for (const spec of DATA.curves) curves.push(new CurveChart(spec));
  overview(root);
  root.append(make("div", { class: "legend", id: "legend" }));
  const names = new Set(charts.map((chart) => chart.name));
  const height = (chart) => {
    const room = DATA.runs.length === 1 ? 400 : DATA.runs.length <= 3 ? 230 : 165;
    return (chart.names.length && chart.rows <= 40 ? Math.min(room, Math.max(80, chart.rows * 26)) : room) + 26;
  };
  for (const chart of charts) {
    const run = DATA.runs[chart.run];
    const what = names.size > 1 ? `${run.title}: ${chart.label}` : run.title;
    const made = panel(root, chart.run, what, `${number(run.jobs)} jobs` + (chart.label === "rows" ? "" : `, ${number(chart.things ?? chart.rows)} ${chart.label}`));
    chart.node = made.node;
    chart.draw(made.plot, height(chart));
  }
  for (const curve of curves) {
    const made = panel(root, null, curve.label[0].toUpperCase() + curve.label.slice(1) + (curve.bound ? ` under ${curve.bound} (grey)` : ""), "");
    curve.remark = made.small;
    curve.node = made.node;
    curve.draw(made.plot, narrow() ? 120 : 140);
  }
  drawLegend();
}

// ---- pointer, keys, search ------------------------------------------------------------------------------------------

function position(chart, event) {
  const view = views.get(chart.figure);
  if (!view) return null;
  const box = view.el.getBoundingClientRect(), sx = event.clientX - box.left, sy = event.clientY - box.top, frame = view.frame.bbox;
  if (sx < frame.left || sx > frame.right || sy < frame.top || sy > frame.bottom) return null;
  return { x: view.frame.x_scale.invert(sx), y: view.frame.y_scale.invert(sy), share: (sx - frame.left) / frame.width, above: (sy - frame.top) / frame.height };
}

function card(said, run) {
  const rows = said.rows.map(([name, value]) => [name, value]);
  if (said.owner >= 0) {
    const of = DATA.cards[run], at = of.at(said.owner);
    for (const column of of.columns) if (at >= 0 && column.name !== "job_id") rows.push([column.label, cell(column, at)]);
  }
  const node = $("hover");
  const title = make("strong", {}, said.title);
  if (said.color) title.prepend(make("span", { class: "swatch", style: `background:${said.color};margin:0` }));
  node.replaceChildren(title, make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: value })])));
}

function showCard(event) {
  const node = $("hover");
  node.hidden = false;
  const box = node.getBoundingClientRect();
  node.style.left = `${Math.max(4, event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 14 : event.clientX + 16)}px`;
  node.style.top = `${Math.max(4, Math.min(innerHeight - box.height - 4, event.clientY + 14))}px`;
}

function pointers() {
  const root = $("chart-timeline");
  // without Ctrl or Shift, the wheel scrolls the page
  root.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) return;
    event.stopPropagation();
    const chart = event.shiftKey && charts.find((one) => one.node.contains(event.target)), at = chart && position(chart, event);
    if (!at) return;
    zoomRows(chart, (event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, at.above);  // with Shift, some browsers scroll horizontally
    event.preventDefault();
  }, { passive: false, capture: true });
  let down = null;
  root.addEventListener("pointerdown", (event) => { down = [event.clientX, event.clientY]; }, { capture: true });
  for (const chart of [...charts, ...curves]) {
    chart.node.addEventListener("pointermove", (event) => {
      const at = position(chart, event);
      if (!at || event.buttons) { $("hover").hidden = true; return; }
      if (curves.includes(chart)) {
        card({ title: moment(at.x, 1), owner: -1, rows: chart.at(at.x).flatMap(([run, value, bound]) => [[DATA.runs[run].name, number(value)], ...(bound === null ? [] : [[chart.bound, number(bound)]])]) }, 0);
        showCard(event);
        return;
      }
      const found = chart.at(at.x, at.y);
      if (found < 0) { $("hover").hidden = true; return; }
      card(chart.said(found), chart.run);
      showCard(event);
    });
    chart.node.addEventListener("pointerleave", () => { $("hover").hidden = true; });
    chart.node.addEventListener("dblclick", (event) => { const at = position(chart, event); if (at) zoom(0.4, at.share); });
    chart.node.addEventListener("click", (event) => {
      if (!chart.owner || !down || Math.hypot(event.clientX - down[0], event.clientY - down[1]) > 4) return;
      const at = position(chart, event);
      if (!at) return;
      const found = chart.at(at.x, at.y);
      keep(found >= 0 && chart.owner[found] >= 0 ? [chart.owner[found]] : []);
    });
  }
}

function keys() {
  const root = $("chart-timeline");
  const actions = { ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => zoom(0.625), "=": () => zoom(0.625), "-": () => zoom(1.6), _: () => zoom(1.6), "]": () => charts.forEach((chart) => zoomRows(chart, 0.7)), "[": () => charts.forEach((chart) => zoomRows(chart, 1 / 0.7)), "0": reset, Home: reset, Escape: () => keep([]) };
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT" || !actions[event.key]) return;
    actions[event.key]();
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName)) return;
    $("search")?.focus();
    event.preventDefault();
  });
}

let hits = [], hit = -1;

// find jobs whose id equals the text, or whose words contain it; Enter goes to the next one
function find(text, go) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) { hits = []; keep([]); return; }
  const found = new Set();
  DATA.cards.forEach((of) => {
    for (const column of of.columns) {
      if (column.name === "job_id" && column.kind !== "text") {
        const value = Number(wanted.replace(/^job\s*/, ""));
        if (Number.isFinite(value)) { const at = column.array.indexOf(value); if (at >= 0) found.add(of.numbersOf[at]); }
      } else if (column.kind === "text" && column.name !== "status" && wanted.length > 1) {
        const words = new Set(column.words.map((word, i) => word.toLowerCase().includes(wanted) ? i : -1).filter((i) => i >= 0));
        if (words.size) for (let i = 0; i < column.array.length && found.size < 1000; i++) if (words.has(column.array[i])) found.add(of.numbersOf[i]);
      }
    }
  });
  const sorted = [...found].sort((a, b) => a - b);
  if (sorted.join() !== hits.join()) { hits = sorted; hit = -1; }
  if (!hits.length) { keep([]); $("found").hidden = false; $("found").replaceChildren(make("p", { text: `no job ${text.trim()}` })); return; }
  hit = go || hit < 0 ? (hit + 1) % hits.length : hit;
  keep([hits[hit]], true);
}

// mark a job in all charts, show how each run treated it, and optionally move there
function keep(owners, go = false) {
  marked = new Set(owners);
  for (const chart of charts) chart.mark(marked);
  const node = $("found");
  if (!owners.length) { node.hidden = true; return; }
  const owner = owners[0];
  const known = DATA.cards.map((of, run) => [of, run, of.at(owner)]).filter((entry) => entry[2] >= 0);
  if (!known.length) return;
  const [first] = known, names = first[0].columns.filter((column) => column.name !== "job_id");
  const value = ([of, , at], name) => { const column = of.columns.find((one) => one.name === name); return column ? cell(column, at) : "–"; };
  const same = names.filter((column) => known.every((entry) => value(entry, column.name) === value(first, column.name)));
  const own = names.filter((column) => !same.includes(column));
  const more = hits.length > 1 && hits.includes(owner) ? ` (${hit + 1} of ${hits.length}; Enter for the next)` : "";
  node.replaceChildren(make("p", {}, make("strong", { text: `job ${jobName(first[1], owner)}` }), `${more}: ` + same.map((column) => `${column.label} ${value(first, column.name)}`).join(", ")));
  if (own.length && known.length > 1) {
    const head = make("tr", {}, make("th", { text: "run", scope: "col" }), ...own.map((column) => make("th", { text: column.label, scope: "col", class: "number" })));
    const rows = known.map((entry) => make("tr", {}, make("th", { scope: "row" }, make("span", { class: "dot", "data-run": entry[1] }), ` ${DATA.runs[entry[1]].name}`), ...own.map((column) => make("td", { class: "number", text: value(entry, column.name) }))));
    node.append(make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))));
  }
  node.hidden = false;
  paintDots();
  if (go) goTo(owner);
}

function goTo(owner) {
  let begin = Infinity, end = -Infinity;
  for (const chart of charts) if (chart.owner && isShown(chart.run)) for (let i = 0; i < chart.count; i++) if (chart.owner[i] === owner) { begin = Math.min(begin, chart.begin[i]); end = Math.max(end, chart.end[i]); }
  if (!(end >= begin)) return;
  const span = Math.max((end - begin) * 1.5, (DATA.span[1] - DATA.span[0]) / 200);
  show((begin + end - span) / 2, (begin + end + span) / 2);
}

// ---- distributions, intervals, profiles ------------------------------------------------------------------------------

let spread = null, estimates = null, profile = null;

function spreads() {
  const root = $("chart-spread");
  if (!root || !DATA.spread.length) return;
  const lines = DATA.spread.map((line) => ({ ...line, values: array(line.values), shares: array(line.shares) }));
  let high = 0;
  for (const line of lines) high = Math.max(high, line.values[line.values.length - 1]);
  const least = Math.min(...lines.map((line) => line.values[0])), log = high > 200 && high > 20 * least && lines[0].unit === "s";
  const floor = log ? Math.max(1, 10 ** Math.floor(Math.log10(least || 1))) : 0;
  const figure = newFigure({ height: narrow() ? 240 : 300, xRange: new B.Range1d({ start: floor, end: (high || 1) * (log ? 1.3 : 1.02) }), yRange: new B.Range1d({ start: 0, end: 101 }), xType: log ? "log" : "linear", active: false });
  const [below, left] = axesOf(figure);
  const timed = lines[0].unit === "s";
  if (log && timed) {
    const marks = [1, 10, 60, 600, 3600, 36000, 345600, 3456000].filter((at) => at >= floor && at <= high * 1.3);
    below.ticker = new B.FixedTicker({ ticks: marks, minor_ticks: [] });
    below.major_label_overrides = new Map(marks.map((at) => [at, { 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36000: "10 h", 345600: "4 d", 3456000: "40 d" }[at]]));
  }
  below.axis_label = `${lines[0].label}${timed && log ? "" : lines[0].unit ? ` (${lines[0].unit})` : ""}, x`;
  left.axis_label = narrow() ? "" : "jobs above x (%)";
  left.ticker = new B.FixedTicker({ ticks: [0, 25, 50, 75, 100] });
  for (const line of lines) {
    // at its left edge, a curve shows the share of the jobs above that value
    const from = lower(line.values, floor * (1 + 1e-9)), x = [floor], y = [from ? 100 * line.shares[from - 1] : 100];
    for (let i = from; i < line.values.length; i++) { x.push(line.values[i]); y.push(100 * line.shares[i]); }
    line.glyph = figure.line({ x: field("x"), y: field("y"), line_width: 2, line_color: runColor(line.run), line_dash: runDash(line.run), source: new B.ColumnDataSource({ data: stepped({ x, y }) }) });
  }
  const legend = make("div", { class: "legend" }, ...lines.map((line) => make("span", {}, make("span", { class: "dot", "data-run": line.run }), DATA.runs[line.run].name)));
  const plot = make("div", { class: "plot" });
  root.append(make("p", { class: "help", text: `Share of the jobs whose ${lines[0].label} is larger than the value on the axis${lines[0].better ? `; ${lines[0].better} is better` : ""}.` }), legend, plot);
  place(figure, plot);
  spread = { restyle: () => { for (const line of lines) { line.glyph.glyph.line_color = runColor(line.run); line.glyph.visible = isShown(line.run); } } };
}

// ticks of an axis of values, or of their logarithms
function useValueMarks(figure, log) {
  const { start, end } = figure.x_range, most = narrow() ? 4 : 8;
  let found = [];
  if (log) {
    for (const factors of [[1, 2, 5], [1, 3], [1]]) {
      found = [];
      for (let power = Math.floor(start); power <= end; power++) for (const factor of factors) { const mark = power + Math.log10(factor); if (mark >= start && mark <= end) found.push([mark, factor * 10 ** power]); }
      if (found.length <= most) break;
    }
  } else {
    const raw = (end - start) / most, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((nice) => nice >= raw * (1 - 1e-9));
    for (let k = Math.ceil(start / step); k * step <= end; k++) found.push([k * step, Number((k * step).toPrecision(12))]);
  }
  const short = (value) => Math.abs(value) >= 1e6 ? `${number(value / 1e6)}M` : Math.abs(value) >= 1e4 ? `${number(value / 1e3)}k` : number(value);
  const [below] = axesOf(figure);
  below.ticker = new B.FixedTicker({ ticks: found.map((mark) => mark[0]), minor_ticks: [] });
  below.major_label_overrides = new Map(found.map(([mark, value]) => [mark, short(value)]));
  for (const part of figure.center) if (part.dimension === 0) part.ticker = below.ticker;
}

function intervals() {
  const root = $("chart-estimates");
  if (!root || !DATA.estimates.length) return;
  const select = make("select", { id: "estimate" }, ...DATA.estimates.map((item, i) => make("option", { value: i, text: item.label })));
  const help = make("p", { class: "help" }), plot = make("div", { class: "plot" });
  root.append(make("div", { class: "bar", style: "position:static;border:0" }, make("label", {}, "show", select)), help, plot);
  const names = DATA.estimates[0].rows.map((row) => row[0]);
  const data = source(["y", "value", "low", "high", "color"]);
  const longest = Math.max(...names.map((name) => name.length));
  const figure = newFigure({ height: 60 + 30 * names.length, xRange: new B.Range1d({ start: 0, end: 1 }), yRange: new B.Range1d({ start: names.length - 0.4, end: -0.6 }), active: false, left: Math.min(narrow() ? 120 : 220, 24 + 7.2 * longest) });
  const [, left] = axesOf(figure);
  figure.segment({ x0: field("low"), x1: field("high"), y0: field("y"), y1: field("y"), line_width: 5, line_alpha: 0.45, line_color: field("color"), source: data });
  figure.scatter({ x: field("value"), y: field("y"), size: 10, color: field("color"), marker: "circle", source: data });
  const colorOf = (name) => { const at = DATA.runs.findIndex((run) => run.name === name); return at < 0 ? css("--accent") : runColor(at); };
  const update = () => {
    const item = DATA.estimates[Number(select.value)];
    const rows = [...item.rows].sort((a, b) => item.better === "higher" ? b[1] - a[1] : a[1] - b[1]);
    const ends = rows.flatMap((row) => row.slice(1)).filter((value) => value !== null);
    // if one value dwarfs the others, the axis is logarithmic, and intervals that reach 0 end at its edge
    const least = Math.min(...rows.map((row) => row[1])), most = Math.max(...ends), log = least > 0 && most > 15 * least;
    const edge = Math.max(least / 3, Math.min(...ends.filter((value) => value > 0)));
    const at = log ? (value) => Math.log10(Math.max(value, edge)) : (value) => value;
    const low = log ? Math.log10(edge) : Math.min(...ends), high = at(most), room = (high - low) * 0.06 || Math.abs(high) * 0.05 || 1;
    data.data = { y: rows.map((_, i) => i), value: rows.map((row) => at(row[1])), low: rows.map((row) => at(row[2] ?? row[1])), high: rows.map((row) => at(row[3] ?? row[1])), color: rows.map((row) => colorOf(row[0])) };
    figure.x_range.setv({ start: !log && low >= 0 && low < 0.5 * high ? 0 : low - room, end: high + room });
    useValueMarks(figure, log);
    const longest = narrow() ? 18 : 30;
    left.ticker = new B.FixedTicker({ ticks: rows.map((_, i) => i), minor_ticks: [] });
    left.major_label_overrides = new Map(rows.map((row, i) => [i, row[0].length > longest ? row[0].slice(0, longest - 1) + "…" : row[0]]));
    help.textContent = `${item.note}${log ? " The scale is logarithmic." : ""}${item.better ? ` ${item.better[0].toUpperCase()}${item.better.slice(1)} is better; the best agent comes first.` : ""}`;
  };
  select.addEventListener("change", update);
  place(figure, plot);
  estimates = { restyle: update };
  update();
}

function profiles() {
  const root = $("chart-profile");
  if (!root || !DATA.profile) return;
  const { ratios, shares, label } = DATA.profile, last = ratios.length - 1;
  const figure = newFigure({ height: 260, xRange: new B.Range1d({ start: 1, end: Math.min(ratios[last], 4) }), yRange: new B.Range1d({ start: 0, end: 102 }), active: false });
  const [below, left] = axesOf(figure);
  below.axis_label = "cost relative to the best, at most";
  left.axis_label = narrow() ? "" : "share of runs (%)";
  left.ticker = new B.FixedTicker({ ticks: [0, 25, 50, 75, 100] });
  const lines = Object.entries(shares).map(([name, values]) => {
    const run = DATA.runs.findIndex((one) => one.name === name);
    const glyph = figure.step({ x: field("x"), y: field("y"), mode: "after", line_width: 2, line_color: run < 0 ? css("--accent") : runColor(run), line_dash: run < 0 ? "solid" : runDash(run), source: new B.ColumnDataSource({ data: { x: ratios, y: values.map((value) => 100 * value) } }) });
    return { glyph, run };
  });
  const plot = make("div", { class: "plot" });
  root.append(make("p", { class: "help", text: `Performance profile by ${label}: share of the runs in which an agent's cost is within a given ratio of the best. Higher and further left is better.` }), make("div", { class: "legend" }, ...lines.filter((line) => line.run >= 0).map((line) => make("span", {}, make("span", { class: "dot", "data-run": line.run }), DATA.runs[line.run].name))), plot);
  place(figure, plot);
  profile = { restyle: () => { for (const line of lines) if (line.run >= 0) line.glyph.glyph.line_color = runColor(line.run); } };
}

// ---- tables, theme, contents -------------------------------------------------------------------------------------

function sortable(table) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 2) return;
  const value = (row, column) => {
    const text = row.cells[column] ? row.cells[column].textContent.trim() : "";
    const found = parseFloat(text.replace(/^[([]/, "").replace(/,/g, ""));
    return [Number.isNaN(found) ? null : found, text];
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const text = head.textContent;
    const sort = make("button", { type: "button", title: "sort" }, text);
    head.replaceChildren(sort);
    sort.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [value(row, column), row]);
      const numeric = rows.every(([[found, words]]) => found !== null || words === "" || /^(n\/a|–)$/.test(words));
      rows.sort(([[a, x]], [[b, y]]) => {
        if (numeric && (a === null || b === null)) return a === b ? 0 : a === null ? 1 : -1;
        const order = numeric ? a - b : x.localeCompare(y);
        return up ? order : -order;
      });
      body.append(...rows.map((entry) => entry[1]));
    });
  });
}

function paintDots() {
  for (const dot of document.querySelectorAll(".dot[data-run]")) {
    const color = runColor(Number(dot.dataset.run));
    dot.style.background = color;
    dot.style.borderColor = color;
  }
  for (const swatch of document.querySelectorAll("main table .swatch")) {
    const run = DATA.runs.findIndex((one) => one.name === swatch.parentNode.textContent.trim());
    if (run >= 0) swatch.style.background = runColor(run);
  }
}

function restyle() {
  for (const figure of figures) paint(figure);
  for (const chart of charts) { chart.drawn = null; if (chart.paint) chart.paint(); chart.mark(marked); }
  for (const curve of curves) curve.restyle();
  for (const part of [spread, estimates, profile]) if (part) part.restyle();
  if (overviewArea) { overviewArea.glyph.fill_color = runColor(curves[0].lines[0].run); overviewTool.overlay.fill_color = css("--accent"); overviewTool.overlay.line_color = css("--accent"); overviewTool.overlay.line_dash = "solid"; }
  paintDots();
  if ($("legend")) drawLegend();
  if (timeRange) schedule();
}

function theme() {
  const turn = (to) => { document.documentElement.dataset.theme = to; restyle(); };
  $("theme").addEventListener("click", () => {
    const to = isDark() ? "light" : "dark";
    try { localStorage.setItem("desim-theme", to); } catch { /* no storage */ }
    turn(to);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
    let kept = null;
    try { kept = localStorage.getItem("desim-theme"); } catch { /* no storage */ }
    if (!kept) turn(event.matches ? "dark" : "light");
  });
}

function contents() {
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.getAttribute("href").slice(1), link]));
  const tell = () => {  // the last section above the current position
    const begun = [...links.keys()].filter((name) => $(name) && $(name).getBoundingClientRect().top < innerHeight * 0.3);
    for (const link of links.values()) link.classList.remove("here");
    links.get(begun[begun.length - 1] ?? [...links.keys()][0])?.classList.add("here");
  };
  addEventListener("scroll", tell, { passive: true });
  tell();
}

async function start() {
  for (const table of document.querySelectorAll("main table")) sortable(table);
  theme();
  contents();
  buffer = await unpack();
  openCards();
  colorBy("job");
  if (B) {
    timeline();
    spreads();
    intervals();
    profiles();
    await showFigures();
  }
  if (timeRange) {
    const follow = (range, slot) => range.on_change([range.properties.start, range.properties.end], slot);
    for (const range of [timeRange, ...charts.map((chart) => chart.yRange)]) follow(range, schedule);
    for (const { figure: { x_range: own } } of [...charts, ...curves]) follow(own, () => { if (!syncing) timeRange.setv({ start: own.start, end: own.end }); });
    addEventListener("scroll", schedule, { passive: true });
    pointers();
    keys();
    const measure = () => { width = $("chart-timeline").clientWidth - 90; marks = null; };
    measure();
    addEventListener("resize", () => { for (const chart of charts) chart.drawn = null; measure(); schedule(); });
    reset();
    if (DATA.opening) show(...DATA.opening);  // all at once would be confetti
  }
  restyle();
  if (timeRange) refresh();
  dispatchEvent(new Event("scroll"));  // the heights of the sections are known now
  requestAnimationFrame(() => requestAnimationFrame(() => { document.documentElement.dataset.drawn = Math.round(performance.now()); }));
}

// interface for tests and users' scripts
window.desimView = { show, zoom, move, reset, find, get window() { return [timeRange.start, timeRange.end]; }, get charts() { return charts; }, get curves() { return curves; } };
start();
})();
