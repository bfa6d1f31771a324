// The three views of a review: one row, a grid of rows, the sheet of numbers.
import { STATES, make, named, percent, stateText } from "./dom.js";

export const image = (row, size, name, on = {}) => {
  const img = make("img", { src: `/media/${row}?s=${size}`, alt: name, loading: size === "thumb" ? "lazy" : "eager", on });
  img.addEventListener("load", () => { if (Math.max(img.naturalWidth, img.naturalHeight) <= 64) img.classList.add("small"); });
  return img;
};

function content(item) {
  const box = make("div", { class: "content" });
  if (item.content.kind === "image") box.append(image(item.row, "full", `row ${item.row}, ${item.content.name}`));
  else if (item.content.kind === "text") box.append(make("p", { class: "words", text: item.content.text }));
  else {
    const table = make("table");
    for (const [name, value] of Object.entries(item.content.values)) {
      table.append(make("tr", {}, make("th", { scope: "row", text: name }), make("td", { text: value })));
    }
    box.append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values of the row" }, table));
  }
  return box;
}

// The classes that digits stand for: most likely first; of a blind question in their own order.
export function digits(item, classes) {
  const likely = item.blind ? [] : item.choices.map((choice) => choice.label);
  const others = classes.map((_, label) => label).filter((label) => !likely.includes(label));
  return [...likely, ...others].slice(0, 10);
}

export function one(item, position, total, classes, choose) {
  const name = item.blind ? "blind question" : `given ${classes[item.given]}, suggested ${classes[item.suggested]}`;
  const box = make("article", { class: "item", id: "item", tabindex: "-1", "aria-label": `Row ${item.row}, ${name}` });
  const where = total ? `${position + 1} of ${total} · row ${item.row}` : `row ${item.row}`;
  const id = item.id !== undefined && item.id !== String(item.row) ? ` · ${item.id}` : "";
  box.append(make("p", { class: "why", text: where + id }));
  if (!item.blind) {
    box.append(make("div", { class: "sides" },
      make("p", { id: "given" }, "given: ", named(classes[item.given]), ` ${item.quality === null ? "" : item.quality.toFixed(2)}`),
      make("p", { id: "suggested" }, "suggested: ", named(classes[item.suggested]), ` ${item.suggested_prob.toFixed(2)}`)));
  }
  box.append(content(item));
  const list = make("ul", { class: "choices", "aria-label": item.blind ? "Classes" : "Classes, most likely first" });
  digits(item, classes).forEach((label, at) => {
    const found = item.blind ? undefined : item.choices.find((choice) => choice.label === label);
    const button = make("button", { type: "button", "data-label": label, on: { click: () => choose(label) } },
      make("kbd", { text: String((at + 1) % 10) }), " ", named(classes[label]), found ? ` ${found.prob.toFixed(2)}` : "");
    list.append(make("li", {}, button));
  });
  box.append(list);
  if (classes.length > 10) box.append(make("p", { class: "why", text: `${classes.length} classes: / finds one by name` }));
  if (item.why) box.append(make("p", { class: "why", text: item.why }));
  box.append(make("p", { id: "state", class: `state-${item.state}`, text: stateText(item, classes) }));
  return box;
}

const pairOf = (item, classes) => [named(classes[item.given]), " → ", named(classes[item.suggested])];

export const columns = () => Math.max(1, Math.min(6, Math.floor((document.body.clientWidth - 8) / 170)));

export function grid(page, state, classes, kind, on) {
  const across = columns();
  const rows = Math.ceil(page.total / across);
  const box = make("div", { role: "grid", "aria-label": "Suspect labels", "aria-rowcount": state.sort === "pair" ? -1 : rows, "aria-multiselectable": "true", id: "grid" });
  const groups = new Map(page.groups.map((group) => [`${group.given} ${group.suggested}`, group]));
  let line = null, before = null, filled = 0, index = Math.floor(page.offset / across);
  const close = () => {
    while (line && filled % across) { line.append(make("div", { class: "tile filler", "aria-hidden": "true" })); filled += 1; }
    line = null; filled = 0;
  };
  for (const item of page.rows) {
    const pair = `${item.given} ${item.suggested}`;
    if (state.sort === "pair" && pair !== before) {
      close();
      const group = groups.get(pair);
      const counts = group ? ` (${group.n} rows, ${group.decided} decided)` : "";
      box.append(make("div", { role: "row", class: "grid-head" },
        make("span", { role: "rowheader" }, ...pairOf(item, classes), counts)));
      before = pair;
    }
    if (!line || filled % across === 0) {
      index += 1;
      line = make("div", { role: "row", class: "grid-row", "aria-rowindex": index });
      box.append(line);
      filled = 0;
    }
    line.append(tile(item, state, classes, kind, on));
    filled += 1;
  }
  close();
  return box;
}

