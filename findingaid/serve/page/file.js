// What a person can do with an opened artifact: copy its path, link or text, open the text alone, and download it.

import { artifactAddress } from "./address.js";
import { element, name } from "./dom.js";
import { typeOf } from "./formats.js";

let kept = null; // address of the text of the artifact that is open

/** Renders the path of an artifact and the buttons for its path, link and text. */
export function fileActions(view, text) {
  if (kept) URL.revokeObjectURL(kept);
  // Plain text, whatever it is: a browser must neither run nor render a text of the index.
  kept = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  const path = `${view.corpus}/${view.artifact_id}`;
  const told = element("span", { role: "status", className: "faint" });
  return [
    element("p", { id: "artifact-path" }, name(path)),
    copy("Copy path", path, told),
    copy("Copy link", artifactAddress(view), told),
    copy("Copy text", text, told),
    element("a", { href: kept, target: "_blank", rel: "noopener" }, "Open"),
    element("a", { href: kept, download: fileName(view) }, "Download"),
    told,
  ];
}

/** Returns the name of the file to download. The text of a converted document gets the suffix of its own format. */
function fileName({ artifact_id: id, records }) {
  const own = id.split("/").at(-1) || "text";
  const { media_type: source } = records[0]?.metadata ?? {};
  const type = typeOf(records[0]?.metadata ?? {});
  if (/\.[A-Za-z][A-Za-z0-9]{0,9}$/.test(own) && type === (source ?? "")) return own;
  return own + (type === "text/markdown" ? ".md" : ".txt");
}

function copy(label, text, told) {
  const button = element("button", { type: "button", className: "quiet" }, label);
  button.addEventListener("click", async () => {
    told.textContent = (await copied(text, button.parentElement)) ? "Copied" : "The browser did not allow to copy.";
  });
  return button;
}

/** Copies a text and returns whether that worked. Browsers have the clipboard only for HTTPS and this machine. */
async function copied(text, beside) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = element("textarea", { value: text, className: "unseen", "aria-label": "Text to copy" });
    beside.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
