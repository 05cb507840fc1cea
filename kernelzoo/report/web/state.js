"use strict";
// The data, the reader's choices, and the page's address, which holds them.
// Everything in the data is untrusted: it is only ever set as text.

const DATA = JSON.parse(document.getElementById("data").textContent);

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
const zipped = (fields, values) => Object.fromEntries(fields.map((field, i) => [field, values[i] ?? ""]));

// A subject's rows as objects, made on first use.
function rowsOf(group, subject) {
  if (subject.decoded) return subject.decoded;
  subject.shapes = subject.problems.map(([text, bytes, length, args, classes], place) => ({
    text, bytes, length, args, classes, place, dtype: subject.dtype, key: `${subject.dtype} ${text}`,
  }));
  const lead = new Set(subject.lead);
  subject.decoded = subject.rows.map((values) => {
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

// Large data for later: comparisons of every two, and sources of forms. Null until it is loaded, and forever in a browser
// that can't decompress.
let packed = null;
let unpacking = null;

async function unpack() {
  const bytes = Uint8Array.from(atob(DATA.packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  packed = JSON.parse(await new Response(stream).text());
  DATA.groups.forEach((group, i) => group.subjects.forEach((subject, j) => { subject.pairs = packed.pairs[i][j]; }));
}

// Calls back once that is loaded.
function unpacked(then) {
  if (packed) return then();
  if (typeof DecompressionStream === "undefined") return undefined;
  return (unpacking ??= unpack()).then(then);
}

const groupOf = () => DATA.groups.find((group) => group.id === state.device) ?? DATA.groups[0];
const most = (subjects) => subjects.reduce((a, b) => (b.rows.length > a.rows.length ? b : a));
const opsOf = (group) => unique(group.subjects.map((subject) => subject.op));
const dtypesOf = (group, op) => group.subjects.filter((s) => s.op === op).map((s) => s.dtype);
const subjectsOf = (group) =>
  group.subjects.filter((s) => s.op === state.op && (state.dtype === "all" || s.dtype === state.dtype));

// The parts of the address. An invalid one is replaced by what is shown.
const KEYS = ["device", "op", "dtype", "class", "variants", "backend", "y", "one", "other", "q", "sort", "point", "view"];
const state = {};

function readAddress() {
  const said = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  for (const key of KEYS) state[key] = said.get(key) ?? "";
  settle();
}

function settle() {
  const group = groupOf();
  state.device = group.id;
  if (!opsOf(group).includes(state.op)) state.op = most(group.subjects).op;
  const dtypes = dtypesOf(group, state.op);
  if (state.dtype !== "all" && !dtypes.includes(state.dtype)) {
    state.dtype = most(group.subjects.filter((s) => s.op === state.op)).dtype;
  }
  if (!Object.hasOwn(DATA.classes, state.class)) state.class = "";
  if (state.variants !== "all") state.variants = "";
  if (state.y !== "speed") state.y = "";
  const rows = subjectRows();
  const backends = unique(rows.map((row) => row.backend));
  const wanted = state.backend.split(",").filter((name) => backends.includes(name));
  state.backend = wanted.length === backends.length ? "" : wanted.join(",");
  const names = unique(rows.map((row) => row.name));
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

// The rows that every figure and the table show.
function shownRows() {
  const backends = state.backend ? new Set(state.backend.split(",")) : null;
  return subjectRows().filter(
    (row) =>
      (!backends || backends.has(row.backend)) &&
      (state.variants === "all" || row.lead) &&
      (!state.class || row.problem.classes.includes(state.class)),
  );
}

// A shape's name where several dtypes may stand side by side.
const shapeText = (problem) => (state.dtype === "all" ? problem.key : problem.text);
