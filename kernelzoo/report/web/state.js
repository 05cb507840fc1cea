"use strict";
// The data, the reader's choices, and the page's address, which holds them.
// Everything in the data is untrusted: it is only ever set as text.

const BASELINE = document.body.dataset.baseline;
const TITLE = document.title;
let DATA = { groups: [] };

// Reads the data, which the page holds compressed.
async function unpack() {
  const bytes = Uint8Array.from(atob(document.getElementById("data").textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  DATA = JSON.parse(await new Response(stream).text());
}

// An element with properties or attributes, and children; a string is a text.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const unique = (values) => [...new Set(values)];
const zipped = (fields, values) => Object.fromEntries(fields.map((field, i) => [field, values[i]]));

// A subject's rows as objects, made on first use.
function rowsOf(group, subject) {
  if (subject.decoded) return subject.decoded;
  subject.shapes = subject.problems.map(([text, bytes, length, args, classes], place) => ({
    text, bytes, length, args, classes, place, dtype: subject.dtype, key: `${subject.dtype} ${text}`,
  }));
  const lead = new Set(subject.lead);
  subject.decoded = d3.transpose(subject.columns).map((values) => {
    const row = zipped(DATA.fields, values);
    const name = subject.names[row.name];
    const [backend, variant] = name.split("/");
    const id = `${backend}/${subject.op}/${variant}`;
    return {
      ...row, place: row.name, name, backend, id, subject, group,
      problem: subject.shapes[row.problem],
      lead: lead.has(row.name),
      colour: DATA.looks[id][0],
      symbol: DATA.looks[id][1],
      run: group.runs[row.run || 0],
      marked: row.marks ? `${name} ${row.marks}` : name,
      facts: subject.counters[`${row.name} ${row.problem}`] ?? [],
    };
  });
  return subject.decoded;
}

const groupOf = () => DATA.groups.find((group) => group.id === state.device) ?? DATA.groups[0];
const most = (subjects) => subjects.reduce((a, b) => (b.columns[0].length > a.columns[0].length ? b : a));
const opsOf = (group) => unique(group.subjects.map((subject) => subject.op));
const dtypesOf = (group, op) => group.subjects.filter((s) => s.op === op).map((s) => s.dtype);
const subjectsOf = (group) =>
  group.subjects.filter((s) => s.op === state.op && (state.dtype === "all" || s.dtype === state.dtype));

// The parts of the address. An invalid one is replaced by what is shown.
const KEYS = ["device", "op", "dtype", "class", "variants", "off", "y", "one", "other", "q", "sort", "point", "view"];
const state = {};

function readAddress() {
  const said = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  for (const key of KEYS) state[key] = said.get(key) ?? "";
  settle();
}

function settle() {
  const group = groupOf();
  state.device = group.id;
  const ops = opsOf(group);
  if (!ops.includes(state.op)) state.op = DATA.operations.find((op) => ops.includes(op)) ?? most(group.subjects).op;
  const dtypes = dtypesOf(group, state.op);
  if (!dtypes.includes(state.dtype) && (state.dtype !== "all" || dtypes.length < 2)) {
    state.dtype = dtypes.includes("float32") ? "float32" : most(group.subjects.filter((s) => s.op === state.op)).dtype;
  }
  if (!Object.hasOwn(group.standings[state.op][state.dtype] ?? {}, state.class)) state.class = "";
  if (state.variants !== "all") state.variants = "";
  if (!["speed", "ratio"].includes(state.y)) state.y = "";
  const known = new Set(Object.keys(DATA.looks).map((id) => id.split("/")[0]));
  state.off = unique(state.off.split(",")).filter((name) => known.has(name)).join(",");
  const names = unique(subjectRows().map((row) => row.name));
  if (!names.includes(state.one)) state.one = "";
  if (!names.includes(state.other)) state.other = "";
}

// The address of the view or of a part. It always has the operation and dtype, since new results may change the default.
function address(view = "") {
  const said = new URLSearchParams();
  for (const key of KEYS) {
    const value = key === "view" ? view : state[key];
    if (value && !(key === "device" && DATA.groups.length === 1)) said.set(key, value);
  }
  return `#${String(said).replaceAll("%2F", "/").replaceAll("%2C", ",")}`;
}

function writeAddress() {
  try {
    history.replaceState(null, "", address());
  } catch {
    location.hash = address(); // where a frame may not change its history
  }
}

const subjectRows = () => subjectsOf(groupOf()).flatMap((subject) => rowsOf(groupOf(), subject));

const NOTHING = { said: "", shapes: "", count: 0, lead: [], bars: [] };
const standingOf = () => groupOf().standings[state.op][state.dtype][state.class] ?? NOTHING;
const backendOf = (name) => name.split("/")[0];
const backendsHere = () => unique(subjectRows().map((row) => row.backend));

// The backends that are switched off. They stay so for other operations; where all of one are off, none of it is.
function off() {
  const chosen = new Set(state.off.split(",").filter(Boolean));
  const here = backendsHere();
  return here.every((name) => chosen.has(name)) ? d3.difference(chosen, here) : chosen;
}

// The rows that the figures and the tables of results show. The baseline comes last, so that it is drawn above others.
function shownRows() {
  const hidden = off();
  const rows = subjectRows().filter(
    (row) =>
      !hidden.has(row.backend) &&
      (state.variants === "all" || row.lead) &&
      (!state.class || row.problem.classes.includes(state.class)),
  );
  return d3.sort(rows, (row) => row.name === BASELINE);
}

// The bars of the first figures: the shown implementations, and the best peer.
function shownBars() {
  const [hidden, standing] = [off(), standingOf()];
  const lead = new Set([...standing.lead, DATA.peer]);
  return standing.bars
    .map(([name, score, low, high, count, ratio, marks], place) => {
      const [backend, variant] = name.split("/");
      const id = `${backend}/${state.op}/${variant}`;
      const [colour, symbol] = DATA.looks[id] ?? ["currentColor", "circle"];
      const whole = count === standing.count;
      const label = [name, marks].filter(Boolean).join(" ");
      return { name, backend, place, score, low, high, count, ratio, marks, whole, label, colour, symbol, lines: DATA.lines[id] };
    })
    .filter((bar) => !hidden.has(bar.backend) && (state.variants === "all" || lead.has(bar.name)));
}

// A shape's name where several dtypes may stand side by side.
const shapeText = (problem) => (state.dtype === "all" ? problem.key : problem.text);
