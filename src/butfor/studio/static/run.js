// One run: how far it is, what is unusual so far, then the result.
import { ended, follow, get, post } from "./api.js";
import { el, say, table, wrong } from "./dom.js";
import { badge } from "./runs.js";
import { showAsked, showFound } from "./found.js";

export async function showRun(place, id) {
  let state = await get(`/api/runs/${id}`);
  const title = el("h1", {}, state.title);
  const head = el("div", { class: "run-head", "aria-live": "polite" });
  const body = el("div");
  place.append(title, head, body);
  const cancel = el("button", { type: "button", onclick: stop }, "Cancel");
  const bar = el("progress", { "aria-label": "Progress" });

  async function stop() {
    cancel.disabled = true;
    try {
      await post(`/api/runs/${id}/cancel`);
    } catch (error) {
      head.append(wrong(error));
    }
  }

  async function heard(now) {
    state = now;
    if (!ended(now)) {
      if (now.total) {
        bar.max = now.total;
        bar.value = now.rows;
      } else bar.removeAttribute("value");
      head.replaceChildren(badge(now), bar, el("p", {}, words(now)), cancel);
      filling(body, now);
      return;
    }
    head.replaceChildren(badge(now), el("p", { class: now.state === "failed" ? "wrong" : "" }, now.message));
    body.replaceChildren();
    if (now.has_result) await result(body, id);
    say(`The run is ${now.state}.`);
  }

  if (ended(state)) return void (await heard(state));
  await inputs(body, id);
  return follow(id, (now) => heard(now).catch((error) => body.replaceChildren(wrong(error))),
    () => head.append(wrong(new Error("The studio does not answer any more; was it closed?"))));
}

function words(now) {
  if (now.state === "queued") return now.ahead ? `${now.ahead} runs are before it.` : "It is the next.";
  const rows = now.rows ? ` · ${now.rows.toLocaleString()}${now.total ? ` of ${now.total.toLocaleString()}` : ""} model rows` : "";
  const found = now.chosen === null ? "" : ` · ${now.chosen} unusual so far`;
  return `${now.stage}${rows}${found}`;
}

// What is unusual already stands: a sequential test takes nothing back.
function filling(body, now) {
  const chosen = now.chosen_rows ?? [];
  for (const row of chosen) {
    const shape = body.querySelector(`[data-row="${row}"]`);
    if (shape) shape.setAttribute("class", shape.getAttribute("class").replace(/ (no|wait)$/, " yes"));
  }
}

// Inputs, as they were drawn or marked: shapes turn blue as they are found to be unusual.
async function inputs(body, id) {
  const view = await get(`/api/runs/${id}/inputs`);
  if (view.rows.length) body.replaceChildren(showAsked(view));
}

async function result(body, id) {
  body.replaceChildren(el("p", { class: "quiet" }, "Reading the result …"));
  const view = await get(`/api/runs/${id}/view`);
  const report = `/api/runs/${id}/report`;
  const framed = el("iframe", { title: "Report", loading: "lazy", class: "report" });
  const details = el("details", { class: "whole" }, el("summary", {}, "The whole report"), framed);
  details.addEventListener("toggle", () => { if (details.open && !framed.src) framed.src = report; });
  body.replaceChildren(
    el("p", { class: "headline" }, view.answers[0][1]),
    ...view.answers.slice(1).map(([question, text]) => el("p", {}, el("strong", {}, `${question}: `), text.replaceAll(" %", "\u00a0%"))),
    el("div", { class: "actions" },
      el("a", { class: "button main", href: `${report}?download=true`, download: "" }, "Export the report"),
      el("a", { class: "button", href: report, target: "_blank", rel: "noopener" }, "Open the report"),
      el("a", { class: "button", href: `#/compare/${id}/${id}` }, "Compare with another run")),
    showFound(view, id), details,
    el("details", {}, el("summary", {}, "What is promised, and under which conditions"),
      el("p", {}, view.promise), ...view.caveats.map((text) => el("p", { class: "note" }, text))),
    notes(view), el("details", {}, el("summary", {}, "How it was made"), table(["What", "Which"], view.settings, "Settings")));
}

function notes(view) {
  if (!view.notes.length) return "";
  return el("details", {}, el("summary", {}, `${view.notes.length} notes`), el("ul", {}, ...view.notes.map((text) => el("li", {}, text))));
}
