// Gives the server the annotator's name, and goes on to the rows.
"use strict";

import { postJson } from "./requests.js";

document.getElementById("annotator").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await postJson("/api/annotator", { name: document.getElementById("name").value });
    location.assign("/");
  } catch (error) {
    document.getElementById("fault").textContent = error.message;
  }
});
