// pars review: one list, seen one by one or as a grid, and a sheet of numbers.
import { get, post, settled, shared } from "./api.js";
import { $, make, say, STATES, stateText } from "./dom.js";
import { HELP, start as startKeys } from "./keys.js";
import * as place from "./place.js";
import * as views from "./views.js";

const PAGE = 60;
const CONFIRM_ABOVE = 50;
const S = { meta: null, view: "one", filter: {}, sort: "quality", row: null, page: null, item: null, marks: new Set(), all: false };
const classes = () => S.meta.classes;
const blind = () => S.view === "sample";
const at = () => (S.page ? S.page.rows.findIndex((item) => item.row === S.row) : -1);

function problem(error) {
  $("error").hidden = !error;
  $("error").textContent = error ? error.message : "";
}

async function guarded(work) {
  try {
    await work();
    problem(null);
  } catch (error) {
    problem(error);
    if (error.status === 409) { await load({ row: S.row }); problem(error); }
  }
}

// Loading

async function load({ row = null, offset = null, end = false } = {}) {
  await settled();
  if (S.view === "sheet") { await showSheet(); return; }
  const query = { limit: PAGE };
  if (blind()) query.sample = 1;
  else { query.f = JSON.stringify(S.filter); query.sort = S.sort; }
  if (row !== null) query.around = row;
  else if (offset !== null) query.offset = Math.max(0, offset);
  S.page = await get("/api/items", query);
  if (S.page.counts) S.meta.counts = S.page.counts;
  const here = S.page.rows;
  const wanted = here.find((item) => item.row === row);
  S.row = wanted ? wanted.row : here.length ? (end ? here[here.length - 1] : here[0]).row : null;
  await show();
}

async function show({ focus = true } = {}) {
  const main = $("main");
  const wasHere = S.row;
  if (S.row === null) {
    const words = blind() ? "The blind sample is empty." : Object.keys(S.filter).length ? "No row passes the filter." : "No suspect labels: there is nothing to decide. Any row can be shown by its number.";
    main.replaceChildren(make("p", { id: "item", tabindex: "-1", text: words }));
    S.item = null;
  } else if (S.view === "grid") {
    main.replaceChildren(views.grid(S.page, S, classes(), S.meta.kind, { click: clickTile, open: openOne, focus: (row) => { S.row = row; place.write(S); roving(); } }), pager());
    S.item = null;
  } else {
    const item = await get(`/api/item/${S.row}`, blind() ? { sample: 1 } : {});
    if (S.row !== wasHere) return;
    S.item = item;
    main.replaceChildren(views.one(item, S.page.offset + Math.max(0, at()), S.page.total, classes(), choose));
    prefetch();
  }
  chrome();
  place.write(S);
  if (focus) focusItem();
}

function focusItem() {
  const node = S.view === "grid" ? document.querySelector(`.tile[data-row="${S.row}"]`) : S.view === "sheet" ? $("sheet") : $("item");
  if (node) node.focus({ preventScroll: S.view !== "grid" });
  else $("main").focus();
}

function prefetch() {
  if (S.meta.kind !== "image") return;
  for (const item of S.page.rows.slice(at() + 1, at() + 3)) new Image().src = `/media/${item.row}?s=full`;
}

async function showSheet() {
  const stats = await get("/api/stats");
  $("main").replaceChildren(views.sheet(stats, classes(), S.meta, {
    export: () => guarded(async () => listFiles((await post("/api/export")).files)),
    quit: () => guarded(async () => {
      const { files } = await post("/api/quit");
      listFiles(files);
      $("saved").textContent = "ended: all is written, this page can be closed";
    }),
  }));
  chrome();
  place.write(S);
  focusItem();
}

function listFiles(files) {
  $("files").replaceChildren(...files.map((file) => make("li", { text: file })));
  say(`${files.length} files written`);
}

function pager() {
  const pages = Math.max(1, Math.ceil(S.page.total / PAGE));
  const page = Math.floor(S.page.offset / PAGE);
  const button = (text, to) => {
    const node = make("button", { type: "button", text, on: { click: () => turn(to) } });
    node.disabled = to < 0 || to >= pages;
    return node;
  };
  return make("div", { class: "pages" }, button("Previous page", page - 1), make("span", { text: `page ${page + 1} of ${pages} · ${S.page.total} rows` }),
    button("Next page", page + 1));
}

const turn = (page, end = false) => guarded(() => load({ offset: page * PAGE, end }));

