"use strict";
// Filters the articles of a listening page where all of them are on it, and moves and plays by keys.
(() => {
  const items = [...document.querySelectorAll("[data-item]")];
  const form = document.getElementById("filters");
  const filtersHere = form !== null && !form.hasAttribute("method");
  const playOnMove = document.getElementById("play-on-move");
  let here = null;

  const isShown = (item) => !item.hidden;
  const players = (item) => [...item.querySelectorAll("audio")];

  function mark(item) {
    if (here !== null) here.classList.remove("here");
    here = item;
    if (here !== null) here.classList.add("here");
  }

  function stopAll(but) {
    for (const audio of document.querySelectorAll("audio")) if (audio !== but) audio.pause();
  }

  function play(audio) {
    const started = audio.play();
    if (started !== undefined) started.catch(() => {});
  }

  function move(step) {
    const shown = items.filter(isShown);
    if (shown.length === 0) return;
    const at = here === null || here.hidden ? (step > 0 ? -1 : shown.length) : shown.indexOf(here);
    const next = at + step;
    if (next < 0 || next >= shown.length) {
      const link = document.querySelector(step > 0 ? 'a[rel="next"]' : 'a[rel="prev"]');
      if (link !== null) link.click();
      return;
    }
    stopAll(null);
    mark(shown[next]);
    here.focus({ preventScroll: true });
    here.scrollIntoView({ block: "start" });
    const first = players(here)[0];
    if (playOnMove !== null && playOnMove.checked && first !== undefined) {
      first.currentTime = 0;
      play(first);
    }
  }

  function toggle() {
    const item = here !== null && !here.hidden ? here : items.find(isShown);
    if (item === undefined) return;
    mark(item);
    const own = players(item);
    const sounding = own.find((audio) => !audio.paused);
    if (sounding !== undefined) {
      sounding.pause();
      return;
    }
    // A pause in the middle goes on where it was; else the first sound of the item begins.
    const begun = own.find((audio) => audio.currentTime > 0 && !audio.ended);
    const chosen = begun !== undefined ? begun : own[0];
    if (chosen !== undefined) play(chosen);
  }

  function filter() {
    const wanted = [...form.querySelectorAll("select")].filter((menu) => menu.value !== "");
    const words = form.elements.q.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    let shown = 0;
    for (const item of items) {
      const fits =
        wanted.every((menu) => item.getAttribute("data-" + menu.name.replaceAll("_", "-")) === menu.value) &&
        words.every((word) => item.getAttribute("data-find").includes(word));
      item.hidden = !fits;
      if (fits) shown += 1;
      else players(item).forEach((audio) => audio.pause());
    }
    form.querySelector(".shown").textContent = shown + " of " + items.length + " shown";
  }

  document.addEventListener("play", (event) => {
    if (event.target.paused) return; // it was left again before this was told, and another may sound by now
    stopAll(event.target);
    mark(event.target.closest("[data-item]"));
  }, true);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input[type=search], input[type=text], select, textarea");
    if (typing !== null) {
      if (event.key === "Escape") typing.blur();
      return;
    }
    const search = form === null ? null : form.elements.q;
    if (event.key === "j" || event.key === "J") move(1);
    else if (event.key === "k" || event.key === "K") move(-1);
    else if (event.key === " " && event.target.closest("button, a, summary, input, audio") === null) toggle();
    else if (event.key === "/" && search) search.focus();
    else return;
    event.preventDefault();
  });
  if (form !== null && !filtersHere) {
    // Fields without a value would only make the address long.
    form.addEventListener("submit", () => {
      for (const field of form.querySelectorAll("select, input[name]")) field.disabled = field.value === "";
    });
    window.addEventListener("pageshow", () => {
      for (const field of form.querySelectorAll("select, input[name]")) field.disabled = false;
    });
    form.addEventListener("change", (event) => {
      if (event.target.matches("select")) form.requestSubmit();
    });
  }
  if (form !== null && filtersHere) {
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", filter);
    form.addEventListener("change", filter);
    filter(); // what the browser has kept of the last visit
  }
})();
