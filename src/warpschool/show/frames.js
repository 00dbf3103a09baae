(() => {
  const quiet = matchMedia("(prefers-reduced-motion: reduce)");
  for (const box of document.querySelectorAll(".frames:not([data-ready])")) {
    const controls = box.querySelector(":scope > .controls");
    if (!controls) continue;
    box.dataset.ready = "yes";
    const frames = [...box.querySelectorAll(":scope > .frame")];
    const button = (name) => controls.querySelector(`[data-do="${name}"]`);
    const place = controls.querySelector(".place");
    let now = 0, timer = 0;
    const show = (number, said) => {
      frames[now].hidden = true;
      now = (number + frames.length) % frames.length;
      frames[now].hidden = false;
      place.setAttribute("aria-live", said ? "polite" : "off");
      place.textContent = `${now + 1} of ${frames.length}`;
    };
    const stop = () => {
      clearInterval(timer);
      timer = 0;
      button("play").textContent = "▸ Play";
    };
    const step = () => {
      if (!box.isConnected || now === frames.length - 1) stop();
      else show(now + 1, false);
    };
    const play = () => {
      if (timer) return stop();
      if (now === frames.length - 1) show(0, false);
      timer = setInterval(step, 900);
      button("play").textContent = "❚❚ Pause";
    };
    const actions = {
      first: () => { stop(); show(0, true); },
      back: () => { stop(); show(now - 1, true); },
      next: () => { stop(); show(now + 1, true); },
      play,
    };
    controls.addEventListener("click", (event) => actions[event.target.dataset?.do]?.());
    const respect = () => { stop(); button("play").hidden = quiet.matches; };
    quiet.addEventListener("change", respect);
    show(0, false);
    respect();
    controls.hidden = false;
  }
})();
