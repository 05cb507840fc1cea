"use strict";
// Tables: sorting and searching, the table of every result, comparisons of two, and one result.

const STEP = 150; // rows added at a time: a page may hold twenty thousand

const number = (text) => {
  const found = parseFloat(text);
  return Number.isNaN(found) ? null : found;
};

// Orders numbers by size and texts by letters, with empty cells last in both directions.
function order(values, down) {
  const numbers = values.map(number);
  const numeric = values.every((text, i) => text === "" || text === "-" || numbers[i] !== null);
  const place = (i) => (numeric ? numbers[i] : values[i]);
  const empty = (i) => values[i] === "" || values[i] === "-";
  const compare = numeric ? (a, b) => a - b : (a, b) => a.localeCompare(b, "en", { numeric: true });
  const turn = down ? -1 : 1;
  return [...values.keys()].sort((a, b) => empty(a) - empty(b) || (empty(a) ? 0 : turn * compare(place(a), place(b))) || a - b);
}

// Gives a heading a button that sorts by its column, and calls `chosen` when pressed.
function sortButton(heading, chosen) {
  const button = element("button", { type: "button", className: "sort" }, ...heading.childNodes);
  heading.replaceChildren(button);
  button.addEventListener("click", () => chosen(heading.getAttribute("aria-sort") === "ascending"));
}

function markSorted(head, column, down) {
  [...head.cells].forEach((cell, i) => {
    if (i === column) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
}

function searchBox(label, value, typed) {
  const box = element("input", { type: "search", value, placeholder: "search", ariaLabel: label });
  box.addEventListener("input", () => typed(box.value));
  return box;
}

const matches = (query) => {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  return (text) => wanted.every((word) => text.toLowerCase().includes(word));
};

// Makes a table of the page sortable, and searchable if it is long.
function enhance(table) {
  const head = table.tHead.rows[0];
  const body = table.tBodies[0];
  if (body.rows.length < 2) return;
  [...head.cells].forEach((heading, column) => {
    if (!heading.textContent.trim()) return;
    sortButton(heading, (down) => {
      const rows = [...body.rows];
      const values = rows.map((row) => (row.cells[column]?.firstChild?.nodeType === 1 ? row.cells[column].textContent : row.cells[column]?.firstChild?.textContent ?? "").trim());
      body.append(...order(values, down).map((i) => rows[i]));
      markSorted(head, column, down);
    });
  });
  if (body.rows.length < 12) return;
  const box = searchBox(`Search in: ${table.caption.textContent}`, "", (query) => {
    const found = matches(query);
    for (const row of body.rows) row.hidden = !found(row.textContent);
  });
  const around = table.closest(".scroll");
  const tools = element("div", { className: "tools", hidden: around.hidden }, box);
  if (around.dataset.op) tools.dataset.op = around.dataset.op; // it is shown and hidden with its table
  around.before(tools);
}

const named = (row) => element("span", {}, icon(row), row.marked);

const COLUMNS = [
  ["implementation", (row) => row.marked, (row) => named(row)],
  ["form", (row) => row.form],
  ["shape", (row) => shapeText(row.problem)],
  ["time, µs", (row) => row.us],
  ["GB/s", (row) => row.speed],
  ["of limit", (row) => row.shareText],
  [`time / ${BASELINE}`, (row) => row.ratioText],
  ["95 % interval", (row) => row.interval],
  ["verdict", (row) => row.verdict],
  ["energy, mJ", (row) => row.mj],
  ["J/GB", (row) => row.perGb],
  [`energy / ${BASELINE}`, (row) => row.energyRatio],
  ["plain copy, µs", (row) => row.copy],
  ["host submit, µs", (row) => row.submit],
  ["first call, ms", (row) => row.first],
  ["CUPTI, µs", (row) => row.cupti],
  ["samples", (row) => String(row.samples || "")],
  ["rounds repeated", (row) => String(row.repeated || "")],
  ["flags", (row) => row.flags],
];
const TEXTUAL = new Set(["implementation", "form", "shape", "95 % interval", "verdict", "flags"]);

// A table in its own box. `lines` are arrays of texts or [text, node]; a button shows more of them.
function tableOf(caption, headers, lines, { sort = null, sorted = () => {}, picked = null } = {}) {
  const head = element("tr");
  headers.forEach((text, column) => {
    const heading = element("th", { scope: "col", className: TEXTUAL.has(text) ? "" : "n" }, text);
    head.append(heading);
    sortButton(heading, (down) => sorted(column, down));
  });
  if (sort) markSorted(head, sort[0], sort[1]);
  const body = element("tbody");
  const table = element("table", {}, element("caption", {}, caption), element("thead", {}, head), body);
  const box = element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: caption }, table);
  const more = element("button", { type: "button" });
  let shown = 0;
  const add = (count) => {
    for (const line of lines.slice(shown, shown + count)) {
      const row = element("tr");
      headers.forEach((header, column) => {
        const cell = line.cells[column];
        const kind = header === "verdict" && /^(faster|slower)/.exec(cell);
        const made = element(column ? "td" : "th", { className: kind ? kind[0] : TEXTUAL.has(header) ? "" : "n" });
        if (column === 0) made.scope = "row";
        if (column === 0 && picked && line.row) {
          const button = element("button", { type: "button", className: "pick" }, line.nodes?.[0] ?? cell);
          button.addEventListener("click", () => picked(line.row));
          made.append(button);
        } else made.append(cell);
        row.append(made);
      });
      body.append(row);
    }
    shown = Math.min(lines.length, shown + count);
    more.hidden = shown === lines.length;
    more.textContent = `${lines.length - shown} more: show ${Math.min(10 * STEP, lines.length - shown)}`;
  };
  add(STEP);
  more.addEventListener("click", () => add(10 * STEP));
  return [box, more];
}