function chrome() {
  const n = S.meta.counts;
  const decided = n.keep + n.accept + n.relabel + n.drop;
  const changed = n.accept + n.relabel + n.drop;
  let words = `${decided} of ${S.meta.suspects} · ${changed} changed`;
  if (blind() && S.page) words = `blind sample: ${S.meta.sample.done} of ${S.page.total}`;
  $("progress").textContent = words;
  $("sample-done").hidden = !(blind() && S.page && S.page.total && S.meta.sample.done === S.page.total);
  for (const view of ["one", "grid", "sample", "sheet"]) $(`view-${view}`).setAttribute("aria-pressed", String(S.view === view));
  $("view-sample").hidden = !S.meta.sample;
  const inList = S.view === "one" || S.view === "grid" || blind();
  $("actions").hidden = !inList || S.row === null;
  for (const id of ["accept", "keep", "mark", "mark-all", "clear-marks"]) $(id).hidden = blind();
  const marked = S.all ? S.page.total : S.marks.size;
  $("marks-note").textContent = marked ? `${marked} marked${S.all ? ": all that match" : ""}` : "";
  const filters = Object.keys(S.filter).length;
  $("filter-note").textContent = filters ? `(${filters} on)` : "";
  $("filters").hidden = blind() || S.view === "sheet";
  strip();
}

function strip() {
  $("strip").replaceChildren(...(S.meta.last || []).map((item) => make("button", { type: "button",
    text: `${item.row}: ${stateText(item, classes())}`, on: { click: () => guarded(() => jump(item.row)) } })));
}

// Moving

async function jump(row) {
  if (S.view === "sheet" || blind()) S.view = "one";
  await load({ row });
  if (S.row !== row) { S.filter = { scope: "all" }; fillFilters(); await load({ row }); }
  if (S.row !== row) { S.row = row; await show(); }
}

async function step(by) {
  if (!S.page || S.row === null) return;
  const to = at() + by;
  if (to >= 0 && to < S.page.rows.length) { S.row = S.page.rows[to].row; await moved(); return; }
  const offset = S.page.offset + (to < 0 ? -PAGE : PAGE);
  if (to < 0 && S.page.offset > 0) await load({ offset, end: true });
  else if (to > 0 && "state" in S.filter && S.page.rows.some((item) => item.state !== S.filter.state)) await load({ offset: 0 });
  else if (to > 0 && offset < S.page.total) await load({ offset });
  else { say(to < 0 ? "first row" : "last row"); await show(); }
}

async function moved() {
  if (S.view === "grid") { roving(); chrome(); place.write(S); focusItem(); } else await show();
}

function roving() {
  for (const tile of document.querySelectorAll(".tile[data-row]")) tile.tabIndex = Number(tile.dataset.row) === S.row ? 0 : -1;
}

async function move(x, y, range) {
  if (S.view === "sheet" || !S.page) return;
  const by = S.view === "grid" && y ? below(y) : x + y;
  if (!range || blind()) { await step(by); return; }
  const from = at();
  const to = Math.max(0, Math.min(S.page.rows.length - 1, from + by));
  for (let i = Math.min(from, to); i <= Math.max(from, to); i += 1) S.marks.add(S.page.rows[i].row);
  S.row = S.page.rows[to].row;
  await show();
  say(`${S.marks.size} marked`);
}

// How many rows further the tile above or below is: groups end their lines early, so lines differ in length.
function below(y) {
  const tiles = [...document.querySelectorAll(".tile[data-row]")];
  const boxes = tiles.map((tile) => tile.getBoundingClientRect());
  const here = tiles.findIndex((tile) => Number(tile.dataset.row) === S.row);
  if (here < 0) return y;
  const beyond = boxes.map((box, at) => ({ at, down: y * (box.top - boxes[here].top), aside: Math.abs(box.left - boxes[here].left) }))
    .filter(({ down }) => down > 1).sort((one, other) => one.down - other.down || one.aside - other.aside);
  return beyond.length ? beyond[0].at - here : y * tiles.length;
}

async function nextUndecided() {
  if (!S.page || S.view === "sheet") return;
  const later = S.page.rows.slice(at() + 1).find((item) => item.state === "undecided");
  if (later) { S.row = later.row; await moved(); return; }
  for (let offset = S.page.offset + PAGE; offset < S.page.total; offset += PAGE) {
    await load({ offset });
    const found = S.page.rows.find((item) => item.state === "undecided");
    if (found) { S.row = found.row; await show(); return; }
  }
  say("no undecided row after this one");
}

// Deciding

const choose = (label) => guarded(() => decide(blind() ? "blind" : "relabel", label));

