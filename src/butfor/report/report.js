"use strict";
(() => {
  const byId = id => document.getElementById(id);
  const make = (tag, text, kind) => { const e = document.createElement(tag); if (text !== undefined && text !== null) e.textContent = text; if (kind) e.className = kind; return e; };
  const cell = (text, kind, label) => { const e = make("td", text, kind); e.dataset.label = label; return e; };
  const draw = (tag, facts) => { const e = document.createElementNS("http://www.w3.org/2000/svg", tag); for (const k in facts) e.setAttribute(k, facts[k]); return e; };
  const data = JSON.parse(byId("data").textContent), inputs = data.inputs, count = inputs.name.length, SIZE = 20;
  document.documentElement.classList.add("js");

  function number(v, sign) {
    if (v === null || v === undefined) return "";
    const a = Math.abs(v);
    let s = a >= 1000 && a < 1e9 ? Math.round(a).toLocaleString("en-US") : a !== 0 && (a < 1e-4 || a >= 1e9) ? a.toExponential(2).replace(/\.?0+e/, "e").replace(/e([+-])(\d)$/, "e$10$2") : String(Number(a.toPrecision(3)));
    s = s.replace("e-", "e\u2212");
    return (v < 0 ? "\u2212" : sign && v ? "+" : "") + s;
  }
  const percent = v => v === null || v === undefined ? "" : Math.round(100 * v) + " %";

  const parts = new Map();
  function hypotheses(place) {
    const k = Math.floor(place / data.part);
    if (!parts.has(k)) parts.set(k, JSON.parse(byId("part-" + k).textContent));
    return parts.get(k)[place % data.part];
  }

  let order = [...Array(count).keys()], shown = order, page = 0, chosen = -1;
  const list = byId("inputs"), body = list && list.tBodies[0];

  const reasonOf = k => inputs.reason[k] < 0 ? data.untested : data.subsets[inputs.reason[k]];

  function row(place) {
    const tr = make("tr"), sure = inputs.sure[place];
    tr.tabIndex = place === chosen || (chosen < 0 && place === shown[page * SIZE]) ? 0 : -1;
    tr.dataset.place = place;
    tr.setAttribute("aria-selected", place === chosen);
    if (!sure) tr.className = "unsure";
    const name = make("th", inputs.name[place]); name.scope = "row";
    const reason = make("td", reasonOf(place) + (inputs.value[place] ? " " : ""));
    if (inputs.value[place]) reason.append(make("span", inputs.value[place], "v"));
    tr.append(name, make("td", inputs.called[place], "wide"), make("td", number(inputs.output[place]), "n wide"), reason, cell(number(inputs.effect[place], true), "n", "effect"));
    if (inputs.flip) tr.append(cell(percent(inputs.flip[place]), inputs.necessary[place] ? "n yes" : "n", "otherwise"));
    tr.append(make("td", inputs.findings[place] || "", "n wide"));
    return tr;
  }

  function show() {
    const last = Math.max(0, Math.ceil(shown.length / SIZE) - 1);
    page = Math.min(Math.max(page, 0), last);
    body.replaceChildren(...shown.slice(page * SIZE, (page + 1) * SIZE).map(row));
    byId("page").textContent = "Page " + (page + 1) + " of " + (last + 1);
    byId("count").textContent = shown.length.toLocaleString("en-US") + " of " + count.toLocaleString("en-US") + " inputs";
    byId("before").disabled = page === 0;
    byId("after").disabled = page === last;
  }

  const texts = inputs.name.map((name, k) => (name + "\n" + inputs.called[k] + "\n" + reasonOf(k)).toLowerCase());
  function filter() {
    const words = byId("search").value.toLowerCase(), kind = byId("filter").value, reason = byId("reason").value;
    shown = order.filter(k => (!words || texts[k].includes(words)) && (reason === "" || inputs.reason[k] === Number(reason)) &&
      (!kind || (kind === "sure" ? inputs.findings[k] > 0 : kind === "necessary" ? inputs.necessary[k] : !inputs.sure[k])));
    page = 0;
    show();
  }

  function sortBy(th) {
    const by = th.dataset.by, down = th.getAttribute("aria-sort") === "descending";
    for (const other of list.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", down ? "ascending" : "descending");
    const value = by === "reason" ? reasonOf : by === "effect" ? k => inputs.effect[k] === null ? null : Math.abs(inputs.effect[k]) : k => inputs[by][k];
    const sign = down ? 1 : -1;
    order.sort((a, b) => { const x = value(a), y = value(b); if (x === null || y === null) return (x === null) - (y === null) || a - b; return (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y) * sign || a - b; });
    filter();
  }

  function track(low, middle, high, scale, label) {
    const svg = draw("svg", { class: "track", role: "img", "aria-label": label });
    svg.append(draw("line", { class: "zero", x1: scale(0) + "%", x2: scale(0) + "%", y1: 0, y2: 16 }));
    if (middle === null) return svg;
    if (low !== null && high !== null) svg.append(draw("line", { class: "span", x1: scale(low) + "%", x2: scale(high) + "%", y1: 8, y2: 8 }));
    svg.append(draw("circle", { cx: scale(middle) + "%", cy: 8, r: 4 }));
    return svg;
  }

  function table(titles, rows, label) {
    const t = make("table", null, "lines"), head = make("tr");
    for (const [title, kind] of titles) { const th = make("th", title, kind); th.scope = "col"; head.append(th); }
    t.append(document.createElement("thead"), document.createElement("tbody"));
    t.tHead.append(head);
    t.tBodies[0].append(...rows);
    const scroll = make("div", null, "scroll");
    scroll.tabIndex = 0; scroll.setAttribute("role", "region"); scroll.setAttribute("aria-label", label);
    scroll.append(t);
    return scroll;
  }

  function full(place) {
    const own = hypotheses(place), n = own.subset.length, panel = byId("full");
    const known = k => own.sure[k] || (own.necessary && own.necessary[k]) ? 1 : 0, size = k => Math.abs(own.effect[k] || 0);
    const rows = [...Array(n).keys()].sort((a, b) => known(b) - known(a) || own.finest[b] - own.finest[a] || size(b) - size(a) || a - b);
    const open = Math.max(data.unfolded, rows.filter(known).length);
    const ends = [0, ...own.effect, ...own.low, ...own.high].filter(v => v !== null);
    const least = Math.min(...ends), most = Math.max(...ends), scale = v => (2 + 96 * (v - least) / ((most - least) || 1)).toFixed(2);
    const tested = data.finding === "unusual", titles = [["Feature"], ["Effect", "n"], ["95 % interval", "n"], ["Picture", "pic"]];
    if (tested) titles.push(["Extreme", "n"]);
    if (own.flip) titles.push(["Otherwise", "n"]);
    const scored = data.evidence === "score" || !tested;  // a score of few-shot says nothing by itself
    if (!scored) titles.push([data.evidence, "n wide"]);
    if (tested) titles.push(["q", "n wide"]);
    titles.push(["Status"]);
    const lines = rows.map((k, at) => {
      const tr = make("tr", null, (known(k) ? "" : "unsure") + (at >= open ? " deep" : ""));
      const name = make("th", data.subsets[own.subset[k]] + (own.value[k] ? " " : "")); name.scope = "row"; name.title = data.members[data.subsets[own.subset[k]]] || "";
      if (own.value[k]) name.append(make("span", own.value[k], "v"));
      const interval = own.low[k] === null || own.low[k] === own.high[k] ? "" : number(own.low[k], true) + " to " + number(own.high[k], true);
      const pic = make("td", null, "pic"); pic.append(track(own.low[k], own.effect[k], own.high[k], scale, "effect " + (number(own.effect[k], true) || "not estimated")));
      tr.append(name, cell(number(own.effect[k], true), "n", "effect"), cell(interval, "n", "95 %:"), pic);
      if (tested) tr.append(cell(percent(own.surprise[k]), "n", "extreme"));
      if (own.flip) { const wide = own.flip_low[k] < .005 && own.flip_high[k] > .995, td = cell(wide ? "unknown" : percent(own.flip[k]), own.necessary[k] ? "n yes" : "n", "otherwise"); if (own.flip_low[k] !== null && !wide) td.append(" ", make("span", "(" + Math.round(100 * own.flip_low[k]) + " to " + percent(own.flip_high[k]) + ")", "soft")); tr.append(td); }
      if (!scored) tr.append(make("td", number(own.evidence[k]), "n wide"));
      if (tested) tr.append(make("td", number(own.q[k]), "n wide"));
      tr.append(make("td", data.statuses[own.status[k]], "status"));
      return tr;
    });
    const head = make("h3", inputs.name[place]), summary = make("p", (inputs.called[place] ? "The model says " + inputs.called[place] + "; " : "") + (inputs.outputs ? inputs.outputs[place] : data.output) + " " + number(inputs.output[place]) + ".", "soft");
    const reasons = table(titles, lines, "reasons of this input"), more = [];
    if (n > open) {
      const button = make("button", "Show " + (n - open) + " more: no findings", "unfold"), p = make("p", null, "tools"); button.type = "button";
      reasons.firstChild.classList.add("folded"); p.append(button); more.push(p);
    }
    panel.replaceChildren(head, summary, reasons, ...more, ...near(own), ...drawn(own));
  }

  const near = own => (own.near || []).filter(c => c.changes.length).map(c => {
    const box = make("div");
    const rows = c.changes.map(([name, before, after]) => { const tr = make("tr"), th = make("th", name); th.scope = "row"; tr.append(th, make("td", before, "n was"), make("td", after, "n will")); return tr; });
    box.append(make("h3", "The nearest case in which the decision changes, with " + c.subset + " redrawn"), make("p", c.output + " " + c.before + " \u2192 " + c.after + (c.more ? "; and " + c.more + " more columns" : ""), "soft"), table([["Column"], ["Is", "n"], ["Would be", "n"]], rows, "nearest case, by " + c.subset));
    return box;
  });

  const drawn = own => (own.draws || []).filter(c => c.columns.length).map(c => {
    const box = make("div"), titles = [["Column"], ["Observed", "n"], ...c.columns[0][2].map((_, k) => ["Draw " + (k + 1), "n"])];
    const rows = c.columns.map(([name, seen, values]) => { const tr = make("tr"), th = make("th", name); th.scope = "row"; tr.append(th, make("td", seen, "n seen"), ...values.map(v => make("td", v, "n"))); return tr; });
    box.append(make("h3", "Counterfactuals of " + c.subset), table(titles, rows, "counterfactuals of " + c.subset));
    return box;
  });

  function choose(place, focus) {
    chosen = place;
    full(place);
    openPage(place);
    if (!body) return;
    const at = shown.indexOf(place);
    if (at >= 0) { page = Math.floor(at / SIZE); show(); }
    const tr = body.querySelector('tr[aria-selected="true"]');
    if (tr && focus) tr.focus();
  }

  function step(by, focus) {
    const at = shown.indexOf(chosen < 0 ? start : chosen), next = shown[Math.min(Math.max(at + by, 0), shown.length - 1)];
    if (next !== undefined) choose(next, focus);
  }

  /* Pages of images and texts: the first stands in the document, the others in templates until they are asked for. */
  const pages = byId("pages"), kept = [];
  let current = 0;
  function openPage(place) {
    if (!pages) return;
    const of = place < 0 ? current + (place === -1 ? 1 : -1) : Number((pages.dataset.order || "").split(",").indexOf(String(place)) < 0 ? -1 : Math.floor(pages.dataset.order.split(",").indexOf(String(place)) / Number(pages.dataset.size)));
    if (of < 0 || of >= kept.length || of === current) return;
    kept[current].replaceChildren(...pages.childNodes);
    current = of;
    pages.replaceChildren(...kept[of].childNodes);
    tellPage();
  }
  function tellPage() {
    byId("of-pages").textContent = "Page " + (current + 1) + " of " + kept.length;
    byId("page-before").disabled = current === 0;
    byId("page-after").disabled = current === kept.length - 1;
  }
  if (pages) {
    kept.push(document.createDocumentFragment());
    for (const t of document.querySelectorAll("template.page")) kept.push(t.content);
    byId("page-before").addEventListener("click", () => openPage(-2));
    byId("page-after").addEventListener("click", () => openPage(-1));
    tellPage();
  }

  /* A thumbnail opens its image. A sandboxed frame, such as MLflow's, opens no fragment. What is printed is all open. */
  document.addEventListener("click", event => {
    const link = event.target.closest("a[href^='#']"), there = link && byId(link.hash.slice(1));
    if (!there) return;
    if (link.closest(".sheet")) there.open = true;
    if (window !== window.top) { event.preventDefault(); there.tabIndex = -1; there.focus(); there.scrollIntoView(); }
  });
  window.addEventListener("beforeprint", () => { for (const d of document.querySelectorAll("details")) d.open = true; });

  for (const t of document.querySelectorAll("table.sortable")) for (const th of t.tHead.querySelectorAll("[data-sort]")) {
    const button = make("button", th.textContent), column = th.cellIndex; button.type = "button";
    th.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = th.getAttribute("aria-sort") !== "descending";
      for (const other of t.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = tr => parseFloat(tr.cells[column].textContent.replace("\u2212", "-").replace(/,/g, "")) || 0;
      t.classList.remove("folded");
      const unfold = t.parentNode.nextElementSibling;
      if (unfold && unfold.querySelector("button.unfold")) unfold.remove();
      t.tBodies[0].append(...[...t.tBodies[0].rows].sort((a, b) => (value(b) - value(a)) * (down ? 1 : -1)));
    });
  }

  const start = Math.max(0, inputs.name.indexOf(byId("full").querySelector("h3").textContent));
  if (list) {
    for (const th of list.tHead.rows[0].cells) {
      const button = make("button", th.textContent); button.type = "button";
      th.replaceChildren(button);
      button.addEventListener("click", () => sortBy(th));
    }
    for (const k of [...new Set(inputs.reason)].filter(k => k >= 0).sort((a, b) => data.subsets[a].localeCompare(data.subsets[b]))) { const o = make("option", data.subsets[k]); o.value = k; byId("reason").append(o); }
    for (const id of ["search", "filter", "reason"]) byId(id).addEventListener("input", filter);
    byId("before").addEventListener("click", () => { page -= 1; show(); });
    byId("after").addEventListener("click", () => { page += 1; show(); });
    body.addEventListener("click", event => { const tr = event.target.closest("tr"); if (tr) choose(Number(tr.dataset.place)); });
    body.addEventListener("keydown", event => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); const tr = event.target.closest("tr"); if (chosen < 0 && tr) chosen = Number(tr.dataset.place); step(event.key === "ArrowDown" ? 1 : -1, true); }
      if (event.key === "Enter") { const tr = event.target.closest("tr"); if (tr) choose(Number(tr.dataset.place), true); }
    });
    order.sort((a, b) => inputs.sure[b] - inputs.sure[a] || a - b);
    filter();
  }
  /* What is no finding is folded away where it is long: the table before the button has it. */
  document.addEventListener("click", event => {
    const button = event.target.closest("button.unfold");
    if (!button) return;
    button.parentNode.previousElementSibling.querySelector("table").classList.remove("folded");
    button.parentNode.remove();
  });
  if (byId("next-input")) {
    byId("previous-input").addEventListener("click", () => step(-1));
    byId("next-input").addEventListener("click", () => step(1));
  }
  chosen = start;
  if (list) show();
})();
