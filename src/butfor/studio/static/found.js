// What was found, in its own shape: boxes on images, marks in texts, a table; each opens its counterfactuals.
import { el, svg, table } from "./dom.js";
import { pieces } from "./spans.js";

export function showFound(view, id) {
  const opened = el("section", { class: "opened", "aria-live": "polite", "aria-label": "Counterfactuals" },
    el("p", { class: "quiet" }, "Choose one to see what was put in its place."));
  const open = (row) => {
    opened.replaceChildren(...counterfactuals(view, row, id));
    for (const one of whole.querySelectorAll("[data-row]")) one.classList.toggle("here", one.dataset.row === String(row.row));
    if (opened.isConnected) opened.scrollIntoView({ block: "nearest" });
  };
  const shape = { image: images, text: texts, context: parts }[view.modality] ?? rows;
  const left = view.left_out ? el("p", { class: "quiet" }, `${view.left_out} more are in the report and its table.`) : "";
  const whole = el("div", { class: "found" }, view.picture ? picture(view.picture) : "", legend(view), shape(view, id, open), left, opened);
  const first = view.rows.find((row) => row.chosen && row.draws?.length);
  if (first) open(first);
  return whole;
}

// The picture of the answer, as the report has it: places are percent of the width.
function picture(shown) {
  const percent = (value) => `${value.toFixed(2)}%`;
  const lines = shown.lines.map((line) => {
    const track = svg("svg", { class: "track", role: "img", "aria-label": `${line.text} ${line.interval}` });
    if (shown.kind !== "count") track.append(svg("line", { class: shown.kind, x1: percent(shown.mark), x2: percent(shown.mark), y1: 0, y2: 16 }));
    if (line.middle !== null) {
      const [low, high] = [line.low ?? line.middle, line.high ?? line.middle];
      track.append(svg("line", { class: shown.kind === "count" ? "count" : "span", x1: percent(low), x2: percent(high), y1: 8, y2: 8 }));
      if (shown.kind !== "count") track.append(svg("circle", { cx: percent(line.middle), cy: 8, r: 4 }));
    }
    return el("li", { class: line.sure ? "" : "unsure" }, el("span", {}, line.name, line.value ? ` = ${line.value}` : ""), track,
      el("span", { class: "said" }, line.text, line.interval ? el("small", {}, line.interval) : ""));
  });
  return el("section", { class: "answer", "aria-label": "Picture of the answer" }, el("p", { class: "quiet" }, shown.title), el("ul", {}, ...lines),
    shown.key ? el("p", { class: "hint" }, `${shown.key} ${shown.key_of_mark}`) : "");
}

// The same before anything is known.
export function showAsked(view) {
  const shape = view.modality === "image" ? images : texts;
  return el("div", { class: "found" }, el("p", { class: "quiet" }, "What is unusual turns blue, and stays so."), shape(view, "", null));
}

function legend(view) {
  const word = view.modality === "context" ? "decisive" : "unusual";
  return el("p", { class: "legend" }, el("span", { class: "key yes" }, word), el("span", { class: "key no" }, `not ${word}`),
    ` ${view.chosen} of ${view.hypotheses}`);
}

function label(row) {
  const effect = row.effect ? `, effect ${row.effect}` : "";
  return `${row.subset}: ${row.chosen ? "unusual" : row.status ?? "not unusual"}${effect}`;
}

function images(view, id, open) {
  return el("div", { class: "pictures" }, ...view.inputs.map((input) => {
    const own = view.rows.filter((row) => row.index === input.index);
    if (!input.picture && !input.src) return el("div", {}, el("p", {}, `${input.name}: the image is no longer where it was.`), list(own, open));
    const layer = svg("svg", { viewBox: "0 0 1000 1000", preserveAspectRatio: "none", class: "boxes" });
    for (const row of own.filter((one) => one.where)) {
      const [x1, y1, x2, y2] = row.where.map((share) => share * 1000);
      const box = svg("rect", { x: x1, y: y1, width: x2 - x1, height: y2 - y1, class: row.chosen ? "box yes" : "box no", ...(open ? { tabindex: "0", role: "button" } : { role: "img" }),
        "aria-label": label(row), "data-row": row.row, "vector-effect": "non-scaling-stroke" });
      pressed(box, open && (() => open(row)));
      layer.append(box);
    }
    return el("figure", {}, el("div", { class: "canvas" }, el("img", { src: input.src ?? `/api/runs/${id}/pictures/${input.picture}`, alt: input.name }), layer),
      el("figcaption", {}, el("strong", {}, input.name), ` ${input.output ?? ""}`), open ? list(own, open) : "");
  }));
}

function list(own, open) {
  return el("ul", { class: "chips" }, ...own.map((row) => el("li", {},
    el("button", { type: "button", class: row.chosen ? "chip yes" : "chip no", "data-row": row.row, onclick: () => open(row) }, label(row)))));
}

