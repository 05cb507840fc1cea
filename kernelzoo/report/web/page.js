"use strict";
// The filters, and the redrawing when one changes.

const PAPER = 690; // CSS pixels: the width of A4 and Letter within margins of 12 mm
const at = (id) => document.getElementById(id);

// Redraws what a box holds. The focus stays on the control of the same name.
function redraw(box, ...made) {
  const name = (control) => control.ariaLabel ?? control.textContent;
  const held = box.contains(document.activeElement) ? name(document.activeElement) : null;
  box.replaceChildren(...made);
  [...box.querySelectorAll("button, select")].find((control) => name(control) === held)?.focus({ preventScroll: true });
}

const select = (label, key, options, chosen, picked) => {
  const made = element("select", { ariaLabel: label });
  for (const [value, text] of options) made.append(element("option", { value, selected: value === chosen }, text));
  made.addEventListener("change", () => picked(made.value));
  made.dataset.key = key;
  return made;
};
const choice = (label, key, options) =>
  element("label", {}, element("span", {}, label), select(label, key, options, state[key], (value) => change({ [key]: value })));

function drawFilters() {
  const group = groupOf();
  const controls = [];
  if (DATA.groups.length > 1) controls.push(choice("device and clock", "device", DATA.groups.map((g) => [g.id, g.label])));
  controls.push(choice("operation", "op", opsOf(group).map((op) => [op, op])));
  const dtypes = dtypesOf(group, state.op);
  controls.push(choice("dtype", "dtype", [...dtypes.map((dtype) => [dtype, dtype]), ...(dtypes.length > 1 ? [["all", "all dtypes"]] : [])]));
  const classes = Object.entries(DATA.classes).filter(([name]) => Object.hasOwn(group.standings[state.op][state.dtype], name));
  controls.push(choice("shapes", "class", [["", "all shapes"], ...classes]));
  if (subjectRows().some((row) => !row.lead)) {
    controls.push(choice("variants", "variants", [["", "one of each backend"], ["all", "every variant"]]));
  }
  const hidden = off();
  const chips = backendsHere().map((name) => {
    const button = element("button", { type: "button", ariaPressed: String(!hidden.has(name)) }, name);
    button.addEventListener("click", () => {
      if (!hidden.delete(name)) hidden.add(name);
      return change({ off: [...hidden].join(",") });
    });
    return button;
  });
  const without = backendsHere().filter((name) => hidden.has(name));
  const chosenClass = state.class ? `, ${DATA.classes[state.class]}` : "";
  at("chosen").textContent = `Filters: ${state.op}, ${state.dtype === "all" ? "all dtypes" : state.dtype}${chosenClass}${without.length ? `, without ${without.join(", ")}` : ""}`;
  redraw(at("filters").querySelector(".controls"), ...controls, element("div", { className: "chips", role: "group", ariaLabel: "backends" }, ...chips));
}

// Where backends are switched off: the fastest of the others, level with it what samples can't tell apart.
function fastestShown() {
  const [first, ...others] = shownBars().filter((bar) => bar.whole && bar.name !== DATA.peer && !bar.marks.includes("†"));
  const level = others.filter((bar) => first.low > 0 && bar.high >= first.low);
  const names = [first, ...level].map((bar) => bar?.label).join(" and ");
  return first ? `Fastest of those shown: ${names}${level.length ? ", too close to tell apart" : ""}.` : "";
}

// What the page answers first, in words, in its title, and below the first figure.
function drawAnswer() {
  const [group, standing] = [groupOf(), standingOf()];
  const dtypes = state.dtype === "all" ? "all dtypes" : state.dtype;
  at("question").textContent = `Which ${state.op} is the fastest on ${group.label}?`;
  at("headline").textContent = backendsHere().some((name) => off().has(name)) ? fastestShown() : standing.said;
  at("shapes").textContent = `${standing.shapes}.`;
  at("checked").textContent = group.checked[state.op];
  const marks = new Set(subjectRows().map((row) => row.marks).join(" "));
  const notes = Object.entries(DATA.marks).filter(([mark]) => marks.has(mark));
  at("marks").textContent = notes.map(([mark, note]) => `${mark} ${note}`).join(" ");
  const kind = state.class ? `, ${DATA.classes[state.class]}` : "";
  document.title = `${state.op}, ${dtypes}${kind}, ${group.label} · ${TITLE}`;
}

const ROOFLINE = at("limit") ? at("limit").querySelector("figcaption").lastChild.textContent : "";
let picked = null;

function pick(row) {
  picked = row;
  change({ point: row ? `${row.name} ${row.problem.key}` : "" }, { only: "details" });
}

function drawDetails() {
  const rows = subjectRows();
  picked = state.point ? rows.find((row) => `${row.name} ${row.problem.key}` === state.point) ?? null : null;
  const box = at("details");
  box.hidden = !picked;
  box.replaceChildren(...(picked ? detailsOf(picked, () => pick(null)) : []));
}

const legendRows = (id, rows) =>
  ({ energy: rows.filter((row) => row.mj), score: [], lines: rows.filter((bar) => bar.lines && bar.whole) })[id] ?? rows;

// Draws a figure, or hides it where there is nothing to draw.
function drawFigure(id, width) {
  const figure = at(id);
  const rows = id === "score" || id === "lines" ? shownBars() : shownRows();
  figure.hidden = false;
  const box = figure.querySelector(".plot");
  const space = width || box.clientWidth; // none where it is not displayed
  const made = rows.length && space ? FIGURES[id](rows, space) : null;
  figure.hidden = !made;
  if (!made) return;
  // A press chooses the nearest point, which Observable Plot gives as the figure's value.
  made.addEventListener("click", () => made.value?.problem && pick(made.value));
  made.style.cursor = "pointer";
  box.replaceChildren(made);
  figure.querySelector(".legend").replaceChildren(...legendOf(legendRows(id, rows)));
}

