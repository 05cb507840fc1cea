"use strict";
// The figures, drawn by Observable Plot from the rows that are shown.

const NARROW = 560; // CSS pixels: narrower figures are laid out for a phone
const LISTED = 60; // most shapes with a line each
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
const bytesAxis = (rows, width) => {
  const [low, high] = d3.extent(rows, (row) => row.problem.bytes);
  const domain = [low / 1.3, high * 1.3];
  return { scale: { type: "log", domain, axis: null }, marks: axis("x", logTicks(domain, width / 75), bytesText, { label: "bytes to move" }) };
};
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
const tips = (rows, options) => Plot.tip(rows, Plot.pointer({ title: words, fontSize: 12, ...options }));
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
const barTips = (bars, options) => Plot.tip(bars, Plot.pointerY({ title: barWords, fontSize: 12, ...options }));
const withLimit = () => subjectsOf(groupOf()).some((subject) => subject.withLimit);

// A bar for each language, the fastest first. Hollow: on fewer shapes, or breaking the contract.
function scoreFigure(bars, width) {
  const step = width < NARROW ? 22 : 25;
  const narrow = width < NARROW;
  const [right, first] = narrow ? [96, 40] : [190, 96];
  const left = Math.min(width * 0.4, 10 + 6.9 * d3.max(bars, (bar) => bar.label.length));
  const limit = withLimit();
  const filled = (bar) => bar.whole && !bar.marks.includes("†");
  const y = "label";
  const column = (text, dx, fontWeight) => Plot.text(bars, { y, text, frameAnchor: "right", textAnchor: "end", dx, fontWeight });
  const head = (text, dx) => Plot.text([text], { text: (d) => d, frameAnchor: "top-right", textAnchor: "end", dx, dy: -16, fill: "currentColor", fillOpacity: 0.75 });
  return Plot.plot({
    ...FIXED, width, height: 26 + step * bars.length, marginLeft: left, marginRight: right, marginTop: 22, marginBottom: 4,
    x: { domain: [0, limit ? 1 : 1.05 * d3.max(bars, (bar) => bar.high || bar.score)], axis: null },
    y: { type: "band", domain: bars.map((bar) => bar.label), label: null, tickSize: 0, padding: 0.22 },
    marks: [
      Plot.gridX(limit ? [0.25, 0.5, 0.75, 1] : [1]),
      Plot.barX(bars, { x: "score", y, fill: (bar) => (filled(bar) ? bar.colour : "transparent"), stroke: "colour", strokeWidth: 1.2, strokeDasharray: null }),
      Plot.text(bars, { filter: (bar) => !bar.whole, x: 0, y, dx: 6, textAnchor: "start", text: (bar) => `on ${bar.count} shapes` }),
      Plot.ruleY(bars.filter((bar) => bar.high), { x1: "low", x2: "high", y, strokeWidth: 3 }),
      column((bar) => (narrow || !bar.high ? bar.score.toFixed(2) : `${bar.score.toFixed(3)} ±${((bar.high - bar.low) / 2).toFixed(3)}`), first, 700),
      column((bar) => bar.ratio && `${bar.ratio} ×`, right - 4), head("score", first), head(narrow ? `× ${backendOf(BASELINE)}` : `× ${BASELINE}`, right - 4),
      barTips(bars, { x: "score", y }),
    ],
  });
}

// What more lines of code bring: the score of each implementation of ours on all shapes.
function linesFigure(bars, width) {
  const drawn = bars.filter((bar) => bar.lines && bar.whole);
  if (drawn.length < 2) return null;
  const [low, high] = d3.extent(drawn, (bar) => bar.lines);
  const domain = [low / 1.3, high * 1.3];
  const top = withLimit() ? 1.05 : 1.1 * d3.max(drawn, (bar) => bar.score);
  const place = { x: "lines", y: "score" };
  return Plot.plot({
    ...FIXED, width, height: width < NARROW ? 300 : 360, marginLeft: 52, marginRight: 14, marginTop: 24, marginBottom: 40,
    x: { type: "log", domain, axis: null },
    y: { label: "score", domain: [0, top], grid: true },
    marks: [
      ...axis("x", logTicks(domain, width / 75), plain, { label: "lines of code" }),
      dots(drawn, { ...place, r: 5 }), Plot.tip(drawn, Plot.pointer({ title: barWords, fontSize: 12, ...place })),
    ],
  });
}