async function decide(action, label) {
  if (S.row === null || S.view === "sheet" || S.meta.read_only) {
    if (S.meta.read_only) problem(new Error("This review is open read-only in this window."));
    return;
  }
  if (blind() && !["blind", "drop", "skip"].includes(action)) return;
  const bulk = S.all || S.marks.size > 0;
  const count = S.all ? S.page.total : S.marks.size || 1;
  if (count > CONFIRM_ABOVE && !(await confirmed(count, action, label))) { focusItem(); return; }
  const body = { action };
  if (label !== undefined) body.label = label;
  if (S.all) Object.assign(body, { filter: S.filter, expect: S.page.total });
  else body.rows = S.marks.size ? [...S.marks] : [S.row];
  const done = post("/api/decide", body);
  if (bulk) {
    const found = await done;
    absorb(found);
    clearMarks();
    await load({ row: S.row });
    say(`${found.changed} rows: ${STATES[action]?.[1] || "relabeled"}, ${left()} left`);
    return;
  }
  const item = S.page.rows[at()];
  const row = S.row;
  const before = item && item.state;
  const labelBefore = item && item.label;
  if (item) predict(item, action, label);
  done.then(absorb).catch(async (error) => {
    if (item) { item.state = before; item.label = labelBefore; }
    await guarded(() => load({ row })); // if the server is gone, the row cannot be shown again
    problem(error);
  });
  if (item) {
    if (before === "undecided") S.meta.counts.undecided -= 1;
    announce(item);
    if (S.view === "grid") refreshTile(item);
  }
  await step(1);
}

function predict(item, action, label) {
  if (blind()) { item.state = "decided"; return; }
  const states = { accept: "accept", keep: "keep", drop: "drop", skip: "skip", clear: "undecided" };
  item.state = states[action] || (label === item.given ? "keep" : label === item.suggested ? "accept" : "relabel");
  item.label = action === "accept" ? item.suggested : action === "keep" ? item.given : label ?? null;
}

const left = () => Math.max(0, S.meta.counts.undecided);

function announce(item) {
  if (blind()) { say(`row ${item.row}: decided`); return; }
  const to = item.label === null || item.label === undefined ? "" : `, ${classes()[item.given]} to ${classes()[item.label]}`;
  say(`row ${item.row}: ${STATES[item.state][1]}${item.state === "keep" ? "" : to}, ${left()} left`);
}

function absorb(found) {
  S.meta.counts = found.counts;
  S.meta.last = found.last;
  if (blind() && S.meta.sample) S.meta.sample.done = Math.min(S.page.total, S.page.rows.filter((item) => item.state !== "undecided").length + S.page.offset);
  if (S.view !== "sheet") chrome();
}

function refreshTile(item) {
  const old = document.querySelector(`.tile[data-row="${item.row}"]`);
  if (old) old.replaceWith(views.tile(item, S, classes(), S.meta.kind, { click: clickTile, open: openOne, focus: (row) => { S.row = row; place.write(S); roving(); } }));
}

async function back(path) {
  const found = await post(path);
  absorb(found);
  clearMarks();
  if (found.rows.length) {
    const sampled = blind();
    if (sampled) await load({ row: found.rows[0] });
    else await jump(found.rows[0]);
    const words = path.endsWith("undo") ? "undone" : "redone";
    say(`${words}: ${found.rows.length === 1 ? `row ${found.rows[0]}` : `${found.changed} rows`}`);
  }
}

function confirmed(count, action, label) {
  const dialog = $("confirm-dialog");
  const what = label === undefined ? action : classes()[label];
  $("confirm-text").textContent = `Decide ${count} rows at once: ${what}?`;
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
    dialog.returnValue = "";
    $("confirm-yes").onclick = () => dialog.close("yes");
    $("confirm-no").onclick = () => dialog.close("no");
  });
}

// Marks

function clearMarks() { S.marks.clear(); S.all = false; }

async function markAll() {
  if (S.view === "sheet" || blind() || !S.page) return;
  const whole = S.page.rows.every((item) => S.marks.has(item.row)) && S.page.rows.length > 0;
  if (whole && !S.all) { S.all = true; say(`all ${S.page.total} that match are marked`); }
  else { S.page.rows.forEach((item) => S.marks.add(item.row)); say(`${S.marks.size} marked; again: all ${S.page.total} that match`); }
  await show();
}

async function mark() {
  if (S.row === null || S.view === "sheet" || blind()) return;
  S.all = false;
  if (S.marks.has(S.row)) S.marks.delete(S.row); else S.marks.add(S.row);
  say(`${S.marks.size} marked`);
  await show();
}

