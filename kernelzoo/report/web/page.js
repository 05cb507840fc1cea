"use strict";
// The filters, and the redrawing when one changes.

const PAPER = 690; // CSS pixels: the width of A4 and Letter within margins of 12 mm
const at = (id) => document.getElementById(id);

const choice = (label, key, options) => {
  const select = element("select", { ariaLabel: label });
  for (const [value, text] of options) select.append(element("option", { value, selected: value === state[key] }, text));
  select.addEventListener("change", () => change({ [key]: select.value }));
  select.dataset.key = key;
  return element("label", {}, element("span", {}, label), select);
};

function drawFilters() {
  const group = groupOf();
  const controls = [];
  if (DATA.groups.length > 1) controls.push(choice("device and clock", "device", DATA.groups.map((g) => [g.id, g.label])));
  controls.push(choice("operation", "op", opsOf(group).map((op) => [op, op])));
  const dtypes = dtypesOf(group, state.op);
  controls.push(choice("dtype", "dtype", [...dtypes.map((dtype) => [dtype, dtype]), ...(dtypes.length > 1 ? [["all", "all dtypes"]] : [])]));
  const present = new Set(subjectRows().flatMap((row) => row.problem.classes));
  const classes = Object.entries(DATA.classes).filter(([name]) => present.has(name));
  controls.push(choice("shapes", "class", [["", "all shapes"], ...classes]));
  if (subjectRows().some((row) => !row.lead)) {
    controls.push(choice("variants", "variants", [["", "one of each backend"], ["all", "every variant"]]));
  }
  const backends = unique(subjectRows().map((row) => row.backend));
  const chosen = new Set(state.backend ? state.backend.split(",") : backends);
  const chips = backends.map((name) => {
    const button = element("button", { type: "button", ariaPressed: String(chosen.has(name)) }, name);
    button.addEventListener("click", () => {
      if (chosen.size === 1 && chosen.has(name)) return change({ backend: "" }); // never none
      if (chosen.has(name)) chosen.delete(name);
      else chosen.add(name);
      return change({ backend: backends.filter((other) => chosen.has(other)).join(",") });
    });
    return button;
  });
  const chosenClass = state.class ? `, ${DATA.classes[state.class]}` : "";
  at("chosen").textContent = `Filters: ${state.op}, ${state.dtype === "all" ? "all dtypes" : state.dtype}${chosenClass}${state.backend ? `, ${state.backend}` : ""}`;
  at("filters").querySelector(".controls").replaceChildren(...controls, element("div", { className: "chips", role: "group", ariaLabel: "backends" }, ...chips));
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
  id === "ratios" ? rows.filter((row) => row.name !== DATA.baseline) : id === "energy" ? rows.filter((row) => row.mj) : rows;

// Draws a figure, or hides it where there is nothing to draw.
function drawFigure(id, draw, rows, width) {
  const figure = at(id);
  figure.hidden = false;
  const box = figure.querySelector(".plot");
  const made = rows.length ? draw(rows, width || box.clientWidth) : null;
  figure.hidden = !made;
  if (!made) return;
  // A press chooses the nearest point, which Observable Plot gives as the figure's value.
  made.addEventListener("click", () => made.value && pick(made.value));
  made.style.cursor = "pointer";
  box.replaceChildren(made);
  figure.querySelector(".legend").replaceChildren(...(id === "heat" ? [] : legendOf(legendRows(id, rows))));
  if (id === "heat") {
    figure.querySelector("figcaption").textContent = rows.some((row) => row.share)
      ? "Share of the limit in percent, the bluer the nearer; short rows first. Grey: no result."
      : `Time / ${DATA.baseline}: green is faster, orange slower; short rows first. Grey: no result.`;
  }
}

function drawCompare(rows) {
  const names = d3.sort(unique(rows.map((row) => row.name)), (name) => rows.find((row) => row.name === name).place);
  const section = at("compare");
  section.hidden = names.length < 2;
  if (section.hidden) return;
  const others = names.filter((name) => name !== DATA.baseline);
  const beside = DATA.baseline.split("/")[0]; // prefers another language to another variant
  const usual = others.find((name) => name.endsWith("/auto") && !name.startsWith(`${beside}/`)) ?? others[0];
  const one = names.includes(state.one) ? state.one : usual;
  const other = names.includes(state.other) && state.other !== one ? state.other : names.find((name) => name !== one);
  const select = (label, key, value) => {
    const made = element("select", { ariaLabel: label });
    for (const name of names) made.append(element("option", { value: name, selected: name === value }, name));
    made.dataset.key = key;
    made.addEventListener("change", () => change({ one, other, [key]: made.value }, { only: "compare" }));
    return made;
  };
  section.querySelector(".tools").replaceChildren(select("the one", "one", one), "beside", select("the other", "other", other));
  const { lines, rough, headers } = compared(rows, one, other);
  if (rough && !packed) unpacked(() => change({}, { only: "compare" }));
  const caption = lines.length ? `${one} and ${other}, on the ${lines.length} problems that both take` : `${one} and ${other} take no problem in common`;
  let sort = null;
  const draw = () => {
    const made = tableOf(caption, headers, sortedLines(lines, sort), { sort, picked: pick, sorted: (column, down) => { sort = [column, down]; draw(); } });
    const note = rough
      ? [element("p", { className: "note" }, "≈: the ratio of two medians, without an interval. kernelzoo compare measures the two together.")]
      : [];
    section.querySelector(".table").replaceChildren(...made, ...note);
  };
  draw();
}

function drawResults(rows) {
  const section = at("results");
  section.hidden = false;
  const draw = () => section.querySelector(".table").replaceChildren(...resultsTable(rows, pick, (sort) => change({ sort }, { only: "results" })));
  const tools = section.querySelector(".tools");
  const box = tools.querySelector("input");
  if (!box) {
    tools.append(searchBox("Search in every result", state.q, (q) => change({ q }, { only: "results" })));
  } else if (box.value !== state.q) box.value = state.q;
  draw();
}

function drawTools(rows) {
  const tools = at("limit").querySelector(".tools");
  const both = rows.some((row) => row.share);
  at("limit").querySelector("figcaption").lastChild.textContent = both ? ROOFLINE : "No limit was measured here.";
  tools.replaceChildren(...(both ? [choice("upwards", "y", [["", "share of the limit"], ["speed", "GB/s, and the roofline"]])] : []));
}

// Hides tables of operations or groups that are not chosen.
function hideOthers() {
  for (const made of document.querySelectorAll("[data-op]")) made.hidden = made.dataset.op !== state.op;
  for (const { id } of DATA.groups) if (at(id)) at(id).hidden = id !== state.device;
}

const PARTS = { details: () => drawDetails(), compare: (rows) => drawCompare(rows), results: (rows) => drawResults(rows) };
const FIGURES = { limit: limitFigure, ratios: ratioFigure, energy: energyFigure, heat: heatFigure };
let later = 0;

function draw() {
  const group = groupOf();
  const subjects = subjectsOf(group);
  at("headline").textContent = subjects.length === 1 && state.dtype !== "all" && dtypesOf(group, state.op).length > 1
    ? subjects[0].headline
    : group.headlines[state.op];
  drawFilters();
  const rows = shownRows();
  drawTools(rows);
  drawFigure("limit", limitFigure, rows);
  drawDetails();
  // The rest is below the first screen, and is drawn after it.
  cancelAnimationFrame(later);
  later = requestAnimationFrame(() => setTimeout(() => {
    drawFigure("ratios", ratioFigure, rows);
    drawFigure("energy", energyFigure, rows);
    drawFigure("heat", heatFigure, rows);
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

if (DATA.groups.length) {
  at("filters").hidden = false;
  at("filters").open = matchMedia("(min-width: 40rem)").matches;
  readAddress();
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
  const figures = (wide) => {
    for (const [id, made] of Object.entries(FIGURES)) drawFigure(id, made, shownRows(), wide);
  };
  addEventListener("beforeprint", () => {
    printing = true;
    figures(PAPER);
  });
  addEventListener("afterprint", () => {
    printing = false;
    figures();
  });
}
if (!DATA.groups.length) document.body.dataset.drawn = "0"; // tables alone, such as of the host's time to submit
document.querySelectorAll("main table").forEach((table) => table.closest("#explorer") || enhance(table));
