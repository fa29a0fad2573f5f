// The operations of the studio, from its own OpenAPI description; and a link for a script or another browser.
import { get, post } from "./api.js";
import { el, table } from "./dom.js";

export async function showInterface(place) {
  const described = await get("/api/openapi.json");
  const rows = Object.entries(described.paths).flatMap(([path, ways]) =>
    Object.entries(ways).map(([method, one]) => [el("code", {}, `${method.toUpperCase()} ${path}`), one.description ?? one.summary ?? ""]));
  const link = el("p", { class: "link" });
  place.append(
    el("h1", {}, "API"),
    el("p", { class: "lead" }, "Everything that the page does, a script can do."),
    el("p", {}, "OpenAPI: ", el("a", { href: "/api/openapi.json" }, "/api/openapi.json"), ". A script opens a link once and keeps the cookie."),
    el("button", { type: "button", onclick: async () => { link.textContent = (await post("/api/tokens")).url; } }, "New link"), link,
    table(["Operation", "What it does"], rows, "Operations"));
}
