// The review page: one row at a time, every change sent as it is made.
"use strict";

import { Outbox } from "./outbox.js";
import { Player } from "./player.js";
import { getJson } from "./requests.js";
import { RowList } from "./row_list.js";
import { Waveform } from "./waveform.js";

const BREAK = "<break>";
const byId = (id) => document.getElementById(id);
const isEqual = (one, other) => JSON.stringify(one) === JSON.stringify(other);

const state = { rows: [], reviews: {}, others: null, row: null, undo: [] };
let outbox, list, waveform, player;

// ---- what is known and changed ----

function review(rowId = state.row?.id) {
  return state.reviews[rowId] ?? {};
}

function apply(rowId, changes) {
  const changed = { ...review(rowId) };
  for (const [field, value] of Object.entries(changes)) {
    if (value === null) delete changed[field];
    else changed[field] = value;
  }
  state.reviews[rowId] = changed;
}

// Makes a change of the row that is open. Changes with the same `group` in a row are undone together.
function change(changes, group = "") {
  const rowId = state.row.id, old = review();
  const before = Object.fromEntries(Object.keys(changes).map((field) => [field, old[field] ?? null]));
  if (isEqual(before, changes)) return;
  const last = state.undo.at(-1);
  if (!group || last?.group !== group || last.rowId !== rowId) state.undo.push({ rowId, before, group });
  send(rowId, changes, group !== "");
}

function send(rowId, changes, merge = false) {
  apply(rowId, changes);
  outbox.add(rowId, changes, merge);
  byId("undo").disabled = !state.undo.length;
  list.draw(state.row.id);
}

async function undo() {
  const last = state.undo.pop();
  if (!last) return;
  if (last.rowId !== state.row.id) await open(last.rowId);
  send(last.rowId, last.before);
  showReview();
}

function shownSegments() {
  return review().segments ?? state.row.segments;
}

function shownBreak() {
  const time = review().break_time_s ?? state.row.break_time_s;
  const text = review().text_with_break ?? ownText("text_with_break");
  return time !== null && text?.includes(BREAK) ? time : null;
}

function ownText(field) {
  return state.row.texts.find((one) => one.field === field)?.text ?? null;
}

const orOwn = (value, own) => (isEqual(value, own) ? null : value);

// ---- verdicts ----

function accept() {
  change({ verdict: "accept", reason: null });
  showReview();
  goOn();
}

function reject() {
  if (review().verdict !== "reject") change({ verdict: "reject", reason: null });
  showReview();
  byId("reasons").querySelector("button")?.focus({ preventScroll: true });
}

function giveReason(number) {
  const reason = state.reasons[number];
  if (!reason || review().verdict !== "reject") return;
  change({ reason: reason.key });
  showReview();
  goOn();
}

function goOn() {
  if (!byId("go-on").checked) return;
  const next = list.find(state.row.id, 1);
  if (next) open(next);
}

// Quick steps count even while a row is still on its way; verdicts are always about the row that is seen.
function step(by) {
  const next = list.find(state.opening ?? state.row.id, by);
  if (next) open(next);
}

// ---- boundaries, break and texts ----

function moveBoundary(boundaries, isLast) {
  if (!isLast) return;
  if (state.row.break_time_s === null) change({ segments: orOwn(boundaries.segments, state.row.segments) });
  else change({ break_time_s: orOwn(boundaries.breakTime, state.row.break_time_s) });
}

// Puts the break before a word, or takes it away where there is none to be.
function placeBreak(word) {
  const own = ownText("text_with_break"), tagged = review().text_with_break ?? own;
  const isOwn = withoutSpace(tagged.replace(BREAK, "")) === withoutSpace(state.row.text);
  const text = isOwn ? state.row.text : tagged.replace(BREAK, "");
  const time = word ? Math.round(word.start_s * 1000) / 1000 : state.row.duration_s;
  const changes = { break_time_s: orOwn(time, state.row.break_time_s) };
  // In a text that was rewritten nobody knows where the word is: there the break is moved in the text by hand.
  if (!word || (isOwn && word.at !== null)) {
    const placed = word ? text.slice(0, word.at) + BREAK + text.slice(word.at) : text;
    changes.text_with_break = withoutSpace(placed) === withoutSpace(own) ? null : placed;
  }
  change(changes);
  showReview();
}

function withoutSpace(text) {
  return text.replace(/\s+/gu, "");
}

function editText(field, area) {
  const fault = field !== "text_with_break" || area.value.split(BREAK).length < 3 ? "" : "One break at most.";
  area.setCustomValidity(fault);
  area.reportValidity();
  if (fault) return;
  const value = area.value.trim() ? area.value : null;
  change({ [field]: orOwn(value, ownText(field)) }, field);
  area.classList.toggle("edited", review()[field] !== undefined);
  if (field === "text_with_break") waveform.update(state.row.segments, shownBreak());
}

// ---- what is shown ----