function texts(view, id, open) {
  return el("div", {}, ...view.inputs.map((input) => {
    const own = view.rows.filter((row) => row.index === input.index && row.where);
    const nodes = pieces(input.text, own.map((row) => [...row.where, row])).map(([text, row]) => {
      if (!row) return document.createTextNode(text);
      const word = el("span", { class: row.chosen ? "found-word yes" : "found-word no", ...(open ? { tabindex: "0", role: "button" } : {}), "data-row": row.row, title: label(row) }, text);
      pressed(word, open && (() => open(row)));
      return word;
    });
    return el("section", { class: "text" }, el("h3", {}, input.name), el("p", { class: "quiet" }, input.output ?? ""), el("p", { class: "words" }, ...nodes));
  }));
}

function parts(view, id, open) {
  return el("div", {}, ...view.inputs.map((input) => el("section", { class: "text" }, el("h3", {}, input.name),
    ...view.rows.filter((row) => row.index === input.index).map((row) => el("p", {},
      el("button", { type: "button", class: row.chosen ? "chip yes" : "chip no", "data-row": row.row, onclick: () => open(row) }, row.subset), ` ${row.text}`)))));
}

function rows(view, id, open) {
  const decided = view.rows.some((row) => row.flip);
  const heads = ["Input", "Subset", "Effect", "95 % interval", ...(decided ? ["Another decision"] : []), "Status"];
  const cells = view.rows.map((row) => [row.input,
    el("button", { type: "button", class: row.chosen ? "chip yes" : "chip no", "data-row": row.row, onclick: () => open(row) }, row.subset),
    row.effect ?? "", row.low === null || row.low === row.high ? "" : `${row.low} to ${row.high}`, ...(decided ? [row.flip ?? ""] : []), row.necessary ? `decisive, ${row.status}` : row.status]);
  const filter = el("select", { "aria-label": "Which rows", class: "choose" }, el("option", { value: "yes" }, "Unusual"), el("option", { value: "all" }, "All"));
  const place = el("div");
  const draw = () => {
    const some = cells.filter((_, k) => filter.value === "all" || view.rows[k].chosen);
    place.replaceChildren(table(heads, some, "What was found"));
    if (!some.length) place.append(el("p", { class: "quiet" }, "Nothing is unusual."));
  };
  filter.value = view.chosen ? "yes" : "all";
  filter.addEventListener("change", draw);
  draw();
  return el("div", {}, filter, place);
}

function pressed(node, work) {
  if (!work) return;
  node.addEventListener("click", work);
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      work();
    }
  });
}

// Where a counterfactual was redrawn.
function outline(row) {
  if (!row.where) return "";
  const [x1, y1, x2, y2] = row.where.map((share) => share * 1000);
  return svg("svg", { viewBox: "0 0 1000 1000", preserveAspectRatio: "none", class: "boxes", "aria-hidden": "true" },
    svg("rect", { x: x1, y: y1, width: x2 - x1, height: y2 - y1, class: "outline", "vector-effect": "non-scaling-stroke" }));
}

function counterfactuals(view, row, id) {
  const head = el("h2", {}, `But for ${row.subset}`);
  if (view.modality === "context") {
    const share = row.flip ? `Another answer with ${row.flip} of what might have stood there (95 %: ${row.low} to ${row.high})${row.necessary ? ": decisive" : ""}.` : "It was not tested.";
    return [head, el("p", {}, share), row.draws.length ? table(["It might have said", "Answer"], row.draws.map((one) => [one.text, one.output]), "Foils") : ""];
  }
  const facts = [row.chosen ? "Unusual." : "Not unusual: what was drawn in its place often gave as extreme an output.",
    row.effect ? `Effect ${row.effect}${row.low === null ? "" : ` (95 %: ${row.low} to ${row.high})`}.` : "",
    row.flip ? `Another decision in ${row.flip} of the draws${row.necessary ? ": decisive" : ""}.` : ""].filter(Boolean).join(" ");
  const words = el("p", {}, `${view.modality === "table" ? "Row" : "In"} ${row.input}. ${facts}`);
  if (!row.draws?.length) return [head, words, el("p", { class: "quiet" }, "No counterfactuals were kept for this one.")];
  if (view.modality === "image") {
    return [head, words, el("div", { class: "draws" }, ...row.draws.map((one, k) => el("figure", {}, el("div", { class: "canvas" },
      el("img", { src: `/api/runs/${id}/pictures/${one.picture}`, alt: `Counterfactual ${k + 1} of ${row.subset}` }), outline(row)),
      el("figcaption", {}, `output ${one.output}`))))];
  }
  if (view.modality === "text") return [head, words, table(["It might have said", "Output", "Drawn"], row.draws.map((one) => [one.text, one.output, one.times ?? ""]), "Counterfactuals")];
  const many = row.draws[0].drawn.map((_, k) => `Drawn ${k + 1}`);
  return [head, words, table(["Column", "Observed", ...many], row.draws.map((one) => [one.column, one.observed, ...one.drawn]), "Counterfactuals")];
}
