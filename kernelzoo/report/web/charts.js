"use strict";
// The figures, drawn by Observable Plot from the rows that are shown.

const NARROW = 560; // CSS pixels: narrower figures are laid out for a phone
const WIDER = 3; // factor by which intervals may extend an axis beyond the ratios

const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];
const bytesText = (bytes) => {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3 + 1e-9));
  return `${+(bytes / 1000 ** power).toPrecision(3)} ${UNITS[power]}`;
};
// Ticks at 1, 2 and 5 in each power of ten, as many as fit.
const logTicks = ([low, high], most) => {
  const powers = d3.range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)) + 1);
  for (const digits of [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = powers.flatMap((power) => digits.map((digit) => +(digit * 10 ** power).toPrecision(2))).filter((t) => t >= low && t <= high);
    if (ticks.length <= most) return ticks;
    if (digits.length === 1) return ticks.filter((_, i) => i % Math.ceil(ticks.length / most) === 0);
  }
};
// An axis with its own labels: on a logarithmic one Observable Plot would omit some.
const axis = (of, ticks, text, options = {}) => [
  of === "x" ? Plot.gridX(ticks) : Plot.gridY(ticks),
  (of === "x" ? Plot.axisX : Plot.axisY)(ticks, { text, tickSize: 4, ...options }),
];
const plain = (value) => String(+value.toPrecision(3));

// The symbols: corners in a square from -1 to 1.
const CORNERS = {
  square: "-.85 -.85 .85 -.85 .85 .85 -.85 .85", triangle: "0 -1.1 1.05 .8 -1.05 .8", diamond: "0 -1.35 .8 0 0 1.35 -.8 0",
  star: "0 -1.25 .3 -.4 1.2 -.38 .48 .16 .75 1.02 0 .5 -.75 1.02 -.48 .16 -1.2 -.38 -.3 -.4",
  wye: "-.35 1.1 .35 1.1 .35 .2 1.15 -.35 .8 -.95 0 -.4 -.8 -.95 -1.15 -.35 -.35 .2",
  cross: "-.35 -1.1 .35 -1.1 .35 -.35 1.1 -.35 1.1 .35 .35 .35 .35 1.1 -.35 1.1 -.35 .35 -1.1 .35 -1.1 -.35 -.35 -.35",
  times: "-1 -.5 -.5 -1 0 -.5 .5 -1 1 -.5 .5 0 1 .5 .5 1 0 .5 -.5 1 -1 .5 -.5 0", down: "0 1.1 1.05 -.8 -1.05 -.8",
  left: "-1.1 0 .8 1.05 .8 -1.05", right: "1.1 0 -.8 1.05 -.8 -1.05", spark: "0 -1.4 .3 -.3 1.4 0 .3 .3 0 1.4 -.3 .3 -1.4 0 -.3 -.3",
  hourglass: "-1 -1.1 1 -1.1 .15 0 1 1.1 -1 1.1 -.15 0", bowtie: "-1.1 -1 0 -.15 1.1 -1 1.1 1 0 .15 -1.1 1",
  bar: "-.45 -1.25 .45 -1.25 .45 1.25 -.45 1.25", dash: "-1.25 -.45 1.25 -.45 1.25 .45 -1.25 .45",
  roof: "-1.2 .3 0 -.9 1.2 .3 1.2 .95 0 -.2 -1.2 .95", valley: "-1.2 -.3 0 .9 1.2 -.3 1.2 -.95 0 .2 -1.2 -.95",
  lens: "-1.4 0 0 -.7 1.4 0 0 .7", half: "-1.1 .5 -1 -.2 -.55 -.7 0 -.85 .55 -.7 1 -.2 1.1 .5",
  corner: "-1 -1 -.2 -1 -.2 .3 1 .3 1 1 -1 1", tee: "-1.1 -1 1.1 -1 1.1 -.3 .4 -.3 .4 1.1 -.4 1.1 -.4 -.3 -1.1 -.3",
};
const symbolOf = (name) => (name === "circle" ? d3.symbolCircle : {
  draw(context, size) {
    const [scale, numbers] = [Math.sqrt(size / 3), CORNERS[name].split(" ").map(Number)];
    for (let i = 0; i < numbers.length; i += 2) context[i ? "lineTo" : "moveTo"](numbers[i] * scale, numbers[i + 1] * scale);
    context.closePath();
  },
});

const FIXED = { color: { type: "identity" }, symbol: { type: "identity" } };

// The text beside the pointer.
const words = (row) =>
  [
    `${row.marked}, ${shapeText(row.problem)}`,
    `${row.us} µs, ${row.speed} GB/s`,
    row.shareText && `${row.shareText} of the limit`,
    row.ratioText && row.name !== BASELINE && `${row.ratioText} × ${BASELINE} ${row.verdict}`,
    row.mj && `${row.mj} mJ, ${row.perGb} J/GB, ${row.watts} W`,
    row.form && `by ${row.form}`,
    row.flags,
  ]
    .filter(Boolean)
    .join("\n");

