// Changes on their way to the server. What is not there yet is kept in the browser, and sent again until it is.
"use strict";

import { postJson } from "./requests.js";

const RETRY_MS = 2000;
const MOST_AT_ONCE = 100;

export class Outbox {
  // `place` names build and annotator; `report(waiting, fault)` is called whenever that changes.
  constructor(place, annotator, report) {
    this.annotator = annotator;
    this.report = report;
    this.prefix = `bystander-unsent/${place}/`;
    this.client = [...crypto.getRandomValues(new Uint8Array(12))].map((b) => b.toString(16).padStart(2, "0")).join("");
    this.seq = 0;
    this.queue = [];
    this.sending = 0;
    this.stopped = false;
    this.left = this.#findLeft();
  }

  // What earlier pages could not send any more, the oldest first.
  get leftEntries() {
    return this.left.flatMap((one) => one.entries);
  }

  get waiting() {
    return this.queue.length + this.left.reduce((sum, one) => sum + one.entries.length, 0);
  }

  // With `merge`, a change of the same fields that still waits is replaced: nobody needs each letter once it is old.
  add(rowId, changes, merge = false) {
    const last = this.queue.at(-1);
    const fields = Object.keys(changes).join();
    if (merge && this.queue.length > this.sending && last.row_id === rowId && Object.keys(last.changes).join() === fields) {
      last.changes = changes;
    } else {
      this.seq += 1;
      this.queue.push({ row_id: rowId, changes, client: this.client, seq: this.seq });
    }
    this.#keep();
    this.send();
  }

  async send() {
    if (this.sending || this.stopped) return;
    while (this.waiting) {
      const source = this.left.length ? this.left[0] : { entries: this.queue, own: true };
      const batch = source.entries.slice(0, this.alone ? 1 : MOST_AT_ONCE);
      this.sending = batch.length;
      this.report(this.waiting, "");
      try {
        await postJson("/api/changes", { annotator: this.annotator, entries: batch });
        this.alone = false;
        this.#drop(source, batch);
      } catch (error) {
        if (error.status === 409) {
          this.sending = 0;
          this.stopped = true;
          this.report(this.waiting, error.message);
          return;
        }
        const refused = error.status === 400 || error.status === 413;
        if (refused && batch.length > 1) {
          this.alone = true; // the others of the batch may be well
        } else if (refused) {
          this.alone = false;
          this.#drop(source, batch);
          this.refusal = error.message;
        } else {
          this.sending = 0;
          this.report(this.waiting, "the server does not answer");
          setTimeout(() => this.send(), RETRY_MS);
          return;
        }
      }
      this.sending = 0;
    }
    this.report(0, this.refusal ?? "");
    this.refusal = "";
  }

  #drop(source, batch) {
    source.entries.splice(0, batch.length);
    if (source.own) {
      this.#keep();
      return;
    }
    // Its page may still live and have written more.
    const rest = this.#read(source.key).filter((entry) => entry.seq > batch.at(-1).seq);
    this.#write(source.key, rest);
    if (!source.entries.length) this.left.shift();
  }

  #keep() {
    this.#write(this.prefix + this.client, this.queue);
  }

  #findLeft() {
    try {
      return Object.keys(localStorage)
        .filter((key) => key.startsWith(this.prefix))
        .map((key) => ({ key, entries: this.#read(key) }))
        .filter((one) => one.entries.length);
    } catch {
      return [];
    }
  }

  #read(key) {
    try {
      return JSON.parse(localStorage.getItem(key)) ?? [];
    } catch {
      return [];
    }
  }

  #write(key, entries) {
    try {
      if (entries.length) localStorage.setItem(key, JSON.stringify(entries));
      else localStorage.removeItem(key);
    } catch { /* no storage: then only what is sent is kept */ }
  }
}