export function tile(item, state, classes, kind, on) {
  const marked = state.all || state.marks.has(item.row);
  const words = `${classes[item.given]} → ${classes[item.suggested]}`;
  const name = `row ${item.row}, ${words}, ${STATES[item.state][1]}${marked ? ", marked" : ""}`;
  const cell = make("div", { role: "gridcell", class: "tile", tabindex: item.row === state.row ? "0" : "-1", "aria-label": name,
    "aria-selected": String(marked), "data-row": item.row,
    on: { click: (event) => on.click(item.row, event), dblclick: () => on.open(item.row), focus: () => on.focus(item.row) } });
  if (kind === "image") cell.append(image(item.row, "thumb", ""));
  else cell.append(make("p", { class: "words", text: item.text }));
  cell.append(make("p", {}, ...pairOf(item, classes)), make("p", { class: `state-${item.state}`, text: stateText(item, classes) }));
  if (marked) cell.append(make("p", { text: "☑ marked" }));
  return cell;
}

const interval = (share) => (share.value === null ? "–" : `${percent(share.value)} (${percent(share.low)} to ${percent(share.high)})`);

function table(caption, head, rows) {
  const body = make("table", {}, make("caption", { text: caption }), make("tr", {}, ...head.map((text) => make("th", { scope: "col", text }))));
  for (const row of rows) body.append(make("tr", {}, ...row.map((cell) => make("td", {}, ...[cell].flat()))));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, body);
}

export function sheet(stats, classes, meta, on) {
  const box = make("div", { id: "sheet", tabindex: "-1", "aria-label": "Sheet" });
  const n = stats.counts;
  box.append(make("h2", { text: "So far" }), table("Suspects by state", ["state", "rows"],
    Object.entries(n).map(([state, count]) => [STATES[state][1], String(count)])));
  const share = `Really wrong: ${interval(stats.all)} of ${stats.all.of} checked (95 % interval).`;
  box.append(make("p", { id: "share", text: stats.all.of ? share : "Nothing is checked yet." }));
  if (stats.may_stop) {
    box.append(make("p", { class: "stop", id: "may-stop",
      text: `You may stop: of the last ${stats.last.of} labels, at most ${percent(stats.last.high)} were wrong.` }));
  }
  if (stats.sample) {
    const found = stats.sample;
    box.append(make("h2", { text: "Blind sample" }), table("What the blind sample says, with 95 % intervals", ["", "estimate"], [
      ["Precision of the list", interval(found.precision)],
      ["Share of wrong labels that the list misses", interval(found.missed)],
      ["Noise rate of all labels", interval(found.noise_rate)],
      ["Rows judged", String(found.decided)],
      ["Trusted test rows", String(found.trusted)]]));
  }
  box.append(make("h2", { text: "Files" }), make("p", {},
    make("button", { type: "button", id: "export", class: "main", text: "Write corrected table and labels", on: { click: on.export } }), " ",
    make("a", { href: "/api/export.csv", download: "corrections.csv", text: "corrections.csv" }), " ",
    make("a", { href: "/api/export.jsonl", download: "corrections.jsonl", text: "corrections.jsonl" }), " ",
    make("button", { type: "button", id: "quit", text: "Write files and end", on: { click: on.quit } })),
    make("ul", { id: "files" }));
  if (stats.pairs.length) {
    box.append(table("Really wrong, by pair", ["given → suggested", "checked", "wrong", "share (95 %)"], stats.pairs.map((p) =>
      [pairOf(p, classes), String(p.of), String(p.count), interval(p)])));
  }
  if (stats.deciles.length) {
    box.append(table("Really wrong, by quality", ["quality", "rows", "checked", "share (95 %)"], stats.deciles.map((d) =>
      [`${d.quality_low.toFixed(3)} to ${d.quality_high.toFixed(3)}`, String(d.rows), String(d.of), interval(d)])));
  }
  return box;
}