async function open(rowId) {
  state.opening = rowId;
  let row;
  try {
    row = await getJson(`/api/rows/${encodeURIComponent(rowId)}`);
  } catch (error) {
    if (state.opening === rowId) state.opening = null;
    byId("saving").textContent = `Row ${rowId}: ${error.message}`;
    return;
  }
  if (state.opening !== rowId) return; // another was asked for meanwhile
  state.opening = null;
  state.row = row;
  history.replaceState(null, "", `#${encodeURIComponent(rowId)}`);
  remember("row", rowId);
  byId("sheet").hidden = false;
  byId("nothing").hidden = true;
  byId("row-id").textContent = row.id;
  const listed = state.rows.find((one) => one.id === rowId);
  const chips = [listed.label, listed.scenario, listed.language, listed.split, listed.reject_reason].filter(Boolean);
  byId("chips").replaceChildren(...chips.map((text, at) => makeElement("span", `chip${at ? "" : " label"}`, text)));
  byId("facts").replaceChildren(...row.facts.map(([name, value]) => {
    const pair = makeElement("div", "");
    pair.append(makeElement("dt", "", name), makeElement("dd", "", value));
    return pair;
  }));
  byId("texts").replaceChildren();
  for (const text of row.texts) byId("texts").append(makeTextField(text));
  if (row.break_time_s !== null) byId("texts").append(makeBreakChoice());
  waveform.show(row, shownSegments(), shownBreak());
  player.load(row, byId("play-at-once").checked);
  showBoundary();
  showReview();
  document.documentElement.dataset.row = row.id;
}

function makeElement(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

function makeTextField({ field, title }) {
  const label = makeElement("label", "field", `${title} `), area = document.createElement("textarea");
  area.rows = 2;
  area.maxLength = 2000;
  area.id = field;
  area.addEventListener("input", () => editText(field, area));
  if (!byId("texts").childElementCount) label.append(makeElement("kbd", "", "T"));
  label.append(area);
  return label;
}

function makeBreakChoice() {
  const box = makeElement("div", "break-words");
  box.append(makeElement("span", "soft", "Break before "));
  for (const word of state.row.words) {
    const chip = makeElement("button", "chip", word.word);
    chip.type = "button";
    chip.addEventListener("click", () => placeBreak(word));
    box.append(chip);
  }
  const none = makeElement("button", "chip none", "no break");
  none.type = "button";
  none.addEventListener("click", () => placeBreak(null));
  box.append(none);
  return box;
}

// Shows what was said about the row that is open, wherever nobody is writing.
function showReview() {
  const said = review();
  byId("accept").setAttribute("aria-pressed", String(said.verdict === "accept"));
  byId("reject").setAttribute("aria-pressed", String(said.verdict === "reject"));
  byId("reasons").hidden = said.verdict !== "reject";
  for (const button of byId("reasons").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.dataset.reason === said.reason));
  }
  for (const { field, text } of state.row.texts) {
    byId(field).value = said[field] ?? text;
    byId(field).classList.toggle("edited", said[field] !== undefined);
  }
  byId("note").value = said.note ?? "";
  byId("undo").disabled = !state.undo.length;
  waveform.update(shownSegments(), shownBreak());
  showBreakWord();
  showBoundary();
  showOthers();
  list.draw(state.row.id);
}

function showBreakWord() {
  const text = review().text_with_break ?? ownText("text_with_break");
  const at = text?.indexOf(BREAK) ?? -1;
  const chips = [...document.querySelectorAll(".break-words .chip")];
  for (const [number, chip] of chips.entries()) {
    const isNone = number === chips.length - 1;
    const starts = state.row.words[number]?.at;
    chip.setAttribute("aria-pressed", String(isNone ? at < 0 : starts !== null && starts === at));
  }
}

function showBoundary() {
  byId("boundary").textContent = waveform.chosenName;
}

function showOthers() {
  const others = list.verdictFilter === "others" ? state.others?.[state.row.id] : null;
  byId("others").hidden = !others;
  const entries = Object.entries(others ?? {}).filter(([name]) => name !== state.annotator);
  byId("others").querySelector("ul").replaceChildren(...entries.map(([name, said]) => {
    const item = makeElement("li", ""), edits = { ...said };
    for (const field of ["verdict", "reason", "note"]) delete edits[field];
    const reason = state.reasons.find((one) => one.key === said.reason)?.words;
    item.append(
      makeElement("strong", "", name),
      makeElement("span", `verdict ${said.verdict}`, said.verdict),
      makeElement("span", "", [reason, said.note && `“${said.note}”`, ...Object.entries(edits).map(showEdit)].filter(Boolean).join("; ")),
    );
    return item;
  }));
}

function showEdit([field, value]) {
  if (field !== "segments") return `${field}: ${value}`;
  return value.map((s) => `${s.speaker} ${s.start_s} to ${s.end_s} s`).join(", ");
}

function showSaving(waiting, fault) {
  const words = waiting ? `${waiting} not saved yet` : "All saved";
  byId("saving").textContent = fault ? `${words}: ${fault}` : words;
  byId("saving").classList.toggle("bad", Boolean(fault));
}

async function loadOthers() {
  if (list.verdictFilter !== "others") return;
  state.others = await getJson("/api/others");
}