function sortedLines(lines, sort) {
  if (!sort) return lines;
  return order(lines.map((line) => line.cells[sort[0]].replace(/^†|~$/g, "").trim()), sort[1]).map((i) => lines[i]);
}

// The table of every result that is shown, the fastest of each shape first.
function resultsTable(rows, picked, changed) {
  const found = matches(state.q);
  const ordered = d3.sort(rows, (r) => r.problem.length, (r) => r.problem.bytes, (r) => r.problem.key, (r) => +r.us);
  const all = ordered.map((row) => ({ row, cells: COLUMNS.map(([, text]) => text(row)) })).filter((line) => found(line.cells.join(" ")));
  const kept = [...COLUMNS.keys()].filter((i) => all.some((line) => line.cells[i] !== ""));
  const headers = kept.map((i) => COLUMNS[i][0]);
  const [name, way] = state.sort.split(":");
  const column = headers.indexOf(name);
  const sort = column < 0 ? null : [column, way === "down"];
  const lines = sortedLines(all.map((line) => ({ row: line.row, cells: kept.map((i) => line.cells[i]), nodes: [named(line.row)] })), sort);
  return tableOf(`${lines.length} of ${rows.length} results, ${sort ? `by ${headers[column]}` : "shape by shape, the fastest first"}`, headers, lines, {
    sort, picked, sorted: (chosen, down) => changed(`${headers[chosen]}${down ? ":down" : ""}`),
  });
}

const roughly = (value) => `≈ ${value.toPrecision(2)}`;

