// Keys: letters by what they print, so that they are mnemonic on every layout; digits by their place, because AZERTY
// digits need Shift. Backspace and Enter decide nothing.
import { $ } from "./dom.js";

export const HELP = [
  ["a", "accept the suggestion, next"], ["k", "keep the given label, next"], ["1 … 9, 0", "n-th most likely class, next"],
  ["/", "find a class by name, Enter takes it"], ["x", "no class fits: drop"], ["s or Space", "skip, stays undecided"],
  ["u, Ctrl+Z", "undo"], ["U, Ctrl+Shift+Z", "redo"], ["← → ↑ ↓, Home, End, PgUp, PgDn", "move; never decides"],
  ["v", "one by one ↔ grid"], ["m, Shift+arrows", "mark, mark a range"], ["Ctrl+A, again", "mark the page, then all that match"],
  ["n", "next undecided"], ["g", "go to row"], ["i", "sheet: counts, intervals, files"], ["?", "this help"],
  ["Esc", "close, clear marks"],
];

const SWITCH = "pars-review-shortcuts";

export function shortcutsOn() {
  return $("shortcuts").checked;
}

export function start(actions) {
  $("shortcuts").checked = localStorage.getItem(SWITCH) !== "off";
  $("shortcuts").addEventListener("change", () => localStorage.setItem(SWITCH, shortcutsOn() ? "on" : "off"));
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]") || event.isComposing || event.altKey) return;
    const on = event.target.closest("input, select, textarea") && event.target.type !== "checkbox";
    if (on) return;
    const work = find(event, actions);
    if (work && shortcutsOn()) { event.preventDefault(); work(); }
  });
}

function find(event, actions) {
  const { key, code } = event;
  const control = event.ctrlKey || event.metaKey;
  if (control) {
    if (key.toLowerCase() === "z") return event.shiftKey ? actions.redo : actions.undo;
    if (key.toLowerCase() === "a" && !event.shiftKey) return actions.markAll;
    return null;
  }
  const digit = /^(?:Digit|Numpad)([0-9])$/.exec(code);
  if (digit) return () => actions.digit((Number(digit[1]) + 9) % 10);
  if (key === " " && event.target.closest("button, summary, a, input")) return null;
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (key in moves) return () => actions.move(...moves[key], event.shiftKey);
  const others = {
    a: actions.accept, k: actions.keep, x: actions.drop, s: actions.skip, " ": actions.skip, u: actions.undo, U: actions.redo,
    v: actions.toggleView, m: actions.mark, n: actions.nextUndecided, g: actions.go, i: actions.sheet, "?": actions.help,
    "/": actions.find, Escape: actions.escape, Home: actions.first, End: actions.last, PageUp: actions.pageUp, PageDown: actions.pageDown,
  };
  return Object.hasOwn(others, key) ? others[key] : null;
}
