// Two runs side by side: what is unusual in one and not in the other stands first.
import { get } from "./api.js";
import { choice, el, labelled, table } from "./dom.js";

export async function showCompare(place, first, second) {
  const { runs, past } = await get("/api/runs");
  const all = [...runs.filter((run) => run.has_result), ...past].map((one) => ({ value: one.id, text: one.title }));
  place.append(el("h1", {}, "Compare two runs"));
  if (all.length < 2) {
    place.append(el("p", { class: "quiet" }, "There are fewer than two results yet."));
    return;
  }
  const start = first ?? all[0].value;
  const one = choice(all, start);
  const two = choice(all, second && second !== start ? second : all.find((other) => other.value !== start).value);
  const body = el("div", { "aria-live": "polite" });
  let asked = 0;
  const draw = async () => {
    const own = ++asked;
    const found = await get(`/api/compare?first=${one.value}&second=${two.value}`);
    if (own !== asked) return;  // another choice was made meanwhile: its answer is the one to show
    const counts = Object.entries(found.counts).filter(([, count]) => count).map(([verdict, count]) => `${count} ${verdict}`).join(" · ");
    body.replaceChildren(
      found.common ? "" : el("p", { class: "note" }, "These two have no input and subset in common."),
      el("p", { class: "headline" }, counts ? `Unusual: ${counts}.` : "Nothing was tested in either."),
      table(["Input", "Subset", "Unusual", "Effect, first", "Effect, second"],
        found.rows.map((row) => [row.input, row.subset, row.verdict, row.first, row.second]), "Comparison"),
      el("p", { class: "quiet" }, found.left_out ? `${found.left_out} more are not shown.` : ""));
  };
  one.addEventListener("change", draw);
  two.addEventListener("change", draw);
  place.append(el("div", { class: "pair" }, labelled("First", one), labelled("Second", two)), body);
  await draw();
}
