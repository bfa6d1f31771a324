// Where the reader is, in the URL fragment: reload and Back keep the place.
export function read() {
  const found = new URLSearchParams(location.hash.slice(1));
  let filter = {};
  try { filter = JSON.parse(found.get("f") || "{}"); } catch { filter = {}; }
  const row = found.get("row");
  return { view: found.get("view"), filter, sort: found.get("sort"), row: row === null ? null : Number(row) };
}

export function write(state, push = false) {
  const found = new URLSearchParams();
  found.set("view", state.view);
  if (Object.keys(state.filter).length) found.set("f", JSON.stringify(state.filter));
  if (state.sort) found.set("sort", state.sort);
  if (state.row !== null && state.row !== undefined) found.set("row", state.row);
  const hash = `#${found}`;
  if (hash === location.hash) return;
  history[push ? "pushState" : "replaceState"](null, "", hash);
}
