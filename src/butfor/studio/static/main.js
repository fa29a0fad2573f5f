// Which page an address means.
import { el, say, wrong } from "./dom.js";
import { showRuns } from "./runs.js";
import { showImage } from "./new_image.js";
import { showTable } from "./new_table.js";
import { showText } from "./new_text.js";
import { showContext } from "./new_context.js";
import { showRun } from "./run.js";
import { showCompare } from "./compare.js";
import { showInterface } from "./interface.js";

const PAGES = [
  [/^#?\/?$/, showRuns, "Runs"],
  [/^#\/new\/image$/, showImage, "New image run"],
  [/^#\/new\/table$/, showTable, "New table run"],
  [/^#\/new\/text$/, showText, "New text run"],
  [/^#\/new\/context$/, showContext, "New prompt run"],
  [/^#\/run\/([0-9a-f]{32})$/, showRun, "Run"],
  [/^#\/compare(?:\/([0-9a-f]{32})\/([0-9a-f]{32}))?$/, showCompare, "Compare"],
  [/^#\/interface$/, showInterface, "API"],
];

let leave = null;
let visit = 0;

async function show() {
  const main = document.getElementById("main");
  const number = ++visit;
  if (leave) leave();
  leave = null;
  const found = PAGES.map(([pattern, page, title]) => [pattern.exec(location.hash), page, title]).find(([match]) => match);
  const [match, page, title] = found ?? [[], showRuns, "Runs"];
  document.title = `${title} · butfor studio`;
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.getAttribute("href") === location.hash || (link.getAttribute("href") === "#/" && page === showRuns);
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const place = el("div", { class: "page" });
  main.replaceChildren(place);
  say("");
  try {
    const done = await page(place, ...match.slice(1));
    if (number === visit) leave = done ?? null;
    else if (done) done();
  } catch (error) {
    place.append(wrong(error));
  }
}

addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  show().then(() => document.getElementById("main").focus({ preventScroll: true }));
  scrollTo(0, 0);
});
show();