async function clickTile(row, event) {
  if (event.ctrlKey || event.metaKey) { S.row = row; await mark(); return; }
  if (event.shiftKey) {
    const from = at();
    const to = S.page.rows.findIndex((item) => item.row === row);
    for (let i = Math.min(from, to); i <= Math.max(from, to); i += 1) S.marks.add(S.page.rows[i].row);
    S.row = row;
    await show();
    return;
  }
  S.row = row;
  await moved();
}

function openOne(row) { S.row = row; return setView("one"); }

// Views, filters, dialogs

async function setView(view) {
  if (view === "sample" && !S.meta.sample) return;
  const before = S.view;
  clearMarks();
  S.view = view;
  if (view === "grid" && before !== "grid" && S.sort === "quality") S.sort = "pair";
  place.write(S, true);
  await guarded(() => load({ row: before === "sheet" || view === "sample" || before === "sample" ? null : S.row }));
  if (view === "sample") await nextFromStart();
}

async function nextFromStart() {
  if (S.page.rows.length && S.page.rows[0].state !== "undecided") await guarded(nextUndecided);
}

function fillFilters() {
  const f = S.filter;
  $("f-given").value = f.given ?? ""; $("f-suggested").value = f.suggested ?? ""; $("f-state").value = f.state ?? "";
  $("f-low").value = f.quality ? f.quality[0] : ""; $("f-high").value = f.quality ? f.quality[1] : "";
  $("f-text").value = f.text ?? ""; $("f-row").value = f.row ?? ""; $("f-scope").value = f.scope ?? ""; $("f-sort").value = S.sort;
}

async function applyFilters() {
  const f = {};
  const number = (id) => ($(id).value === "" ? null : Number($(id).value));
  for (const [key, id] of [["given", "f-given"], ["suggested", "f-suggested"], ["row", "f-row"]]) if (number(id) !== null) f[key] = number(id);
  for (const [key, id] of [["state", "f-state"], ["text", "f-text"], ["scope", "f-scope"]]) if ($(id).value) f[key] = $(id).value;
  if (number("f-low") !== null || number("f-high") !== null) f.quality = [number("f-low") ?? 0, number("f-high") ?? 1];
  S.filter = f;
  S.sort = $("f-sort").value;
  clearMarks();
  place.write(S, true);
  await guarded(() => load());
}

function openFind() {
  if (S.row === null || S.view === "sheet") return;
  const dialog = $("find-dialog"), input = $("find-input"), list = $("find-list");
  const matches = () => {
    const wanted = input.value.toLowerCase();
    const found = classes().map((name, label) => ({ name, label })).filter(({ name }) => name.toLowerCase().includes(wanted));
    const rank = ({ name }) => (name.toLowerCase() === wanted ? 0 : name.toLowerCase().startsWith(wanted) ? 1 : 2);
    return found.sort((one, other) => rank(one) - rank(other) || one.label - other.label).slice(0, 50);
  };
  const take = (label) => { dialog.close(); choose(label); };
  const fill = () => {
    const found = matches();
    $("find-note").textContent = found.length ? `${found.length} classes; Enter takes ${found[0].name}` : "no such class";
    list.replaceChildren(...found.map(({ name, label }) => make("li", {}, make("button", { type: "button", text: name, on: { click: () => take(label) } }))));
  };
  input.value = "";
  input.oninput = fill;
  input.onkeydown = (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    const [first] = matches();
    if (first && input.value) take(first.label);
  };
  fill();
  dialog.onclose = () => focusItem();
  dialog.showModal();
  input.focus();
}

function openGo() {
  const dialog = $("go-dialog"), input = $("go-input");
  const take = () => {
    const row = Number(input.value);
    dialog.close();
    if (input.value !== "" && Number.isInteger(row) && row >= 0 && row < S.meta.rows) guarded(() => jump(row));
    else problem(new Error(`there is no row ${input.value}`));
  };
  input.value = "";
  input.max = S.meta.rows - 1;
  input.onkeydown = (event) => { if (event.key === "Enter") { event.preventDefault(); take(); } };
  $("go-yes").onclick = take;
  dialog.showModal();
  input.focus();
}

async function escape() {
  if (!S.marks.size && !S.all) { problem(null); return; }
  clearMarks();
  say("marks cleared");
  await show();
}

