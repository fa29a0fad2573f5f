// A new run on images: one editor for each.
import { post, upload } from "./api.js";
import { asking, files } from "./ask.js";
import { BoxEditor } from "./boxes.js";
import { el } from "./dom.js";

export async function showImage(place) {
  const editors = [];
  const list = el("div", { class: "editors" });
  const { form, refresh } = await asking("image",
    () => ({ images: editors.map((one) => ({ upload: one.id, boxes: one.boxes() })) }), () => editors.length > 0);
  const add = (stored) => {
    const editor = new BoxEditor(stored, () => {
      editors.splice(editors.indexOf(editor), 1);
      editor.place.remove();
      refresh();
    });
    editors.push(editor);
    list.append(editor.place);
    refresh();
  };
  place.append(
    el("h1", {}, "An image"),
    el("p", { class: "lead" }, "Draw boxes around what may matter. Each is filled again and again from its surroundings, and the model is asked each time. Where nothing is drawn on any image, a grid of nine is tested."),
    files("image/png,image/jpeg", "Choose PNG or JPEG files", true, async (file) => add(await upload(file)),
      async () => add(await post("/api/examples/image"))),
    list, form);
}
