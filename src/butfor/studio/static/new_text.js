// A new run on texts: typed or pasted, a line each; spans are marked by dragging, or with the keyboard.
import { post } from "./api.js";
import { asking } from "./ask.js";
import { el, labelled, say } from "./dom.js";
import { SpanMarker } from "./spans.js";

export async function showText(place) {
  let markers = [];
  const field = el("textarea", { rows: "5", placeholder: "It was a dreadful film, but the music is lovely." });
  const list = el("div", { class: "editors" });
  const { form, refresh } = await asking("text",
    () => ({ texts: markers.map((one, k) => ({ name: `text ${k + 1}`, text: one.text, spans: one.spans() })) }), () => markers.length > 0);

  function read() {
    const lines = field.value.split("\n").map((line) => line.trim()).filter(Boolean);
    const known = new Map(markers.map((one) => [one.text, one]));
    markers = lines.map((line, k) => known.get(line) ?? new SpanMarker(line, `Text ${k + 1}`));
    list.replaceChildren(...markers.map((one) => one.place));
    refresh();
    if (lines.length) say(`${lines.length} texts. Mark words, or leave them all.`);
  }
  field.addEventListener("input", read);
  place.append(
    el("h1", {}, "A text"),
    el("p", { class: "lead" }, "Mark what may matter by dragging over it. Other words are put in its place, and the model is asked each time. Where nothing is marked in a text, every word is tested."),
    labelled("Texts, one a line", field),
    el("button", { type: "button", class: "plain", onclick: async () => { field.value = (await post("/api/examples/text")).text; read(); } }, "Try the example"),
    list, form);
}

