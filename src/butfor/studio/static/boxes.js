// Boxes on an image: drawn, moved, resized and deleted with mouse, touch and keyboard; every change can be undone.
import { el, say, svg } from "./dom.js";

const LEAST = 4; // pixels of the image
const CORNERS = ["nw", "ne", "sw", "se"];

export class BoxEditor {
  constructor(stored, remove) {
    this.id = stored.id;
    [this.width, this.height] = [stored.details.width, stored.details.height];
    this.list = [];
    this.past = [];
    this.counted = 0;
    this.chosen = null;
    this.drag = null;
    this.layer = svg("svg", { viewBox: `0 0 ${this.width} ${this.height}`, class: "boxes", role: "group", "aria-label": `Boxes on ${stored.name}` });
    this.image = el("img", { src: `/api/uploads/${stored.id}/content`, alt: stored.name, draggable: "false" });
    this.frame = el("div", { class: "canvas" }, this.image, this.layer);
    this.names = el("ol", { class: "names" });
    this.undoButton = el("button", { type: "button", onclick: () => this.undo() }, "Undo");
    this.deleteButton = el("button", { type: "button", onclick: () => this.delete(this.chosen) }, "Delete box");
    this.place = el("section", { class: "editor", tabindex: "-1", "aria-label": stored.name },
      el("div", { class: "bar" }, el("strong", {}, stored.name), el("span", { class: "quiet" }, `${this.width} × ${this.height}`),
        el("button", { type: "button", onclick: () => this.add() }, "Add box"), this.deleteButton, this.undoButton,
        el("button", { type: "button", class: "plain", onclick: remove }, "Remove image")),
      this.frame,
      el("p", { class: "hint" }, "Drag to draw. Drag a box to move it, a corner to resize it. Keyboard: Tab to a box; arrow keys move it (with Alt resize, with Shift ten pixels at a time); Delete deletes it; Ctrl+Z undoes."),
      this.names);
    this.layer.addEventListener("pointerdown", (event) => this.press(event));
    this.layer.addEventListener("pointermove", (event) => this.pull(event));
    for (const end of ["pointerup", "pointercancel"]) this.layer.addEventListener(end, (event) => this.release(event));
    this.place.addEventListener("keydown", (event) => this.key(event));
    this.draw();
  }

  boxes() {
    return this.list.map(({ name, x1, y1, x2, y2 }) => ({ name, x1, y1, x2, y2 }));
  }

  keep() {
    this.past.push(this.list.map((box) => ({ ...box })));
    if (this.past.length > 200) this.past.shift();
  }

  undo() {
    if (!this.past.length) return;
    this.list = this.past.pop();
    if (!this.list.some((box) => box.number === this.chosen)) this.chosen = null;
    this.draw();
    say(`Undone. ${this.list.length} boxes.`);
  }

  find(number) {
    return this.list.find((box) => box.number === number);
  }

  fresh(x, y) {
    const number = ++this.counted;
    const box = { number, name: `box ${number}`, x1: x, y1: y, x2: x, y2: y };
    this.list.push(box);
    this.chosen = number;
    return box;
  }

  add() {
    this.keep();
    const [w, h] = [Math.max(LEAST, Math.round(this.width / 4)), Math.max(LEAST, Math.round(this.height / 4))];
    const [x, y] = [Math.round((this.width - w) / 2), Math.round((this.height - h) / 2)];
    const box = this.fresh(x, y);
    [box.x2, box.y2] = [x + w, y + h];
    this.draw();
    this.focus(box.number);
    say(`${box.name} added in the middle.`);
  }

  delete(number) {
    const box = this.find(number);
    if (!box) return;
    this.keep();
    this.list = this.list.filter((one) => one !== box);
    this.chosen = null;
    this.draw();
    say(`${box.name} deleted.`);
  }

  at(event) {
    const seen = this.layer.getBoundingClientRect();
    const x = ((event.clientX - seen.left) / seen.width) * this.width;
    const y = ((event.clientY - seen.top) / seen.height) * this.height;
    return [Math.round(Math.min(Math.max(x, 0), this.width)), Math.round(Math.min(Math.max(y, 0), this.height))];
  }

  press(event) {
    if (event.button > 0 || this.drag) return;
    event.preventDefault();
    this.layer.setPointerCapture(event.pointerId);
    const [x, y] = this.at(event);
    this.keep();
    const target = event.target;
    const number = Number(target.dataset.box);
    if (number) {
      this.chosen = number;
      this.drag = { pointer: event.pointerId, number, corner: target.dataset.corner ?? null, x, y, from: { ...this.find(number) }, moved: false };
    } else {
      this.drag = { pointer: event.pointerId, number: null, x, y, moved: false };
      this.chosen = null;
    }
    this.draw();
  }

