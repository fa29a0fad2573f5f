// A new run on the context of a language model: passages a line each, a question, and what might have stood there.
import { post } from "./api.js";
import { asking } from "./ask.js";
import { el, labelled, say } from "./dom.js";

export async function showContext(place) {
  const lines = (field) => field.value.split("\n").map((line) => line.trim()).filter(Boolean);
  const parts = el("textarea", { rows: "6", placeholder: "The gate code of Lisbon is 4417." });
  const question = el("input", { type: "text", maxlength: "20000", placeholder: "What is the gate code of Lisbon?" });
  const pool = el("textarea", { rows: "6", placeholder: "The gate code of Oslo is 2200." });
  const { form, refresh } = await asking("context",
    () => ({ context: { parts: lines(parts), question: question.value, pool: lines(pool) } }), () => lines(parts).length > 0);
  const read = () => {
    refresh();
    if (lines(parts).length) say(`${lines(parts).length} passages, ${lines(pool).length} others that might have stood there.`);
  };
  for (const field of [parts, pool]) field.addEventListener("input", read);
  const example = async () => {
    const given = await post("/api/examples/context");
    parts.value = given.parts.join("\n");
    question.value = given.question;
    pool.value = given.pool.join("\n");
    read();
  };
  place.append(
    el("h1", {}, "A prompt"),
    el("p", { class: "lead" }, "Which passage does the answer rest on? Each is replaced by others that might have stood there, and the model is asked again."),
    el("button", { type: "button", class: "plain", onclick: example }, "Try the example"),
    labelled("Passages, one a line", parts), labelled("Question", question),
    labelled("Other passages, one a line: the next ranks of the search, or those of other questions", pool), form);
}