function drawCompare(rows) {
  const names = d3.sort(unique(rows.map((row) => row.name)), (name) => rows.find((row) => row.name === name).place);
  const section = at("compare");
  section.hidden = names.length < 2;
  if (section.hidden) return;
  const others = names.filter((name) => name !== BASELINE);
  const beside = BASELINE.split("/")[0]; // prefers another language to another variant
  const usual = others.find((name) => name.endsWith("/auto") && !name.startsWith(`${beside}/`)) ?? others[0];
  const one = names.includes(state.one) ? state.one : usual;
  const other = names.includes(state.other) && state.other !== one ? state.other : names.find((name) => name !== one);
  const side = (label, key, chosen) =>
    select(label, key, names.map((name) => [name, name]), chosen, (name) => change({ one, other, [key]: name }, { only: "compare" }));
  redraw(section.querySelector(".tools"), side("the one", "one", one), "beside", side("the other", "other", other));
  const { lines, rough, headers } = compared(rows, one, other);
  const caption = lines.length ? `${one} and ${other}, on the ${lines.length} problems that both take` : `${one} and ${other} take no problem in common`;
  let sort = null;
  const draw = () => {
    const made = tableOf(caption, headers, sortedLines(lines, sort), { sort, picked: pick, sorted: (column, down) => { sort = [column, down]; draw(); } });
    const note = rough
      ? [element("p", { className: "note" }, "≈: the ratio of two medians, without an interval. kernelzoo compare measures the two together.")]
      : [];
    redraw(section.querySelector(".table"), ...made, ...note);
  };
  draw();
}

function drawResults(rows) {
  const section = at("results");
  section.hidden = false;
  const tools = section.querySelector(".tools");
  const box = tools.querySelector("input");
  if (!box) {
    tools.append(searchBox("Search in every result", state.q, (q) => change({ q }, { only: "results" })));
  } else if (box.value !== state.q) box.value = state.q;
  redraw(section.querySelector(".table"), ...resultsTable(rows, pick, (sort) => change({ sort }, { only: "results" })));
}

function drawTools(rows) {
  const both = rows.some((row) => row.share);
  at("limit").querySelector("figcaption").lastChild.textContent = both ? ROOFLINE : "No limit was measured here.";
  const modes = [["share", "share of the limit"], ["speed", both ? "GB/s, and the roofline" : "GB/s"], ["ratio", `time / ${BASELINE}`]].slice(both ? 0 : 1);
  modes[0][0] = "";
  redraw(at("limit").querySelector(".tools"), choice("upwards", "y", modes));
}

// Hides tables of operations or groups that are not chosen.
function hideOthers() {
  for (const made of document.querySelectorAll("[data-op]")) made.hidden = made.dataset.op !== state.op;
  for (const { id } of DATA.groups) if (at(id)) at(id).hidden = id !== state.device;
}

const PARTS = { details: () => drawDetails(), compare: (rows) => drawCompare(rows), results: (rows) => drawResults(rows) };
const FIGURES = { score: scoreFigure, lines: linesFigure, limit: limitFigure, energy: energyFigure };
let later = 0;

function draw() {
  drawAnswer();
  drawFilters();
  drawFigure("score");
  // The rest is below the first screen, and is drawn after it.
  cancelAnimationFrame(later);
  later = requestAnimationFrame(() => setTimeout(() => {
    const rows = shownRows();
    drawTools(rows);
    for (const id of Object.keys(FIGURES).slice(1)) drawFigure(id);
    drawDetails();
    drawCompare(rows);
    drawResults(rows);
    hideOthers();
    for (const link of document.querySelectorAll(".here")) link.href = address(link.dataset.view);
    document.body.dataset.drawn = String(Number(document.body.dataset.drawn ?? 0) + 1);
    if (Object.hasOwn({ ...FIGURES, ...PARTS }, state.view)) {
      at(state.view).scrollIntoView();
      state.view = ""; // once: a filter that changes later does not scroll
    }
  }));
}

function change(chosen, { only = "" } = {}) {
  Object.assign(state, chosen);
  settle();
  writeAddress();
  if (only) PARTS[only](shownRows());
  else draw();
  if (only === "details" && picked) at("details").scrollIntoView({ block: "nearest" });
}

function start() {
  document.querySelectorAll("main table").forEach((table) => table.closest("#explorer") || enhance(table));
  if (!DATA.groups.length) { // tables alone, such as of the host's time to submit
    document.body.dataset.drawn = "0";
    return;
  }
  at("explorer").hidden = false;
  at("filters").open = matchMedia("(min-width: 40rem)").matches;
  new ResizeObserver(() => at("explorer").style.setProperty("--bar", `${at("filters").offsetHeight}px`)).observe(at("filters"));
  readAddress();
  writeAddress();
  draw();
  addEventListener("hashchange", () => {
    if (location.hash && !location.hash.includes("=")) return; // an anchor
    readAddress();
    draw();
  });
  let width = innerWidth;
  let waiting = 0;
  let printing = false;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // a phone's bars come and go
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => printing || draw(), 60); // paper is narrower than the window
  });
  const figures = (wide) => Object.keys(FIGURES).forEach((id) => drawFigure(id, wide));
  addEventListener("beforeprint", () => {
    printing = true;
    figures(PAPER);
  });
  addEventListener("afterprint", () => {
    printing = false;
    figures();
  });
}

unpack().then(start);