function limitFigure(rows, width) {
  const share = state.y !== "speed" && rows.some((row) => row.share);
  const drawn = share ? rows.filter((row) => row.share) : rows;
  const value = share ? (row) => row.share : (row) => +row.speed;
  const [low, high] = d3.extent(drawn, (row) => row.problem.bytes);
  const along = bytesAxis(drawn, width);
  const marks = [...along.marks];
  const roofs = unique(drawn.map((row) => row.subject)).filter((subject) => subject.ceiling);
  if (share) marks.push(Plot.ruleY([1], { strokeDasharray: "5 3", className: "roofline" }));
  else {
    for (const { ceiling, floor } of roofs) {
      const at = d3.range(0, 61).map((i) => (low / 1.3) * ((1.7 * high) / low) ** (i / 60));
      // GB/s are bytes per ns: a µs of the smallest launch is worth a thousand of them.
      marks.push(
        Plot.lineY(at, { x: (x) => x, y: (x) => x / (1000 * (floor || 0) + x / ceiling), strokeWidth: 1.4, className: "roofline" }),
        Plot.ruleY([ceiling], { strokeDasharray: "5 3" }),
      );
    }
    for (const level of unique(roofs.map((s) => s.ceiling)).slice(0, 1)) {
      marks.push(Plot.text([level], { y: (y) => y, text: () => `ceiling, ${plain(level)} GB/s`, frameAnchor: "right", dy: -7 }));
    }
  }
  const tops = [...drawn.map((row) => +row.speed), ...roofs.map((subject) => subject.ceiling)];
  const speeds = [0.8 * d3.min(tops), 1.3 * d3.max(tops)];
  if (!share) marks.push(...axis("y", logTicks(speeds, 10), plain, { label: "GB/s" }));
  if (share) marks.push(Plot.text([1], { y: 1, text: () => "roofline", frameAnchor: "right", dy: -7 }));
  const place = { x: (row) => row.problem.bytes, y: value };
  return Plot.plot({
    ...FIXED, width, height: width < NARROW ? 360 : 440, marginLeft: 52, marginRight: 14, marginTop: 24, marginBottom: 40,
    x: along.scale,
    y: share
      ? { label: "share of the limit", domain: [0, Math.max(1.08, d3.max(drawn, value))], tickFormat: (y) => `${Math.round(100 * y)} %`, grid: true }
      : { type: "log", domain: speeds, axis: null },
    marks: [...marks, dots(drawn, place), markTexts(drawn, place), tips(drawn, place)],
  });
}

// A line for each shape, or points over the bytes if there are many shapes.
function ratioFigure(rows, width) {
  const drawn = rows.filter((row) => row.ratio && row.name !== BASELINE);
  if (!drawn.length) return null;
  const names = unique(drawn.map((row) => row.name));
  const shapes = shapesOf(drawn);
  const listed = shapes.length <= LISTED;
  // An interval of noise may span thirty powers of ten, so it is cut off far beyond all ratios.
  const [least, largest] = d3.extent(drawn, (row) => row.ratio);
  const low = d3.min(drawn, (row) => Math.max(row.low || row.ratio, least / WIDER));
  const high = d3.max(drawn, (row) => Math.min(row.high || row.ratio, largest * WIDER));
  const domain = [Math.min(0.9, low / 1.05), Math.max(1.1, high * 1.05)];
  const scale = { type: "log", domain, axis: null };
  const label = { label: `time / ${BASELINE} (${listed ? "left of" : "below"} 1 is faster)`, labelArrow: "none" };
  const look = { strokeWidth: 1.6, stroke: "colour", clip: true };
  if (listed) {
    const step = Math.min(3.2, 13 / names.length);
    const text = (row) => shapeText(row.problem);
    const marks = names.flatMap((name, i) => {
      const of = drawn.filter((row) => row.name === name);
      const dy = (i - (names.length - 1) / 2) * step;
      return [
        Plot.ruleY(of.filter((row) => row.high), { y: text, x1: "low", x2: "high", dy, ...look }),
        dots(of, { x: "ratio", y: text, dy, r: 3 }),
        markTexts(of, { x: "ratio", y: text, dy: dy - 6, fontSize: 10 }),
      ];
    });
    const left = Math.min(width * 0.42, 16 + 6.4 * d3.max(shapes, (s) => shapeText(s).length));
    return Plot.plot({
      ...FIXED, width, height: 70 + 19 * shapes.length, marginLeft: left, marginTop: 34, marginRight: 14, marginBottom: 24,
      x: scale,
      y: { type: "point", domain: shapes.map(shapeText), label: null, tickSize: 0, grid: true },
      marks: [
        ...axis("x", logTicks(domain, width / 60), plain, { ...label, anchor: "top", labelAnchor: "right" }),
        Plot.ruleX([1], { strokeWidth: 1.5 }), ...marks, tips(drawn, { x: "ratio", y: text }),
      ],
    });
  }
  const x = (row) => row.problem.bytes;
  const along = bytesAxis(drawn, width);
  return Plot.plot({
    ...FIXED, width, height: width < NARROW ? 360 : 440, marginLeft: 52, marginRight: 14, marginTop: 28, marginBottom: 40,
    x: along.scale,
    y: scale,
    marks: [
      ...along.marks,
      ...axis("y", logTicks(domain, 12), plain, label),
      Plot.ruleY([1], { strokeWidth: 1.5 }),
      Plot.ruleX(drawn.filter((row) => row.high), { x, y1: "low", y2: "high", ...look }),
      dots(drawn, { x, y: "ratio" }),
      markTexts(drawn, { x, y: "ratio" }),
      tips(drawn, { x, y: "ratio" }),
    ],
  });
}