  pull(event) {
    const drag = this.drag;
    if (!drag || event.pointerId !== drag.pointer) return;
    const [x, y] = this.at(event);
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < 2) return;
    drag.moved = true;
    if (drag.number === null) {
      drag.number = this.fresh(drag.x, drag.y).number;
      drag.corner = "new";
      drag.from = { ...this.find(drag.number) };
    }
    const box = this.find(drag.number);
    if (drag.corner === "new") Object.assign(box, ordered(drag.x, drag.y, x, y));
    else if (drag.corner) this.resize(box, drag, x, y);
    else this.move(box, drag.from, x - drag.x, y - drag.y);
    this.draw();
  }

  resize(box, drag, x, y) {
    const { from, corner } = drag;
    const [fixedX, fixedY] = [corner.includes("w") ? from.x2 : from.x1, corner.includes("n") ? from.y2 : from.y1];
    Object.assign(box, ordered(fixedX, fixedY, x, y));
  }

  move(box, from, dx, dy) {
    const right = Math.min(Math.max(dx, -from.x1), this.width - from.x2);
    const down = Math.min(Math.max(dy, -from.y1), this.height - from.y2);
    Object.assign(box, { x1: from.x1 + right, x2: from.x2 + right, y1: from.y1 + down, y2: from.y2 + down });
  }

  release(event) {
    const drag = this.drag;
    if (!drag || event.pointerId !== drag.pointer) return;
    this.drag = null;
    const box = this.find(drag.number);
    if (!drag.moved) this.past.pop();
    else if (box.x2 - box.x1 < LEAST || box.y2 - box.y1 < LEAST) this.list = this.past.pop();
    else say(`${box.name}: from ${box.x1}, ${box.y1} to ${box.x2}, ${box.y2}.`);
    if (!this.find(this.chosen)) this.chosen = null;
    this.draw();
    if (this.chosen) this.focus(this.chosen);
  }

  key(event) {
    if (event.target.tagName === "INPUT") return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
      event.preventDefault();
      this.undo();
      return;
    }
    const number = Number(event.target.dataset?.box);
    const box = this.find(number);
    if (!box) return;
    if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      this.delete(number);
      return;
    }
    const step = event.shiftKey ? 10 : 1;
    const [dx, dy] = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key] ?? [0, 0];
    if (!dx && !dy) return;
    event.preventDefault();
    this.keep();
    if (event.altKey) {
      box.x2 = Math.min(Math.max(box.x2 + dx, box.x1 + LEAST), this.width);
      box.y2 = Math.min(Math.max(box.y2 + dy, box.y1 + LEAST), this.height);
    } else this.move(box, { ...box }, dx, dy);
    this.draw();
    this.focus(number);
    say(`${box.name}: from ${box.x1}, ${box.y1} to ${box.x2}, ${box.y2}.`);
  }

  focus(number) {
    const box = this.layer.querySelector(`rect.box[data-box="${number}"]`);
    (box ?? this.place).focus({ preventScroll: true }); // keys are still heard where no box is left
  }

  draw() {
    const unit = this.width / (this.layer.getBoundingClientRect().width || this.width);
    const inside = this.layer.contains(document.activeElement);
    this.layer.replaceChildren(...this.list.flatMap((box) => this.shape(box, unit)));
    if (inside) this.focus(this.chosen);
    this.names.replaceChildren(...this.list.map((box) => this.named(box)));
    this.undoButton.disabled = !this.past.length;
    this.deleteButton.disabled = this.chosen === null;
  }

  shape(box, unit) {
    const here = box.number === this.chosen;
    const common = { "data-box": box.number };
    const rect = svg("rect", { ...common, class: here ? "box here" : "box", x: box.x1, y: box.y1, width: box.x2 - box.x1, height: box.y2 - box.y1,
      tabindex: "0", role: "button", "aria-label": `${box.name}, from ${box.x1}, ${box.y1} to ${box.x2}, ${box.y2}`, "vector-effect": "non-scaling-stroke" });
    rect.addEventListener("focus", () => {
      if (this.chosen !== box.number && !this.drag) {
        this.chosen = box.number;
        this.draw();
        this.focus(box.number);
      }
    });
    const corners = here ? CORNERS.map((corner) => svg("circle", { ...common, "data-corner": corner, class: `corner ${corner}`,
      cx: corner.includes("w") ? box.x1 : box.x2, cy: corner.includes("n") ? box.y1 : box.y2, r: 8 * unit })) : [];
    return [rect, ...corners];
  }

  named(box) {
    const input = el("input", { type: "text", value: box.name, maxlength: "80", "aria-label": `Name of ${box.name}` });
    input.addEventListener("change", () => {
      this.keep();
      box.name = input.value || box.name;
      this.draw();
    });
    return el("li", {}, input);
  }
}

function ordered(xa, ya, xb, yb) {
  return { x1: Math.min(xa, xb), y1: Math.min(ya, yb), x2: Math.max(xa, xb), y2: Math.max(ya, yb) };
}
