// Marks on a text. Places are counted in characters (code points) as Python does, not in UTF-16 units.
import { el, say } from "./dom.js";

const WORD = /([\p{L}\p{N}\p{M}’'-]+)/u;
let numbered = 0;

export const characters = (text) => Array.from(text).length;

// A text cut at places (in characters) that do not overlap: [[start, end, what]] -> [text, what or null].
export function pieces(text, spans) {
  const letters = Array.from(text);
  const found = [];
  let last = 0;
  for (const [start, end, what] of [...spans].sort((a, b) => a[0] - b[0])) {
    if (start < last) continue;
    if (start > last) found.push([letters.slice(last, start).join(""), null]);
    found.push([letters.slice(start, end).join(""), what]);
    last = end;
  }
  if (last < letters.length) found.push([letters.slice(last).join(""), null]);
  return found;
}

export class SpanMarker {
  constructor(text, label) {
    this.text = text;
    this.marked = [];
    this.past = [];
    this.cursor = 0; // words are no tab stops of their own: Chromium selects no text inside such
    this.words = el("div", { class: "marking", tabindex: "0", role: "listbox", "aria-multiselectable": "true", "aria-label": `Words of ${label}` });
    this.undoButton = el("button", { type: "button", onclick: () => this.undo() }, "Undo");
    this.place = el("section", { class: "editor", "aria-label": label },
      el("div", { class: "bar" }, el("strong", {}, label), this.undoButton,
        el("button", { type: "button", onclick: () => this.change([]) }, "Clear")),
      this.words, el("p", { class: "hint" }, "Drag to mark; click a mark to take it away. Keyboard: arrow keys go from word to word, Space marks or takes the mark away; Ctrl+Z undoes."));
    this.words.addEventListener("pointerup", () => this.released());
    this.place.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
        event.preventDefault();
        this.undo();
      }
    });
    this.words.addEventListener("keydown", (event) => this.key(event));
    this.draw();
  }

  key(event) {
    const all = this.words.querySelectorAll(".word");
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -all.length, End: all.length }[event.key];
    if (!step && event.key !== " " && event.key !== "Enter") return;
    event.preventDefault();
    if (step) this.cursor = Math.min(Math.max(this.cursor + step, 0), all.length - 1);
    else all[this.cursor]?.dispatchEvent(new CustomEvent("toggle"));
    this.point();
  }

  // Where the keyboard is.
  point() {
    const all = [...this.words.querySelectorAll(".word")];
    this.cursor = Math.min(this.cursor, Math.max(all.length - 1, 0));
    for (const [place, word] of all.entries()) word.classList.toggle("at", place === this.cursor);
    if (all.length) this.words.setAttribute("aria-activedescendant", all[this.cursor].id);
  }

  spans() {
    return this.marked.map(([start, end]) => ({ start, end }));
  }

  change(marked) {
    this.past.push(this.marked);
    this.marked = marked.sort((a, b) => a[0] - b[0]);
    this.draw();
  }

  undo() {
    if (!this.past.length) return;
    this.marked = this.past.pop();
    this.draw();
  }

  // The selection becomes a mark, trimmed of space; marks that it touches become one with it.
  released() {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed || !this.words.contains(selection.anchorNode) || !this.words.contains(selection.focusNode)) return;
    const range = selection.getRangeAt(0);
    const before = document.createRange();
    before.selectNodeContents(this.words);
    before.setEnd(range.startContainer, range.startOffset);
    const [lead, chosen] = [before.toString(), range.toString()];
    const start = characters(lead) + characters(chosen) - characters(chosen.trimStart());
    const end = characters(lead) + characters(chosen.trimEnd());
    selection.removeAllRanges();
    if (end > start) this.mark(start, end);
  }

  mark(start, end) {
    const touched = this.marked.filter(([a, b]) => a < end && b > start);
    const rest = this.marked.filter((one) => !touched.includes(one));
    const joined = [Math.min(start, ...touched.map(([a]) => a)), Math.max(end, ...touched.map(([, b]) => b))];
    this.change([...rest, joined]);
    say(`Marked: ${Array.from(this.text).slice(...joined).join("")}`);
  }

  draw() {
    const marks = this.marked.map(([a, b]) => [a, b, "mark"]);
    let at = 0;
    const nodes = [];
    for (const [text, what] of pieces(this.text, marks)) {
      if (what) nodes.push(this.word(text, at, "mark"));
      else nodes.push(...this.plain(text, at));
      at += characters(text);
    }
    this.words.replaceChildren(...nodes);
    this.point();
    this.undoButton.disabled = !this.past.length;
  }

  plain(text, from) {
    let at = from;
    return text.split(WORD).filter(Boolean).map((part) => {
      const node = WORD.test(part) ? this.word(part, at, null) : document.createTextNode(part);
      at += characters(part);
      return node;
    });
  }

  word(text, start, what) {
    const end = start + characters(text);
    const toggle = () => (what ? this.change(this.marked.filter(([a]) => a !== start)) : this.mark(start, end));
    const node = el("span", { class: what ? "word marked" : "word", id: `word-${++numbered}`, role: "option", "aria-selected": what ? "true" : "false" }, text);
    if (what) node.addEventListener("click", () => getSelection().isCollapsed && toggle());
    node.addEventListener("toggle", toggle);
    return node;
  }
}