// Energy per byte, over the time of a launch.
function energyFigure(rows, width) {
  const drawn = rows.filter((row) => row.mj);
  if (!drawn.length) return null;
  const scaled = (value) => {
    const [low, high] = d3.extent(drawn, value);
    return { type: "log", domain: [low / 1.3, high * 1.3], axis: null };
  };
  const place = { x: (row) => +row.us, y: (row) => +row.perGb };
  const [x, y] = [scaled(place.x), scaled(place.y)];
  return Plot.plot({
    ...FIXED, width, height: width < NARROW ? 360 : 440, marginLeft: 52, marginRight: 14, marginTop: 24, marginBottom: 40,
    x, y,
    marks: [
      ...axis("x", logTicks(x.domain, width / 75), plain, { label: "time of a launch, µs" }),
      ...axis("y", logTicks(y.domain, 10), plain, { label: "J/GB" }),
      dots(drawn, place), markTexts(drawn, place), tips(drawn, place),
    ],
  });
}

const shapesOf = (rows) => {
  const shapes = unique(rows.map((row) => row.problem));
  return d3.sort(shapes, (s) => s.length, (s) => s.bytes, (s) => s.key);
};

// Shapes are rows on a phone, with values, else columns, with values where they fit.
function heatFigure(rows, width) {
  const shapes = shapesOf(rows);
  const names = d3.sort(unique(rows.map((row) => row.name)), (name) => rows.find((row) => row.name === name).place);
  const shares = rows.some((row) => row.share);
  const down = width < 900 && shapes.length <= LISTED && names.length <= 10;
  const text = (row) => shapeText(row.problem);
  const value = (row) => (shares ? row.shareText.replace("%", "") : row.ratioText);
  const longest = 14 + 6.3 * d3.max(shapes, (s) => shapeText(s).length);
  const named = 14 + 6.6 * d3.max(names, (name) => name.length);
  const drawn = rows.filter((row) => row.shade);
  if (!drawn.length) return null;
  const inside = width - (down ? Math.min(longest, width * 0.42) : named) - 8;
  const cell = inside / (down ? names.length : shapes.length);
  const every = Math.max(1, Math.ceil(13 / cell));
  const shapeAxis = {
    type: "band", domain: shapes.map(shapeText), label: null, tickSize: 0, padding: cell < 8 ? 0 : 0.04,
    ticks: down ? undefined : shapes.map(shapeText).filter((_, i) => i % every === 0),
  };
  const nameAxis = { type: "band", domain: names, label: null, tickSize: 0, padding: 0.04 };
  const place = down ? { x: "name", y: text } : { x: text, y: "name" };
  const marks = [
    Plot.cell(d3.cross(shapes, names), { ...(down ? { x: (d) => d[1], y: (d) => shapeText(d[0]) } : { x: (d) => shapeText(d[0]), y: (d) => d[1] }), fill: "currentColor", fillOpacity: 0.09 }),
    Plot.cell(drawn, { ...place, fill: "shade", className: "cells" }),
  ];
  const label = (row) => `${value(row)}${row.marks && !value(row).includes(row.marks) ? row.marks : ""}`;
  if (cell >= 22) marks.push(Plot.text(drawn, { ...place, text: label, fill: "black", fontSize: cell < 30 ? 10 : 11 }));
  else marks.push(Plot.text(drawn, { ...place, filter: (row) => row.marks, text: "marks", fill: "black", fontSize: 10 }));
  marks.push(tips(drawn, place));
  return Plot.plot({
    ...FIXED, width,
    height: down ? named + 14 + 18 * shapes.length : longest + 14 + 24 * names.length,
    marginLeft: width - 8 - inside, marginRight: 8, marginTop: down ? named : 8, marginBottom: down ? 8 : longest,
    x: { ...(down ? nameAxis : shapeAxis), tickRotate: -90, axis: down ? "top" : "bottom" },
    y: down ? shapeAxis : nameAxis,
    marks,
  });
}

function legendOf(rows) {
  const seen = new Map(rows.map((row) => [row.name, row]));
  const order = d3.sort(seen.values(), (row) => row.place);
  return order.map((row) => {
    const svg = d3.create("svg").attr("width", 14).attr("height", 14).attr("viewBox", "-7 -7 14 14").attr("aria-hidden", "true");
    svg.append("path").attr("d", d3.symbol(symbolOf(row.symbol), 46)()).attr("fill", row.colour);
    return element("span", { className: "key" }, svg.node(), row.name);
  });
}
