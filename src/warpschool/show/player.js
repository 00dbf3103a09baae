// The one player: buttons, arrow keys, Home and End go from picture to picture; Play is for those who want motion.
window.warpschoolPlayer ??= (box, controls, count, draw) => {
  const quiet = matchMedia("(prefers-reduced-motion: reduce)");
  const button = (name) => controls.querySelector(`[data-do="${name}"]`);
  const place = controls.querySelector(".place");
  let now = 0, timer = 0;
  const show = (number, said) => {
    now = Math.max(0, Math.min(count - 1, number));
    place.setAttribute("aria-live", said ? "polite" : "off");
    place.textContent = `${now + 1} of ${count}`;
    draw(now);
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    button("play").textContent = "▸ Play";
  };
  const go = (number) => { stop(); show(number, true); };
  const step = () => {
    if (!box.isConnected || now === count - 1) stop();
    else show(now + 1, false);
  };
  const actions = {
    first: () => go(0),
    back: () => go(now - 1),
    next: () => go(now + 1),
    last: () => go(count - 1),
    play: () => {
      if (timer) return stop();
      if (now === count - 1) show(0, false);
      timer = setInterval(step, 900);
      button("play").textContent = "❚❚ Pause";
    },
  };
  const keys = { ArrowLeft: "back", ArrowRight: "next", Home: "first", End: "last" };
  controls.addEventListener("click", (event) => actions[event.target.dataset?.do]?.());
  box.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !(event.key in keys)) return;
    actions[keys[event.key]]();
    event.preventDefault();
    event.stopPropagation();
  });
  const respect = () => { stop(); button("play").hidden = quiet.matches; };
  quiet.addEventListener("change", respect);
  show(0, false);
  respect();
  controls.hidden = false;
  return { go, at: () => now };
};
for (const box of document.querySelectorAll(".frames:not([data-ready])")) {
  const controls = box.querySelector(":scope > .controls");
  if (!controls) continue;
  box.dataset.ready = "yes";
  const frames = [...box.querySelectorAll(":scope > .frame")];
  window.warpschoolPlayer(box, controls, frames.length, (now) => frames.forEach((frame, n) => { frame.hidden = n !== now; }));
}
