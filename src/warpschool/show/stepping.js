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
  function cell(tag, text, kind) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }
  function show(at) {
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
  const player = window.warpschoolPlayer(part("panel"), part("panel").querySelector(".controls"), states.length, show);
  function sameLine(direction) {
    const at = player.at(), line = data.steps[at].line;
    for (let n = at + direction; n >= 0 && n < data.steps.length; n += direction)
      if (data.steps[n].line === line) return player.go(n);
  }
  const moves = { before: () => sameLine(-1), again: () => sameLine(1) };
  root.querySelectorAll("button[data-move]").forEach((b) => b.addEventListener("click", moves[b.dataset.move]));
  root.querySelectorAll("tr[data-line] button").forEach((b) => b.addEventListener("click", () => {
    const line = Number(b.closest("tr").dataset.line);
    const later = data.steps.findIndex((s, n) => n > player.at() && s.line === line);
    player.go(later >= 0 ? later : data.steps.findIndex((s) => s.line === line));
  }));
  part("panel").addEventListener("keydown", (event) => {
    const keys = { ArrowDown: "again", ArrowUp: "before" };
    if (!(event.key in keys)) return;
    moves[keys[event.key]]();
    event.preventDefault();
    event.stopPropagation();
  });
  part("panel").hidden = false;
})(document.getElementById("__ID__"));