function digit(n) {
  if (S.view === "sheet" || S.row === null) return;
  if (S.item) {
    const labels = views.digits(S.item, classes());
    if (n < labels.length) choose(labels[n]);
    return;
  }
  guarded(async () => { // in the grid the row's own order is asked for
    const item = await get(`/api/item/${S.row}`);
    const labels = views.digits(item, classes());
    if (n < labels.length) await decide("relabel", labels[n]);
  });
}

const actions = {
  accept: () => guarded(() => decide("accept")), keep: () => guarded(() => decide("keep")), drop: () => guarded(() => decide("drop")),
  skip: () => guarded(() => decide("skip")), undo: () => guarded(() => back("/api/undo")), redo: () => guarded(() => back("/api/redo")),
  move: (x, y, range) => guarded(() => move(x, y, range)), digit, mark: () => guarded(mark), markAll: () => guarded(markAll),
  escape: () => guarded(escape), nextUndecided: () => guarded(nextUndecided), find: openFind, go: openGo,
  toggleView: () => setView(S.view === "grid" ? "one" : "grid"), sheet: () => setView("sheet"), help: () => $("help-dialog").showModal(),
  first: () => guarded(() => load({ offset: 0 })),
  last: () => guarded(() => load({ offset: Math.floor(Math.max(0, S.page.total - 1) / PAGE) * PAGE, end: true })),
  pageUp: () => { if (S.page && S.page.offset > 0) turn(Math.floor(S.page.offset / PAGE) - 1); },
  pageDown: () => { if (S.page && S.page.offset + PAGE < S.page.total) turn(Math.floor(S.page.offset / PAGE) + 1); },
};

function buttons() {
  const on = { accept: actions.accept, keep: actions.keep, drop: actions.drop, skip: actions.skip, find: actions.find, mark: actions.mark,
    "mark-all": actions.markAll, "clear-marks": actions.escape, previous: () => actions.move(-1, 0, false), next: () => actions.move(1, 0, false),
    undo: actions.undo, redo: actions.redo, "next-undecided": actions.nextUndecided, go: actions.go, "toggle-view": actions.toggleView,
    help: actions.help, "view-one": () => setView("one"), "view-grid": () => setView("grid"), "view-sample": () => setView("sample"),
    "view-sheet": actions.sheet, "f-apply": applyFilters, "f-clear": () => { S.filter = {}; fillFilters(); applyFilters(); } };
  for (const [id, work] of Object.entries(on)) $(id).addEventListener("click", work);
  for (const name of ["help", "find", "go"]) $(`${name}-close`).addEventListener("click", () => $(`${name}-dialog`).close());
  $("help-dialog").addEventListener("close", () => focusItem());
  $("filter-form").addEventListener("submit", (event) => { event.preventDefault(); applyFilters(); });
  $("filter-form").addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); applyFilters(); } });
  $("help-table").replaceChildren(...HELP.map(([key, text]) => make("tr", {}, make("th", { scope: "row", text: key }), make("td", { text }))));
}

function fromPlace() {
  const found = place.read();
  const first = S.meta.sample && S.meta.sample.done < S.meta.sample.n ? "sample" : S.meta.default_view;
  S.view = ["one", "grid", "sheet"].includes(found.view) || (found.view === "sample" && S.meta.sample) ? found.view : first;
  S.filter = found.filter;
  S.sort = found.sort || (S.view === "grid" ? "pair" : "quality");
  fillFilters();
  return found.row;
}

async function begin() {
  S.meta = await get("/api/meta");
  shared.seq = S.meta.seq;
  document.title = `pars review: ${S.meta.title}`;
  $("title").textContent = `pars review: ${S.meta.title}`;
  if (S.meta.read_only) problem(new Error("This review is open read-only: another process is writing to it."));
  for (const id of ["f-given", "f-suggested"]) {
    $(id).replaceChildren(make("option", { value: "", text: "any" }), ...classes().map((name, label) => make("option", { value: label, text: name })));
  }
  buttons();
  startKeys(actions);
  const fresh = !location.hash;
  const row = fromPlace();
  await load({ row });
  if (S.view === "sample") await nextFromStart();
  else if (fresh && S.view === "one" && at() >= 0 && S.page.rows[at()].state !== "undecided") await nextUndecided();
  $("saved").textContent = "all saved";
  window.addEventListener("hashchange", () => guarded(async () => { clearMarks(); await load({ row: fromPlace() }); }));
  let width = views.columns();
  window.addEventListener("resize", () => { if (S.view === "grid" && views.columns() !== width) { width = views.columns(); show({ focus: false }); } });
}

begin().catch((error) => problem(error));