// Two implementations on each common problem: the ratio from samples if there is one, else that of medians.
function compared(rows, one, other) {
  const lines = [];
  let rough = false;
  let label = "";
  const byShape = d3.group(rows, (row) => row.problem.key);
  for (const shape of shapesOf(rows)) {
    const here = byShape.get(shape.key);
    let [a, b] = [one, other].map((name) => here.find((row) => row.name === name));
    if (!a || !b) continue;
    const subject = a.subject;
    // Each pair was compared once: with the baseline as denominator, else with the earlier name as numerator.
    if (a.name === BASELINE || (b.name !== BASELINE && a.place > b.place)) [a, b] = [b, a];
    label = `${a.name} / ${b.name}`;
    const pair = subject.pairs?.[`${a.place} ${b.place}`]?.[shape.place];
    let [ratio, interval, verdict] = ["", "", ""];
    if (b.name === BASELINE) [ratio, interval, verdict] = [a.ratioText, a.interval, a.verdict];
    else if (pair) {
      const [middle, low, high, place, marks] = pair.split(",");
      [ratio, interval, verdict] = [marks ? `${middle} ${marks}` : middle, `${low} to ${high}`, DATA.verdicts[place]];
    } else {
      rough = true;
      ratio = [roughly(a.ratio && b.ratio ? a.ratio / b.ratio : a.us / b.us), ...unique([a.marks, b.marks].filter(Boolean))].join(" ");
    }
    const mine = here.find((row) => row.name === one);
    const theirs = here.find((row) => row.name === other);
    lines.push({ row: mine, cells: [shapeText(shape), mine.us, theirs.us, ratio, interval, verdict, mine.mj, theirs.mj] });
  }
  const headers = ["shape", `${one}, µs`, `${other}, µs`, `time ${label}`, "95 % interval", "verdict"];
  if (lines.some(({ cells }) => cells[6] || cells[7])) headers.push(`${one}, mJ`, `${other}, mJ`);
  return { lines, rough, label, headers };
}

// A source file of kernelzoo, closed at first.
function sourceOf(path) {
  const code = element("pre", { className: "scroll source", tabIndex: 0 });
  const box = element("details", {}, element("summary", {}, path), code);
  box.addEventListener("toggle", () => { code.textContent = DATA.texts[path]; });
  return box;
}

// One result: what was measured, how it ran, how to repeat it, and its source.
function detailsOf(row, closed) {
  const [file, date, commit] = row.run;
  const form = row.form ? `${row.backend}/${row.subject.op}/${row.form}` : row.id;
  const args = row.problem.args;
  const facts = [
    ["time", `${row.us} µs, ${row.speed} GB/s, ${row.samples} samples`],
    ["of the limit", row.shareText],
    [`time / ${BASELINE}`, [row.ratioText, row.interval && `(${row.interval})`, row.verdict].filter(Boolean).join(" ")],
    ["energy", row.mj && `${row.mj} mJ, ${row.perGb} J/GB, ${row.watts} W`],
    [`energy / ${BASELINE}`, row.energyRatio],
    ["form", form],
    ["launch table", row.table],
    ["plain copy", row.copy && `${row.copy} µs`],
    ["host submit", row.submit && `${row.submit} µs`],
    ["first call", row.first && `${row.first} ms`],
    ["CUPTI", row.cupti && `${row.cupti} µs`],
    ["rounds repeated", row.repeated ? String(row.repeated) : ""],
    ["flags", row.flags],
    ["breaks the contract", row.breaks],
    ...row.facts,
    ["file", `${file}, ${date}, commit ${commit}`],
  ].filter(([, value]) => value);
  const baseline = BASELINE.replace("/", `/${row.subject.op}/`);
  const cache = row.group.cache === "hot" ? " --cache hot" : "";
  const commands = args
    ? [`kernelzoo compare ${unique([row.id, baseline]).join(" ")} ${args}${cache}`, ...(DATA.sources[form] ? [`kernelzoo inspect ${form} ${args}`] : [])]
    : [];
  const close = element("button", { type: "button", ariaLabel: "close" }, "×");
  close.addEventListener("click", closed);
  return [
    element("h3", {}, icon(row), `${row.id} ${row.marks}`, element("small", {}, ` ${row.problem.key}`), close),
    element("dl", { className: "facts" }, ...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
    ...commands.map((line) => element("pre", {}, line)),
    ...(DATA.sources[form] ?? []).map(sourceOf),
  ];
}