const dots = (rows, options) =>
  Plot.dot(rows, {
    symbol: (row) => symbolOf(row.symbol), r: rows.length > 400 ? 2.8 : 4, stroke: "colour", strokeWidth: 1.4,
    fill: (row) => (row.marks ? "transparent" : row.colour),
    ...options,
  });
const tips = (rows, options, title = words, pointer = Plot.pointer) => Plot.tip(rows, pointer({ title, fontSize: 12, ...options }));
const markTexts = (rows, options) =>
  Plot.text(rows, { filter: (row) => row.marks, text: "marks", dy: -8, fontSize: 11, ...options });

// A bar's words: its score and interval, its shapes, its speed and its lines of code.
const barWords = (bar) =>
  [
    `${bar.label}, score ${plain(bar.score)}`,
    bar.high && `95 % interval ${bar.low} to ${bar.high}`,
    `${bar.count} of ${standingOf().count} shapes`,
    bar.ratio && `${bar.ratio} × ${BASELINE}`,
    bar.lines && `${bar.lines} lines of code`,
  ].filter(Boolean).join("\n");
const withLimit = () => subjectsOf(groupOf()).some((subject) => subject.withLimit);

// A bar for each language, the fastest first. Hollow: on fewer shapes, or breaking the contract.
function scoreFigure(bars, width) {
  const step = width < NARROW ? 22 : 25;
  const narrow = width < NARROW;
  const [right, first] = narrow ? [96, 40] : [200, 104];
  const left = Math.min(width * 0.4, 10 + 6.9 * d3.max(bars, (bar) => bar.label.length));
  const limit = withLimit();
  const filled = (bar) => bar.whole && !bar.marks.includes("†");
  const y = "label";
  const column = (text, dx, fontWeight) => Plot.text(bars, { y, text, frameAnchor: "right", textAnchor: "end", dx, fontWeight });
  const head = (text, dx) => Plot.text([text], { text: (d) => d, frameAnchor: "top-right", textAnchor: "end", dx, dy: -16, fill: "currentColor", fillOpacity: 0.75 });
  return Plot.plot({
    ...FIXED, width, height: 42 + step * bars.length, marginLeft: left, marginRight: right, marginTop: 22, marginBottom: 20,
    x: { domain: [0, limit ? 1 : 1.05 * d3.max(bars, (bar) => Math.max(1, bar.high || bar.score))], axis: null },
    y: { type: "band", domain: bars.map((bar) => bar.label), label: null, tickSize: 0, padding: 0.22 },
    marks: [
      ...axis("x", limit ? (narrow ? [0.5, 1] : [0.25, 0.5, 0.75, 1]) : [1], (at) => (at < 1 ? String(at) : `1 = ${limit ? "limit" : BASELINE}`), { label: null }),
      Plot.barX(bars, { x: "score", y, fill: (bar) => (filled(bar) ? bar.colour : "transparent"), stroke: "colour", strokeWidth: 1.2 }),
      Plot.text(bars, { filter: (bar) => !bar.whole, x: 0, y, dx: 6, textAnchor: "start", text: (bar) => `on ${bar.count} shape${bar.count > 1 ? "s" : ""}` }),
      Plot.ruleY(bars.filter((bar) => bar.high), { x1: "low", x2: "high", y, strokeWidth: 3 }),
      column((bar) => (narrow || !bar.high ? bar.score.toFixed(2) : `${bar.score.toFixed(4)} ±${((bar.high - bar.low) / 2).toFixed(4)}`), first, 700),
      column((bar) => bar.ratio && `${bar.ratio} ×`, right - 4), head("score", first), head(bars.some((bar) => bar.ratio) ? `× ${narrow ? backendOf(BASELINE) : BASELINE}` : "", right - 4),
      tips(bars, { x: "score", y }, barWords, Plot.pointerY),
    ],
  });
}

// Points over two axes, each with its value, label and domain; logarithmic, unless it is a share, which names its ticks.
function scatter(rows, width, x, y, { lines = [], title = words } = {}) {
  const place = { x: x.value, y: y.value };
  const [across, upwards] = [x, y].map(({ value, domain }) => {
    const [low, high] = d3.extent(rows, value);
    return domain ?? [low / 1.3, high * 1.3];
  });
  return Plot.plot({
    ...FIXED, width, height: width < NARROW ? 340 : 420, marginLeft: 52, marginRight: 14, marginTop: 24, marginBottom: 40,
    x: { type: "log", domain: across, axis: null },
    y: y.share ? { label: y.label, domain: upwards, tickFormat: y.share, grid: true } : { type: "log", domain: upwards, axis: null },
    marks: [
      ...axis("x", logTicks(across, width / 75), x.text ?? plain, { label: x.label }),
      ...(y.share ? [] : axis("y", logTicks(upwards, 10), plain, { label: y.label, labelArrow: "none" })),
      ...lines, dots(rows, place), markTexts(rows, place), tips(rows, place, title),
    ],
  });
}

