// The first page: what there is, and where to begin.
import { get, ended } from "./api.js";
import { el, table } from "./dom.js";

const WHEN = { dateStyle: "medium", timeStyle: "short" };
const WORDS = { queued: "waiting", running: "running", done: "done", failed: "failed", cancelled: "cancelled", stopped: "stopped" };

export async function showRuns(place) {
  const { runs, past } = await get("/api/runs");
  place.append(
    el("h1", {}, "Would the model have said the same, but for this?"),
    el("p", { class: "lead" }, "Choose what to ask about. Each comes with a demo model and example inputs, so you can try at once."),
    el("div", { class: "cards" },
      card("image", "An image", "Draw boxes on it. But for which of them would the answer have been another?"),
      card("table", "A table", "Choose the rows to compare with. Which columns set the others apart, row by row?"),
      card("text", "A text", "Mark words or passages. Which of them decide?"),
      card("context", "A prompt", "Which passage does the answer of a language model rest on?")),
  );
  place.append(el("h2", {}, "Runs"));
  if (runs.length) {
    const rows = runs.map((run) => [
      el("a", { href: `#/run/${run.id}` }, run.title), badge(run), found(run), new Date(run.created * 1000).toLocaleString([], WHEN),
    ]);
    place.append(table(["Run", "State", "Unusual", "Started"], rows, "Runs of this studio"));
  } else {
    place.append(el("p", { class: "quiet" }, "None yet."));
  }
  if (past.length) {
    place.append(el("h2", {}, "Other results in this folder"));
    const rows = past.map((one) => [el("a", { href: `#/run/${one.id}` }, one.title), new Date(one.changed * 1000).toLocaleString([], WHEN)]);
    place.append(table(["Result", "Written"], rows, "Results of the command line"));
  }
}

function card(kind, title, words) {
  return el("a", { class: "card", href: `#/new/${kind}` }, el("strong", {}, title), el("span", {}, words));
}

export function badge(run) {
  const ahead = run.state === "queued" && run.ahead ? `, ${run.ahead} before it` : "";
  return el("span", { class: `badge ${run.state}` }, WORDS[run.state] + ahead);
}

function found(run) {
  return run.chosen === null ? (ended(run) ? "–" : "") : String(run.chosen);
}
