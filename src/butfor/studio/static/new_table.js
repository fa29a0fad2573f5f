// A new run on a table: the file, which rows to compare with, which columns belong together.
import { post, upload } from "./api.js";
import { asking, files } from "./ask.js";
import { choice, el, labelled, say, table } from "./dom.js";

export async function showTable(place) {
  let stored = null;
  const shown = el("div");
  const where = el("input", { type: "text", spellcheck: "false", autocapitalize: "off", placeholder: "diagnosis == 'benign'" });
  const explained = el("input", { type: "text", spellcheck: "false", autocapitalize: "off", placeholder: "all other rows" });
  const counted = el("p", { class: "counted", "aria-live": "polite" });
  const ways = choice([
    { value: "zoom", text: "from all columns over groups down to single ones" },
    { value: "columns", text: "each column by itself" },
    { value: "own", text: "groups of my own" },
  ]);
  const groups = el("textarea", { rows: "5", spellcheck: "false", placeholder: "size: mean radius, mean area\nshape: mean concavity" });
  const ownGroups = labelled("Groups", groups, "One a line: a name, a colon, its columns with commas between them.");
  ownGroups.hidden = true;
  ways.addEventListener("change", () => { ownGroups.hidden = ways.value !== "own"; });
  const drop = el("input", { type: "text", spellcheck: "false", placeholder: "none" });
  const { form, refresh } = await asking("table", () => ({ table: {
    upload: stored.id, reference_where: where.value, data_where: explained.value, drop: listed(drop.value),
    subsets: ways.value === "own" ? parsed(groups.value) : ways.value,
  } }), () => stored !== null);

  async function count() {
    if (!stored || !where.value) return counted.replaceChildren();
    try {
      const found = await post(`/api/uploads/${stored.id}/rows`, { reference_where: where.value, data_where: explained.value });
      counted.className = "counted";
      counted.textContent = `${found.reference} rows to compare with, ${found.explained} rows to explain.`;
    } catch (error) {
      counted.className = "counted wrong";
      counted.textContent = error.message;
    }
    return undefined;
  }
  where.addEventListener("change", count);
  explained.addEventListener("change", count);

  function add(found, filter) {
    stored = found;
    const { rows, columns, kinds, preview, more_columns: more } = stored.details;
    const order = columns.map((_, k) => k).sort((a, b) => (kinds[a] === "number") - (kinds[b] === "number")); // what picks rows is often text
    const heads = order.map((k) => `${columns[k]}${kinds[k] === "number" ? "" : " (text)"}`);
    shown.replaceChildren(
      el("p", {}, el("strong", {}, stored.name), ` has ${rows} rows and ${columns.length + more} columns. The first rows:`),
      table(heads, preview.map((row) => order.map((k) => (kinds[k] === "number" ? short(row[k]) : row[k]))), "First rows"));
    if (filter) where.value = filter;
    refresh();
    count();
    say(`${stored.name} was read.`);
  }

  form.prepend(
    labelled("Rows to compare with (the reference)", where, "Controls, the other class, last year: an expression on the columns. Names with spaces stand in `backticks`."),
    labelled("Rows to explain", explained), counted, labelled("What to test", ways), ownGroups,
    labelled("Columns that are not for the model", drop, "Names with commas between them. Text columns that pick rows are left out anyway."));
  place.append(
    el("h1", {}, "A table"),
    el("p", { class: "lead" }, "Choose the rows to compare with. For every other row it is tested which columns make the model's answer unlike theirs."),
    files(".csv,.parquet,text/csv", "Choose a CSV or Parquet file", false, async (file) => add(await upload(file)),
      async () => add(await post("/api/examples/table"), "diagnosis == 'benign'")),
    shown, form);
}

// 14.890999999999998 is 14.891 to a person.
const short = (text) => (text.includes(".") && Number.isFinite(Number(text)) ? String(Number(Number(text).toPrecision(6))) : text);

const listed = (text) => text.split(",").map((name) => name.trim()).filter(Boolean);

function parsed(text) {
  const found = {};
  for (const line of text.split("\n").filter((one) => one.trim())) {
    const at = line.indexOf(":");
    const names = listed(line.slice(at + 1));
    if (at < 1 || !names.length) throw new Error(`The group ${JSON.stringify(line)} is not of the form "name: column, column".`);
    found[line.slice(0, at).trim()] = names;
  }
  if (!Object.keys(found).length) throw new Error("There are no groups; write one a line, or test columns otherwise.");
  return found;
}
