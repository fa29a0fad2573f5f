// The interface of the studio, as scripts may use it too.

async function answer(response) {
  if (response.ok) return response.json();
  let sentence = `The studio answered ${response.status}.`;
  try {
    sentence = (await response.json()).detail;
  } catch {
    if (response.status === 401) sentence = "This page is of a studio that was closed: open the link of the new one.";
  }
  throw new Error(sentence);
}

export const get = async (path) => answer(await fetch(path));

export const post = async (path, body) =>
  answer(await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body ?? {}) }));

export async function upload(file) {
  const { most_upload: most } = await get("/api/offers"); // the server cuts off what is larger, without a word that a page could read
  if (file.size > most) throw new Error(`${file.name} has more than ${Math.round(most / 1e6)} MB; choose a smaller file.`);
  return answer(await fetch(`/api/uploads?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file }));
}

// Follow a run until it has ended; returns a function that stops following.
export function follow(id, heard, lost) {
  const source = new EventSource(`/api/runs/${id}/events`);
  source.onmessage = (event) => {
    const state = JSON.parse(event.data);
    if (ended(state)) source.close();
    heard(state);
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) lost();
  };
  return () => source.close();
}

export const ended = (state) => ["done", "failed", "cancelled", "stopped"].includes(state.state);
