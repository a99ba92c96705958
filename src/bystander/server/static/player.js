// Plays a clip, a region of it over and over if asked, at a speed.
"use strict";

const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 2];
const byId = (id) => document.getElementById(id);

export class Player {
  constructor(waveform) {
    this.waveform = waveform;
    this.audio = byId("audio");
    this.isLooping = false;
    this.duration = 0;
    byId("play").addEventListener("click", () => this.toggle());
    byId("loop").addEventListener("click", () => this.setLooping(!this.isLooping));
    byId("speed").addEventListener("change", () => this.#setSpeed());
    for (const name of ["play", "pause", "ended"]) this.audio.addEventListener(name, () => this.#onState());
    this.audio.addEventListener("seeked", () => this.#showTime());
  }

  load(row, playsAtOnce) {
    this.duration = row.duration_s;
    this.audio.src = `/api/clips/${encodeURIComponent(row.id)}`;
    this.#setSpeed();
    this.setLooping(this.isLooping);
    this.#showTime();
    if (playsAtOnce) this.#play();
  }

  toggle() {
    if (this.audio.paused) this.#play();
    else this.audio.pause();
  }

  seek(time) {
    this.audio.currentTime = time;
    this.#showTime();
  }

  playRegion(region) {
    this.setLooping(true);
    this.seek(region.start);
    this.#play();
  }

  setLooping(isLooping) {
    this.isLooping = isLooping;
    this.audio.loop = isLooping && !this.waveform.region;
    byId("loop").setAttribute("aria-pressed", String(isLooping));
  }

  changeSpeed(step) {
    const select = byId("speed");
    select.selectedIndex = Math.min(Math.max(select.selectedIndex + step, 0), SPEEDS.length - 1);
    this.#setSpeed();
  }

  #play() {
    const region = this.isLooping ? this.waveform.region : null;
    if (region && (this.audio.currentTime < region.start || this.audio.currentTime >= region.end)) {
      this.audio.currentTime = region.start;
    }
    this.audio.play().catch(() => { /* a browser that wants a click first */ });
  }

  #setSpeed() {
    this.audio.playbackRate = Number(byId("speed").value);
  }

  #onState() {
    byId("play").firstChild.textContent = this.audio.paused ? "Play " : "Pause ";
    if (!this.audio.paused) requestAnimationFrame(() => this.#follow());
  }

  #follow() {
    const region = this.isLooping ? this.waveform.region : null;
    if (region && this.audio.currentTime >= region.end) this.audio.currentTime = region.start;
    this.#showTime();
    if (!this.audio.paused) requestAnimationFrame(() => this.#follow());
  }

  #showTime() {
    this.waveform.setCursor(this.audio.currentTime);
    byId("clock").textContent = `${this.audio.currentTime.toFixed(2)} / ${this.duration.toFixed(2)} s`;
  }
}
