// Elements without markup: text goes in as text, so nothing a file, a model or a person is called can become a tag.

export function el(name, options = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "class") made.className = value;
    else if (key === "value") made.value = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function svg(name, options = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(options)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

let numbered = 0;

// A label above a field, with a hint below it that screen readers hear as well.
export function labelled(text, field, hint) {
  field.id ||= `field-${++numbered}`;
  const parts = [el("label", { for: field.id }, text), field];
  if (hint) {
    field.setAttribute("aria-describedby", `${field.id}-hint`);
    parts.push(el("p", { class: "hint", id: `${field.id}-hint` }, hint));
  }
  return el("div", { class: "field" }, ...parts);
}

export function choice(options, value) {
  return el("select", {}, ...options.map((one) => el("option", { value: one.value, selected: one.value === value }, one.text)));
}

export function say(text) {
  document.getElementById("status").textContent = text;
}

export function wrong(error) {
  say(String(error.message ?? error));
  return el("p", { class: "wrong", role: "alert" }, String(error.message ?? error));
}

export function table(heads, rows, caption) {
  const head = el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)));
  const body = rows.map((cells) => el("tr", {}, ...cells.map((cell) => el("td", {}, cell ?? ""))));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("caption", { class: "hidden-text" }, caption), el("thead", {}, head), el("tbody", {}, ...body)));
}