async function filter() {
  await loadOthers();
  const current = state.rows.find((row) => row.id === state.row?.id);
  const first = current && list.matches(current) ? current.id : state.rows.find((row) => list.matches(row))?.id;
  byId("nothing").hidden = Boolean(first);
  byId("sheet").hidden = !first;
  if (first) await open(first);
  else list.draw(null);
}

// ---- what the browser keeps ----

function remember(name, value) {
  try { localStorage.setItem(`bystander-${name}/${state.place}`, value); } catch { /* then it is not */ }
}

function recall(name) {
  try { return localStorage.getItem(`bystander-${name}/${state.place}`); } catch { return null; }
}

// ---- keys ----

const KEYS = {
  " ": () => player.toggle(),
  a: accept,
  r: reject,
  l: () => player.setLooping(!player.isLooping),
  j: () => step(1),
  k: () => step(-1),
  ArrowLeft: () => step(-1),
  ArrowRight: () => step(1),
  z: undo,
  "[": () => waveform.choose(-1),
  "]": () => waveform.choose(1),
  ",": () => waveform.nudge(-0.01),
  ".": () => waveform.nudge(0.01),
  "<": () => waveform.nudge(-0.1),
  ">": () => waveform.nudge(0.1),
  ";": () => waveform.nudge(-0.1),
  ":": () => waveform.nudge(0.1),
  "-": () => player.changeSpeed(-1),
  "+": () => player.changeSpeed(1),
  "=": () => player.changeSpeed(1),
  t: () => byId("texts").querySelector("textarea")?.focus(),
  n: () => byId("note").focus(),
  "?": () => byId("help").showModal(),
  Escape: () => { waveform.setRegion(null); player.setLooping(false); },
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open || !state.row) return;
  const target = event.target;
  if (target.matches("textarea, input:not([type=checkbox]), select")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  const isPressed = event.key === " " || event.key === "Enter";
  if (isPressed && target.matches("#list button, #reasons button, .break-words button, summary, a, #help-button")) return;
  const digit = /^[0-9]$/.test(event.key) ? (Number(event.key) + 9) % 10 : null;
  const act = digit === null ? (KEYS[event.key] ?? KEYS[event.key.toLowerCase()]) : () => giveReason(digit);
  if (!act) return;
  event.preventDefault();
  act();
}

// ---- the beginning ----

async function begin() {
  const found = await getJson("/api/rows");
  Object.assign(state, found);
  state.place = `${found.digest.slice(0, 16)}/${found.annotator}`;
  byId("annotator").textContent = found.annotator;
  outbox = new Outbox(state.place, found.annotator, showSaving);
  for (const entry of outbox.leftEntries) apply(entry.row_id, entry.changes);
  list = new RowList(state, { onFilter: filter, onOpen: open });
  waveform = new Waveform({
    onBoundary: moveBoundary,
    onChoose: showBoundary,
    onSeek: (time) => player.seek(time),
    onRegion: (region) => player.playRegion(region),
    onWord: (word) => player.playRegion(markWord(word)),
  });
  player = new Player(waveform);
  byId("reasons").append(...state.reasons.map((reason, number) => {
    const button = makeElement("button", "", reason.words);
    button.type = "button";
    button.dataset.reason = reason.key;
    button.prepend(makeElement("kbd", "", String((number + 1) % 10)), " ");
    button.addEventListener("click", () => giveReason(number));
    return button;
  }));
  byId("accept").addEventListener("click", accept);
  byId("reject").addEventListener("click", reject);
  byId("undo").addEventListener("click", undo);
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  byId("note").addEventListener("input", () => change({ note: byId("note").value || null }, "note"));
  for (const name of ["go-on", "play-at-once"]) {
    const kept = recall(name);
    if (kept !== null) byId(name).checked = kept === "true";
    byId(name).addEventListener("change", () => remember(name, String(byId(name).checked)));
  }
  if (matchMedia("(max-width: 860px)").matches) byId("list-box").open = false;
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", () => openFirst());
  showSaving(outbox.waiting, "");
  outbox.send();
  if (new URLSearchParams(location.search).has("others")) {
    byId("filter-verdict").value = "others";
    if (location.hash) await loadOthers();
    else return filter();
  }
  return openFirst();
}

function markWord(word) {
  const region = { start: word.start_s, end: word.end_s };
  waveform.setRegion(region);
  return region;
}

// The row that the address names, else the one that was open last, else the first that has no verdict.
async function openFirst() {
  const ids = new Set(state.rows.map((row) => row.id));
  let named = "";
  try { named = decodeURIComponent(location.hash.slice(1)); } catch { /* not one of ours */ }
  const wanted = [named, recall("row"), state.rows.find((row) => !review(row.id).verdict)?.id, state.rows[0].id];
  const rowId = wanted.find((id) => id && ids.has(id));
  if (rowId !== state.row?.id) await open(rowId);
}

begin().catch((error) => {
  byId("saving").textContent = error.message;
  byId("saving").classList.add("bad");
});
