// The list of rows, its filters, and the progress.
"use strict";

const MOST_SHOWN = 300;
const BEFORE = 80;
const MARKS = { accept: "✓", reject: "✗" };
const EDITS = ["primary_text", "third_party_text", "segments", "text_with_break", "break_time_s"];
const byId = (id) => document.getElementById(id);

export function isEdited(review) {
  return EDITS.some((field) => (review[field] ?? null) !== null);
}

export class RowList {
  // `state` has rows, reviews (by row) and others (by row, null before they are asked for).
  constructor(state, listener) {
    this.state = state;
    this.listener = listener;
    for (const field of ["label", "scenario"]) {
      const values = [...new Set(state.rows.map((row) => row[field]).filter(Boolean))].sort();
      const options = values.map((value) => new Option(value, value));
      byId(`filter-${field}`).append(...options);
      byId(`filter-${field}`).closest("label").hidden = values.length < 2;
    }
    for (const field of ["verdict", "label", "scenario"]) {
      byId(`filter-${field}`).addEventListener("change", () => listener.onFilter());
    }
    byId("list").addEventListener("click", (event) => {
      const entry = event.target.closest("button");
      if (entry) listener.onOpen(entry.dataset.row);
    });
  }

  get verdictFilter() {
    return byId("filter-verdict").value;
  }

  matches(row) {
    const label = byId("filter-label").value, scenario = byId("filter-scenario").value;
    if ((label && row.label !== label) || (scenario && row.scenario !== scenario)) return false;
    const review = this.state.reviews[row.id] ?? {};
    switch (this.verdictFilter) {
      case "": return true;
      case "open": return !review.verdict;
      case "edited": return isEdited(review);
      case "others": return row.id in (this.state.others ?? {});
      default: return review.verdict === this.verdictFilter;
    }
  }

  // The next row that matches, in the direction of `step`, or null.
  find(rowId, step) {
    const { rows } = this.state;
    for (let at = rows.findIndex((row) => row.id === rowId) + step; at >= 0 && at < rows.length; at += step) {
      if (this.matches(rows[at])) return rows[at].id;
    }
    return null;
  }

  draw(currentId) {
    const { rows, reviews } = this.state;
    const matching = rows.filter((row) => this.matches(row) || row.id === currentId);
    const current = matching.findIndex((row) => row.id === currentId);
    const from = Math.max(current - BEFORE, 0);
    const entries = matching.slice(from, from + MOST_SHOWN).map((row) => {
      const review = reviews[row.id] ?? {};
      const item = document.createElement("li"), button = document.createElement("button");
      const mark = document.createElement("span"), name = document.createElement("span"), soft = document.createElement("span");
      button.type = "button";
      button.dataset.row = row.id;
      if (row.id === currentId) button.setAttribute("aria-current", "true");
      mark.className = `mark-of ${review.verdict ?? "open"}`;
      mark.textContent = MARKS[review.verdict] ?? "·";
      mark.title = review.verdict ?? "not reviewed yet";
      name.textContent = row.id;
      name.className = "name";
      soft.textContent = [row.label, isEdited(review) ? "edited" : ""].filter(Boolean).join(", ");
      soft.className = "soft";
      button.append(mark, name, soft);
      item.append(button);
      return item;
    });
    byId("list").replaceChildren(...entries);
    byId("list").start = from + 1;
    const count = rows.filter((row) => this.matches(row)).length;
    byId("list-count").textContent = count === rows.length ? `(${count})` : `(${count} of ${rows.length})`;
    const shown = byId("list").querySelector("[aria-current]");
    if (shown && byId("list-box").open) keepInSight(byId("list"), shown);
    this.#drawProgress();
  }

  #drawProgress() {
    const { rows, reviews } = this.state;
    const done = rows.filter((row) => reviews[row.id]?.verdict).length;
    byId("progress").setAttribute("aria-valuemax", rows.length);
    byId("progress").setAttribute("aria-valuenow", done);
    byId("progress-bar").style.width = `${(100 * done) / rows.length}%`;
    byId("progress-words").textContent = `${done} of ${rows.length}`;
  }
}

// Scrolls within the list alone: the page stays where the reader is.
function keepInSight(box, element) {
  const top = element.offsetTop - box.offsetTop, bottom = top + element.offsetHeight;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
}
