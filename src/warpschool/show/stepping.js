// Steps through a recording: the buttons and arrow keys move, everything is in the page.
(function (root) {
  const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
  const part = (name) => root.querySelector("[data-part='" + name + "']");
  const states = [];
  let state = {};
  for (const step of data.steps) {
    state = Object.assign({}, state, step.set);
    for (const name of step.gone) delete state[name];
    states.push(state);
  }
  let at = 0;
  function cell(tag, text, kind) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }
  function show() {
    const step = data.steps[at];
    root.querySelectorAll("tr[data-line]").forEach((row) => {
      const here = Number(row.dataset.line) === step.line;
      row.classList.toggle("here", here);
      row.querySelector("[data-mark]").textContent = here ? "▸" : "";
    });
    part("status").textContent = step.said;
    part("lanes").textContent = step.lanes;
    const body = part("variables");
    body.replaceChildren();
    for (const [name, entry] of Object.entries(states[at])) {
      const row = document.createElement("tr");
      const head = cell("th", (name in step.set ? "● " : "") + name + " (" + entry[0] + ")");
      head.scope = "row";
      row.append(head);
      if (entry[1].length === 1) {
        const all = cell("td", entry[1][0] + " in every lane", "wide");
        all.colSpan = 32;
        row.append(all);
      } else {
        entry[1].forEach((text, lane) => row.append(cell("td", text, step.on[lane] === "1" ? "" : "off")));
      }
      body.append(row);
    }
  }
  function go(target) {
    at = Math.max(0, Math.min(data.steps.length - 1, target));
    show();
  }
  function sameLine(direction) {
    const line = data.steps[at].line;
    for (let n = at + direction; n >= 0 && n < data.steps.length; n += direction)
      if (data.steps[n].line === line) return n;
    return at;
  }
  const moves = {
    first: () => go(0), back: () => go(at - 1), step: () => go(at + 1), last: () => go(data.steps.length - 1),
    before: () => go(sameLine(-1)), again: () => go(sameLine(1)),
  };
  root.querySelectorAll("button[data-move]").forEach((b) => b.addEventListener("click", moves[b.dataset.move]));
  root.querySelectorAll("tr[data-line] button").forEach((b) => b.addEventListener("click", () => {
    const line = Number(b.closest("tr").dataset.line);
    const later = data.steps.findIndex((s, n) => n > at && s.line === line);
    go(later >= 0 ? later : data.steps.findIndex((s) => s.line === line));
  }));
  part("panel").addEventListener("keydown", (event) => {
    const keys = { ArrowRight: "step", ArrowLeft: "back", ArrowDown: "again", ArrowUp: "before", Home: "first", End: "last" };
    if (!(event.key in keys)) return;
    moves[keys[event.key]]();
    event.preventDefault();
    event.stopPropagation();
  });
  part("panel").hidden = false;
  show();
})(document.getElementById("__ID__"));
