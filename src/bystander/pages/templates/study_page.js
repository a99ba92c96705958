/* What a rater goes through: consent, one item after another, sending. The same on a crowd platform, from a file and on
   the local server; only where the sheet comes from and where answers go differs (`Platform`, `Local`). */
(() => {
  "use strict";
  const setup = JSON.parse(document.getElementById("setup").textContent);
  const { ui, questions } = setup;
  const page = document.getElementById("page");
  const form = page.closest("form"); // a platform may have put the page into a form of its own
  const asked = new URLSearchParams(location.search);

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };
  const button = (label, act, kind = "") => {
    const element = make("button", { type: "button", class: kind }, label);
    element.addEventListener("click", act);
    return element;
  };
  const show = (...children) => {
    page.replaceChildren(...children);
    const head = page.querySelector("[tabindex='-1']");
    if (head) head.focus({ preventScroll: true });
    scrollTo(0, 0);
  };
  const nameOf = (place) => "p" + String(place).padStart(2, "0");

  const decode = (text) => {
    const bytes = Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  };
  const isSheet = (sheet) => Boolean(sheet && sheet.study === setup.study && Array.isArray(sheet.items));

  /* The sheet is in the page, in its address, or in a file; answers go out as a form, or into a file. */
  const Platform = {
    async load() {
      const filled = document.getElementById("task").value;
      const text = filled.startsWith("$") ? asked.get("task") || new URLSearchParams(location.hash.slice(1)).get("task") : filled;
      let sheet = null;
      if (text) try { sheet = decode(text); } catch { sheet = null; }
      if (!isSheet(sheet)) sheet = await pickSheet();
      this.key = ["bystander", setup.study, sheet.sheet, asked.get("assignmentId") || ""].join(":");
      let state = null;
      try { state = JSON.parse(localStorage.getItem(this.key)); } catch { state = null; }
      return { sheet, state };
    },
    async agree(sheet) {
      const state = { consent: true, at: 0, items: [] };
      await this.keep(state);
      return { sheet, state };
    },
    async keep(state) {
      try { localStorage.setItem(this.key, JSON.stringify(state)); } catch { /* a private window: nothing outlasts it */ }
    },
    async finish(sheet, state) {
      const fields = { sheet: sheet.sheet, consent: "yes" };
      sheet.items.forEach((item, at) => {
        const given = state.items[at];
        for (const question of questions) fields[nameOf(at + 1) + "." + question.name] = given.answers[question.name];
        fields[nameOf(at + 1) + ".seconds"] = given.seconds.toFixed(1);
      });
      const host = asked.get("turkSubmitTo");
      const target = setup.submit_url || (host ? host.replace(/\/$/, "") + "/mturk/externalSubmit" : form.getAttribute("action"));
      if (!target) {
        const rater = asked.get("rater") || asked.get("PROLIFIC_PID") || asked.get("workerId") || "";
        const text = JSON.stringify({ study: setup.study, rater, ...fields });
        const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: setup.study + "-" + sheet.sheet + ".json" });
        link.click();
        return ui.saved;
      }
      const [assignment, ...doubled] = form.querySelectorAll("[name=assignmentId]"); // the platform's form has one too
      if (!assignment.value) assignment.value = asked.get("assignmentId") || "";
      doubled.forEach((one) => one.remove());
      for (const name of ["workerId", "hitId", "rater", "PROLIFIC_PID"]) {
        if (asked.get(name) && !form.querySelector("[name=" + name + "]")) fields[name] = asked.get(name);
      }
      for (const [name, value] of Object.entries(fields)) form.append(make("input", { type: "hidden", name, value }));
      page.querySelectorAll("input").forEach((input) => { input.disabled = true; });
      form.action = target;
      form.submit();
      return ui.sending;
    },
  };

  /* The local server has the sheet, and gets every answer when it is given. */
  const Local = {
    async call(path, body) {
      const reply = await fetch(setup.server + path, body === undefined ? {} : {
        method: "POST", headers: { "content-type": "application/json", ...setup.headers }, body: JSON.stringify(body),
      });
      if (!reply.ok) throw new Error(String(reply.status));
      return reply.json();
    },
    load() { return this.call("sheet"); },
    agree() { return this.call("agree", {}); },
    keep(state, change) { return change ? this.call("answer", change) : Promise.resolve(); },
    async finish() { await this.call("finish", {}); return ui.sent; },
    async leave() { await this.call("leave", {}); location.reload(); },
  };

  const transport = setup.server ? Local : Platform;

  function pickSheet() {
    return new Promise((resolve) => {
      const fault = make("p", { class: "fault", role: "alert" });
      const file = make("input", { type: "file", accept: ".json,application/json", "aria-label": ui.open_file });
      file.addEventListener("change", async () => {
        let sheets = null;
        try { sheets = JSON.parse(await file.files[0].text()); } catch { sheets = null; }
        const found = (Array.isArray(sheets) ? sheets : [sheets]).filter(isSheet);
        if (!found.length) { fault.textContent = ui.bad_file; return; }
        const choice = make("select", { "aria-label": ui.choose_sheet }, ...found.map((sheet) => make("option", {}, sheet.sheet)));
        show(make("h1", { tabindex: "-1" }, setup.title), make("label", { class: "pick" }, ui.choose_sheet, choice),
          button(ui.next, () => resolve(found[choice.selectedIndex]), "main"));
      });
      show(make("h1", { tabindex: "-1" }, setup.title), make("p", {}, ui.no_sheet), make("label", { class: "pick" }, ui.open_file, file), fault);
    });
  }

  function showConsent(agreed) {
    const preview = asked.get("assignmentId") === "ASSIGNMENT_ID_NOT_AVAILABLE";
    const box = make("input", { type: "checkbox", id: "agree", disabled: preview });
    const begin = button(ui.begin, agreed, "main");
    begin.disabled = true;
    box.addEventListener("change", () => { begin.disabled = !box.checked; });
    show(
      make("h1", { tabindex: "-1" }, setup.title),
      make("section", { class: "card consent" }, ...setup.consent.map((text) => make("p", {}, text)),
        preview ? make("p", { class: "fault" }, ui.preview) : make("label", { class: "agree", for: "agree" }, box, make("span", {}, ui.agree))),
      make("section", {}, ...showGuide()),
      make("p", { class: "buttons" }, begin),
    );
  }

  function showGuide() {
    return [...setup.lead.map((text) => make("p", {}, text)), make("ul", {}, ...setup.rules.map((text) => make("li", {}, text)))];
  }

  function showTalk(item) {
    return make("dl", { class: "talk" }, ...item.talk.map(([who, text]) =>
      make("div", { class: who === "bystander" ? "third" : "primary" }, make("dt", {}, ui[who]), make("dd", {}, text))));
  }

  function showClip(item, given, keep) {
    const fault = make("p", { class: "fault", role: "alert" });
    const player = make("audio", { controls: true, preload: "auto", src: setup.clips_url + item.clip, "aria-label": ui.clip });
    const heard = () => { if (!given.heard) { given.heard = true; keep(); } };
    player.addEventListener("ended", heard);
    player.addEventListener("error", () => { fault.textContent = ui.broken_clip; heard(); });
    return make("div", { class: "clip" }, make("p", { class: "soft" }, ui.clip), player, fault);
  }

  function showQuestion(question, order, given, change) {
    const options = order.map((value, index) => {
      const option = question.options.find((one) => one.value === value);
      const input = make("input", { type: "radio", name: "shown." + question.name, value, checked: given.answers[question.name] === value });
      input.addEventListener("change", () => change(question.name, value));
      const words = make("span", { class: "words" }, make("span", { class: "name" }, option.label));
      if (option.hint) words.append(make("span", { class: "hint" }, option.hint));
      return make("label", { class: "option" }, input, make("kbd", { "aria-hidden": "true" }, String(index + 1)), words);
    });
    return make("fieldset", { "data-question": question.name }, make("legend", {}, question.text), ...options);
  }

  function run(sheet, before) {
    const state = before;
    sheet.items.forEach((_, at) => { state.items[at] = state.items[at] || { answers: {}, seconds: 0, heard: false }; });
    const keep = (change) => transport.keep(state, change).then(() => true, () => { complain(ui.failed); return false; });
    const complain = (text) => {
      const line = page.querySelector("#fault");
      if (line) line.textContent = text;
    };

    function showItem() {
      const at = state.at;
      const item = sheet.items[at];
      const given = state.items[at];
      let since = performance.now();
      const count = () => { const now = performance.now(); given.seconds += (now - since) / 1000; since = now; };
      const change = (question, value) => {
        count();
        given.answers[question] = value;
        complain("");
        keep({ place: at + 1, question, value, seconds: given.seconds });
      };
      const leave = async (step) => {
        count();
        if (step > 0) {
          if (item.clip && !given.heard) { complain(ui.unheard); return; }
          if (questions.some((question) => !given.answers[question.name])) { complain(ui.unanswered); return; }
        }
        if (at + step < sheet.items.length) { state.at = at + step; await keep(); showItem(); return; }
        page.querySelectorAll("button").forEach((one) => { one.disabled = true; });
        try { showEnd(await transport.finish(sheet, state)); } catch {
          page.querySelectorAll("button").forEach((one) => { one.disabled = false; });
          complain(ui.failed);
        }
      };
      const last = at + 1 === sheet.items.length;
      const progress = ui.progress.replace("{at}", at + 1).replace("{all}", sheet.items.length);
      const replies = item.replies.map((text, index) => make("div", { class: "reply reply" + index },
        make("dt", {}, item.replies.length > 1 ? [ui.first_reply, ui.second_reply][index] : ui.reply), make("dd", {}, text)));
      show(
        make("div", { class: "head" }, make("h1", { tabindex: "-1" }, setup.title), make("span", { class: "soft" }, progress),
          make("progress", { value: at + 1, max: sheet.items.length, "aria-label": progress })),
        make("details", { class: "guide" }, make("summary", {}, ui.guide), ...showGuide()),
        make("section", { class: "card" },
          ...(item.clip ? [showClip(item, given, () => keep(setup.server ? { place: at + 1, heard: true } : undefined))] : []),
          showTalk(item),
          ...(item.note ? [make("p", { class: "note" }, item.note)] : []),
          ...(item.strategy ? [make("div", { class: "strategy" }, make("p", { class: "soft" }, ui.strategy), make("p", {}, item.strategy))] : []),
          ...(replies.length ? [make("dl", { class: replies.length > 1 ? "replies two" : "replies" }, ...replies)] : [])),
        ...questions.map((question) => showQuestion(question, item.order[question.name], given, change)),
        make("p", { id: "fault", class: "fault", role: "alert" }),
        make("p", { class: "buttons" }, ...(at ? [button(ui.back, () => leave(-1))] : []), button(last ? ui.send : ui.next, () => leave(1), "main"),
          make("span", { class: "soft keys" }, ui.keys)),
      );
    }

    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT") return;
      if (event.key === "Enter" && event.target.tagName !== "BUTTON" && event.target.tagName !== "SUMMARY") {
        event.preventDefault(); // a radio button in a form would send it
        const main = page.querySelector("button.main");
        if (main && !main.disabled) main.click();
      }
      if (!/^[1-9]$/.test(event.key)) return;
      const sets = [...page.querySelectorAll("fieldset")];
      const set = event.target.closest("fieldset") && sets.every((one) => one.querySelector(":checked"))
        ? event.target.closest("fieldset")
        : sets.find((one) => !one.querySelector(":checked")) || sets[0];
      const input = set && set.querySelectorAll("input")[Number(event.key) - 1];
      if (input) { input.focus(); input.click(); }
    });

    if (state.finished) showEnd(ui.sent);
    else showItem();
  }

  function showEnd(text) {
    show(make("h1", { tabindex: "-1" }, setup.title), make("p", { class: "end", role: "status" }, text),
      ...(transport.leave && text === ui.sent ? [make("p", { class: "buttons" }, button(ui.another, () => transport.leave()))] : []));
  }

  function go({ sheet, state, full }) {
    if (full) showEnd(ui.full);
    else if (state && state.consent) run(sheet, state);
    else showConsent(() => transport.agree(sheet).then(go, () => showEnd(ui.failed)));
  }

  if (setup.server && location.search) history.replaceState(null, "", location.pathname); // ids stay out of bookmarks
  transport.load().then(go, () => showEnd(ui.failed));
})();
