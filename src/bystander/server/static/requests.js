// What all pages need to talk to their server.
"use strict";

export async function getJson(path) {
  return readAnswer(await fetch(path, { credentials: "same-origin" }));
}

export async function postJson(path, value) {
  const options = {
    method: "POST",
    credentials: "same-origin",
    headers: { "content-type": "application/json", "x-bystander": "1" },
    body: JSON.stringify(value),
  };
  return readAnswer(await fetch(path, options));
}

// Throws an Error with the server's sentence, and its `status`.
async function readAnswer(response) {
  const text = await response.text();
  let value = null;
  try { value = JSON.parse(text); } catch { /* a refusal in words */ }
  if (!response.ok || value === null) {
    throw Object.assign(new Error(value?.error ?? text.trim()), { status: response.status });
  }
  return value;
}
