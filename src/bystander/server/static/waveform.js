// The picture of a clip: waveform, lanes with boundaries to drag, words, and the region that is looped.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const SHORTEST_S = 0.01;
const KINDS = { primary: "primary", third_party: "third" };
export const SPEAKERS = { primary: "Primary speaker", third_party: "Third party" };

const byId = (id) => document.getElementById(id);
const roundMs = (time) => Math.round(time * 1000) / 1000;

function make(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

export class Waveform {
  // `listener` has onBoundary(boundaries, isLast), onChoose(), onSeek(time), onRegion(region) and onWord(word).
  constructor(listener) {
    this.listener = listener;
    this.picture = byId("picture");
    this.region = null;
    this.#listenToPicture();
  }

  show(row, segments, breakTime) {
    this.row = row;
    this.region = null;
    this.chosen = -1;
    this.#drawPeaks(row.peaks);
    this.#drawSeconds();
    this.update(segments, breakTime);
    this.#drawWords();
    this.setCursor(0);
    this.#drawRegion();
  }

  // Shows other boundaries of the same row. `breakTime` is null where there is none.
  update(segments, breakTime) {
    this.segments = segments.map((segment) => ({ ...segment }));
    this.breakTime = breakTime;
    this.boundaries = this.segments.flatMap((segment, at) => [
      { at, edge: "start_s", name: `${SPEAKERS[segment.speaker] ?? segment.speaker} starts` },
      { at, edge: "end_s", name: `${SPEAKERS[segment.speaker] ?? segment.speaker} ends` },
    ]);
    if (breakTime !== null) this.boundaries.push({ edge: "break", name: "Break" });
    if (this.chosen >= this.boundaries.length) this.chosen = -1;
    this.#drawLanes();
  }

  setCursor(time) {
    byId("cursor").style.left = this.#percent(time);
  }

  get chosenName() {
    const boundary = this.boundaries[this.chosen];
    return boundary ? `${boundary.name} at ${this.#read(boundary).toFixed(3)} s` : "";
  }

  choose(step) {
    if (!this.boundaries.length) return;
    const from = this.chosen < 0 && step < 0 ? 0 : this.chosen;
    this.#chooseAt((from + step + this.boundaries.length) % this.boundaries.length);
  }

  nudge(seconds) {
    if (this.chosen < 0) this.choose(1);
    const boundary = this.boundaries[this.chosen];
    if (boundary) this.#move(boundary, this.#read(boundary) + seconds, true);
  }

  setRegion(region) {
    this.region = region;
    this.#drawRegion();
  }

  #chooseAt(at) {
    this.chosen = at;
    for (const [other, handle] of this.handles.entries()) handle.classList.toggle("chosen", other === at);
    this.#drawGuide();
    this.listener.onChoose();
  }

  #percent(time) {
    return `${(100 * Math.min(Math.max(time, 0), this.row.duration_s)) / this.row.duration_s}%`;
  }

  #timeAt(event) {
    const box = this.picture.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * this.row.duration_s;
  }

  #read(boundary) {
    return boundary.edge === "break" ? this.breakTime : this.segments[boundary.at][boundary.edge];
  }

  #move(boundary, time, isLast) {
    let lowest = 0, highest = this.row.duration_s;
    if (boundary.edge === "start_s") highest = this.segments[boundary.at].end_s - SHORTEST_S;
    if (boundary.edge === "end_s") lowest = this.segments[boundary.at].start_s + SHORTEST_S;
    const moved = roundMs(Math.min(Math.max(time, lowest), highest));
    if (boundary.edge === "break") this.breakTime = Math.min(moved, this.row.duration_s);
    else this.segments[boundary.at][boundary.edge] = Math.min(moved, this.row.duration_s);
    this.#placeLanes();
    this.listener.onBoundary({ segments: this.segments.map((s) => ({ ...s })), breakTime: this.breakTime }, isLast);
    this.listener.onChoose();
  }

  #drawPeaks(peaks) {
    const upper = peaks.map(([, high], x) => `${x},${100 - high}`);
    const lower = peaks.map(([low], x) => `${x},${101 - low}`).reverse();
    const outline = `M${[...upper, ...lower].join("L")}Z`;
    const svg = byId("peaks");
    svg.setAttribute("viewBox", `0 0 ${Math.max(peaks.length - 1, 1)} 201`);
    svg.setAttribute("aria-label", `Waveform, ${this.row.duration_s.toFixed(2)} s`);
    svg.replaceChildren();
    this.outline = outline;
    this.width = Math.max(peaks.length - 1, 1);
  }

  // Draws the outline once for nobody, and once for each speaker, cut to where they speak.
  #colour() {
    const svg = byId("peaks");
    svg.replaceChildren();
    const stretches = this.segments.map((s) => [KINDS[s.speaker] ?? "third", s.start_s, s.end_s]);
    if (this.breakTime !== null) stretches.push(["third", this.breakTime, this.row.duration_s]);
    const draw = (kind, clip) => {
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("d", this.outline);
      path.setAttribute("class", kind);
      if (clip) path.setAttribute("clip-path", `url(#${clip})`);
      svg.append(path);
    };
    draw(this.row.words.length && !this.segments.length ? "primary" : "nobody", "");
    for (const [number, [kind, start, end]] of stretches.entries()) {
      const clip = document.createElementNS(SVG, "clipPath"), box = document.createElementNS(SVG, "rect");
      clip.id = `stretch-${number}`;
      const scale = this.width / this.row.duration_s;
      box.setAttribute("x", start * scale);
      box.setAttribute("width", Math.max(end - start, 0) * scale);
      box.setAttribute("height", 201);
      clip.append(box);
      svg.append(clip);
      draw(`${kind}${number ? " over" : ""}`, clip.id);
    }
  }

  #drawSeconds() {
    const step = [0.5, 1, 2, 5, 10, 30, 60, 600].find((one) => this.row.duration_s / one <= 8) ?? 600;
    const ticks = [];
    for (let time = 0; time < 0.96 * this.row.duration_s; time += step) {
      const tick = make("span", "", `${time} s`);
      tick.style.left = this.#percent(time);
      ticks.push(tick);
    }
    byId("seconds").replaceChildren(...ticks);
  }

  #drawLanes() {
    const lanes = new Map();
    this.handles = [];
    this.bars = [];
    const laneOf = (key, title) => {
      if (!lanes.has(key)) {
        const lane = make("div", "lane");
        lane.append(make("span", "lane-name", title));
        lanes.set(key, lane);
      }
      return lanes.get(key);
    };
    for (const [at, segment] of this.segments.entries()) {
      const lane = laneOf(segment.speaker, SPEAKERS[segment.speaker] ?? segment.speaker);
      this.bars[at] = make("span", `bar ${KINDS[segment.speaker] ?? "third"}`);
      lane.append(this.bars[at]);
    }
    if (this.row.context) {
      const bar = make("span", "bar other");
      bar.style.left = this.#percent(this.row.context.start_s);
      bar.style.width = this.#percent(this.row.context.end_s - this.row.context.start_s);
      laneOf("context", "Assistant").append(bar);
    }
    for (const boundary of this.boundaries) {
      const segment = this.segments[boundary.at];
      const lane = segment ? laneOf(segment.speaker) : laneOf("break", "Break");
      const handle = this.#makeHandle(boundary, KINDS[segment?.speaker] ?? "third");
      this.handles.push(handle);
      lane.append(handle);
    }
    byId("lanes").replaceChildren(...lanes.values());
    this.#placeLanes();
  }

  #makeHandle(boundary, kind) {
    const handle = make("button", `handle ${kind} ${boundary.edge}`);
    handle.type = "button";
    handle.setAttribute("role", "slider");
    handle.setAttribute("aria-label", boundary.name);
    handle.setAttribute("aria-valuemin", "0");
    handle.setAttribute("aria-valuemax", this.row.duration_s.toFixed(3));
    const at = this.handles.length;
    handle.addEventListener("focus", () => this.#chooseAt(at));
    handle.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -0.01, ArrowRight: 0.01 }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      this.#move(boundary, this.#read(boundary) + step * (event.shiftKey ? 10 : 1), true);
    });
    handle.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      handle.focus();
      handle.setPointerCapture(event.pointerId);
      let hasMoved = false;
      const drag = (moving) => {
        hasMoved = true;
        this.#move(boundary, this.#timeAt(moving), false);
      };
      const drop = () => {
        handle.removeEventListener("pointermove", drag);
        if (hasMoved) this.#move(boundary, this.#read(boundary), true);
      };
      handle.addEventListener("pointermove", drag);
      handle.addEventListener("lostpointercapture", drop, { once: true });
    });
    return handle;
  }

  #placeLanes() {
    for (const [at, segment] of this.segments.entries()) {
      this.bars[at].style.left = this.#percent(segment.start_s);
      this.bars[at].style.width = this.#percent(segment.end_s - segment.start_s);
    }
    for (const [at, boundary] of this.boundaries.entries()) {
      const time = this.#read(boundary);
      this.handles[at].style.left = this.#percent(time);
      this.handles[at].setAttribute("aria-valuenow", time.toFixed(3));
      this.handles[at].setAttribute("aria-valuetext", `${time.toFixed(3)} seconds`);
      this.handles[at].classList.toggle("chosen", at === this.chosen);
    }
    this.#colour();
    this.#drawGuide();
  }

  #drawGuide() {
    for (const old of this.picture.querySelectorAll(".guide")) old.remove();
    const shown = this.boundaries[this.chosen];
    for (const boundary of this.boundaries.filter((one) => one === shown || one.edge === "break")) {
      const guide = make("span", `guide${boundary === shown ? " chosen" : ""}`);
      guide.style.left = this.#percent(this.#read(boundary));
      this.picture.append(guide);
    }
  }

  #drawWords() {
    const labels = this.row.words.map((word) => {
      const label = make("button", "word", word.word);
      label.type = "button";
      label.title = `${word.word}, ${word.start_s.toFixed(2)} to ${word.end_s.toFixed(2)} s`;
      label.style.left = this.#percent(word.start_s);
      label.style.width = this.#percent(word.end_s - word.start_s);
      label.addEventListener("click", () => this.listener.onWord(word));
      return label;
    });
    byId("words").replaceChildren(...labels);
    byId("words").hidden = !labels.length;
  }

  #drawRegion() {
    const mark = byId("region");
    mark.hidden = this.region === null;
    if (this.region === null) return;
    mark.style.left = this.#percent(this.region.start);
    mark.style.width = this.#percent(this.region.end - this.region.start);
  }

  // A click seeks, dragging marks a region.
  #listenToPicture() {
    this.picture.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !this.row) return;
      const from = this.#timeAt(event), x = event.clientX;
      let isDragged = false;
      this.picture.setPointerCapture(event.pointerId);
      const drag = (moving) => {
        isDragged ||= Math.abs(moving.clientX - x) > 4;
        if (!isDragged) return;
        const to = this.#timeAt(moving);
        this.setRegion({ start: Math.min(from, to), end: Math.max(from, to) });
      };
      this.picture.addEventListener("pointermove", drag);
      this.picture.addEventListener("lostpointercapture", () => {
        this.picture.removeEventListener("pointermove", drag);
        if (isDragged) this.listener.onRegion(this.region);
        else this.listener.onSeek(from);
      }, { once: true });
    });
  }
}
