// What all new runs share: model, sampler, level, and the button that starts them.
import { get, post } from "./api.js";
import { choice, el, labelled, wrong } from "./dom.js";

export async function asking(kind, inputs, check) {
  const offers = await get("/api/offers");
  const own = (what) => offers[what].filter((one) => one.kind === kind);
  const model = choice(own("models").map((one) => ({ value: one.name, text: one.name })));
  const sampler = choice(own("samplers").map((one) => ({ value: one.name, text: one.name })));
  const about = { models: el("span"), samplers: el("span") };
  const tell = () => {
    about.models.textContent = own("models").find((one) => one.name === model.value)?.about ?? "";
    about.samplers.textContent = own("samplers").find((one) => one.name === sampler.value)?.about ?? "";
  };
  model.addEventListener("change", tell);
  sampler.addEventListener("change", tell);
  tell();
  const alpha = el("input", { type: "number", min: "0.001", max: "0.5", step: "any", value: "0.1" });
  const title = el("input", { type: "text", maxlength: "200", placeholder: "so that you find it again" });
  const target = el("input", { type: "text", maxlength: "200", placeholder: "the predicted class" });
  const test = choice([
    { value: "sequential", text: "sequential: draws until each is decided" },
    { value: "few-shot", text: "few-shot: a few draws, for slow samplers" },
    { value: "irt", text: "irt: a fixed number of draws" },
  ]);
  const seed = el("input", { type: "number", min: "0", step: "1", value: "0" });
  const trouble = el("div");
  const run = el("button", { type: "submit", class: "main" }, "Run");
  const form = el("form", { class: "ask", onsubmit: start },
    labelled("Model", model, about.models), labelled(`Sampler: what is put in the place of a ${kind === "context" ? "passage" : "feature"}`, sampler, about.samplers),
    labelled("Title", title),
    el("details", {}, el("summary", {}, "More settings"),
      labelled("alpha", alpha, "The share of false discoveries that is promised not to be exceeded on average."),
      ...(kind === "context" ? [] : [labelled("Output to ask about", target, "The name or number of a class."), labelled("Test", test)]),
      labelled("Seed", seed, "The same seed gives the same result.")),
    run, trouble);

  async function start(event) {
    event.preventDefault();
    trouble.replaceChildren();
    run.disabled = true;
    try {
      const wanted = {
        kind, model: model.value, sampler: sampler.value, title: title.value, alpha: Number(alpha.value),
        test: test.value, target: target.value || null, seed: Number(seed.value), ...inputs(),
      };
      const state = await post("/api/runs", wanted);
      location.hash = `#/run/${state.id}`;
    } catch (error) {
      trouble.replaceChildren(wrong(error));
      run.disabled = false;
    }
  }

  const refresh = () => {
    run.disabled = !check();
  };
  refresh();
  return { form, refresh };
}

// A button that opens files, a place to drop them, and a button for the example.
export function files(accept, words, multiple, opened, example) {
  const input = el("input", { type: "file", accept, multiple, class: "hidden-text", tabindex: "-1", "aria-hidden": "true" });
  const trouble = el("div");
  const guarded = (work) => async (...given) => {
    trouble.replaceChildren();
    box.setAttribute("aria-busy", "true");
    try {
      await work(...given);
    } catch (error) {
      trouble.replaceChildren(wrong(error));
    }
    box.removeAttribute("aria-busy");
  };
  const take = guarded(async (list) => {
    for (const file of list) await opened(file);
  });
  input.addEventListener("change", () => take([...input.files]).then(() => { input.value = ""; }));
  const box = el("div", {
    class: "drop",
    ondragover: (event) => { event.preventDefault(); box.classList.add("over"); },
    ondragleave: () => box.classList.remove("over"),
    ondrop: (event) => { event.preventDefault(); box.classList.remove("over"); take([...event.dataTransfer.files]); },
  },
  el("button", { type: "button", onclick: () => input.click() }, words),
  el("span", { class: "quiet" }, " or drop it here, or "),
  el("button", { type: "button", class: "plain", onclick: guarded(example) }, "try the example"), input, trouble);
  return box;
}