// What more lines of code bring: the score of each implementation of ours on all shapes.
function linesFigure(bars, width) {
  const drawn = bars.filter((bar) => bar.lines && bar.whole);
  if (drawn.length < 2) return null;
  const y = { value: (bar) => bar.score, label: "score", ...(withLimit() && { domain: [0, 1.02], share: String }) };
  return scatter(drawn, width, { value: (bar) => bar.lines, label: "lines of code" }, y, { title: barWords });
}

// One point for each result, over the bytes: its share of the limit, its speed below the roofline, or its ratio.
function limitFigure(rows, width) {
  const mode = state.y || (rows.some((row) => row.share) ? "share" : "speed");
  const drawn = rows.filter((row) => (mode === "share" ? row.share : mode === "speed" || (row.ratio && row.name !== BASELINE)));
  if (!drawn.length) return null;
  const x = { value: (row) => row.problem.bytes, label: "bytes to move", text: bytesText };
  const roofs = unique(drawn.map((row) => row.subject)).filter((subject) => subject.ceiling);
  const note = (value, text) => Plot.text([value], { y: value, text: () => text, frameAnchor: "right", dy: -7 });
  if (mode === "share") {
    const y = { value: (row) => row.share, label: "share of the limit", domain: [0, Math.max(1.08, d3.max(drawn, (row) => row.share))], share: (value) => `${Math.round(100 * value)} %` };
    return scatter(drawn, width, x, y, { lines: [Plot.ruleY([1], { strokeDasharray: "5 3", className: "roofline" }), note(1, "roofline")] });
  }
  if (mode === "speed") {
    const [low, high] = d3.extent(drawn, x.value);
    const at = d3.range(0, 61).map((i) => (low / 1.3) * ((1.7 * high) / low) ** (i / 60));
    // GB/s are bytes per ns: a µs of the smallest launch is worth a thousand of them.
    const lines = roofs.flatMap(({ ceiling, floor }) => [
      Plot.lineY(at, { x: (x) => x, y: (x) => x / (1000 * (floor || 0) + x / ceiling), strokeWidth: 1.4, className: "roofline" }),
      Plot.ruleY([ceiling], { strokeDasharray: "5 3" }),
    ]);
    const tops = [...drawn.map((row) => +row.speed), ...roofs.map((subject) => subject.ceiling)];
    lines.push(...roofs.slice(0, 1).map(({ ceiling }) => note(ceiling, `ceiling, ${plain(ceiling)} GB/s`)));
    return scatter(drawn, width, x, { value: (row) => +row.speed, label: "GB/s", domain: [0.8 * d3.min(tops), 1.3 * d3.max(tops)] }, { lines });
  }
  // An interval of noise may span thirty powers of ten, so it is cut off far beyond all ratios.
  const [least, largest] = d3.extent(drawn, (row) => row.ratio);
  const low = d3.min(drawn, (row) => Math.max(row.low || row.ratio, least / WIDER));
  const high = d3.max(drawn, (row) => Math.min(row.high || row.ratio, largest * WIDER));
  const y = { value: (row) => row.ratio, label: `time / ${BASELINE} (below 1 is faster)`, domain: [Math.min(0.9, low / 1.05), Math.max(1.1, high * 1.05)] };
  const intervals = Plot.ruleX(drawn.filter((row) => row.high), { x: x.value, y1: "low", y2: "high", strokeWidth: 1.6, stroke: "colour", clip: true });
  return scatter(drawn, width, x, y, { lines: [Plot.ruleY([1], { strokeWidth: 1.5 }), intervals] });
}

// Energy per byte, over the time of a launch.
function energyFigure(rows, width) {
  const drawn = rows.filter((row) => row.mj);
  const x = { value: (row) => +row.us, label: "time of a launch, µs" };
  return drawn.length ? scatter(drawn, width, x, { value: (row) => +row.perGb, label: "J/GB" }) : null;
}

const shapesOf = (rows) => {
  const shapes = unique(rows.map((row) => row.problem));
  return d3.sort(shapes, (s) => s.length, (s) => s.bytes, (s) => s.key);
};

// The symbol of a row, as the figures draw it.
function icon(row) {
  const svg = d3.create("svg").attr("width", 14).attr("height", 14).attr("viewBox", "-7 -7 14 14").attr("aria-hidden", "true").attr("class", "icon");
  svg.append("path").attr("d", d3.symbol(symbolOf(row.symbol), 46)()).attr("fill", row.colour);
  return svg.node();
}

function legendOf(rows) {
  const seen = new Map(rows.map((row) => [row.name, row]));
  return d3.sort(seen.values(), (row) => row.place).map((row) => element("span", { className: "key" }, icon(row), row.name));
}
