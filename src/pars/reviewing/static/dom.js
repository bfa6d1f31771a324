// Elements are made one by one: everything that comes from data is text, never markup.
export const $ = (id) => document.getElementById(id);

export function make(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") node.textContent = value;
    else if (name === "class") node.className = value;
    else if (name === "on") for (const [event, work] of Object.entries(value)) node.addEventListener(event, work);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child) node.append(child);
  return node;
}

// A name between other words: one that is written from right to left does not turn them around.
export const named = (text) => make("bdi", { text });

export const STATES = {
  undecided: ["○", "undecided"], keep: ["✓", "kept"], accept: ["→", "accepted"], relabel: ["✎", "relabeled"],
  drop: ["✕", "dropped"], skip: ["…", "skipped"], decided: ["●", "decided"],
};

export function stateText(item, classes) {
  const [icon, word] = STATES[item.state];
  const label = item.state === "relabel" || item.state === "accept" ? ` as ${classes[item.label]}` : "";
  return `${icon} ${word}${label}`;
}

export const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)} %`);

export function say(words) {
  $("live").textContent = words;
}
