// Pictures of scanned pages with the place of a passage marked.

import { call, Problem } from "./api.js";
import { element, number } from "./dom.js";

/** Returns the places of a passage on scanned pages, [page, left, top, right, bottom]; none in any other text. */
export function scannedPlaces(view, { record: id, span }) {
  const holds = ({ record_id, span: own }) =>
    id ? record_id === id : span && own && own[0] < span[1] && span[0] < own[1];
  const boxes = view.records.find(holds)?.metadata.boxes;
  return Array.isArray(boxes) ? boxes : [];
}

/** Fills `place` with the pictures of the pages, one after the other, and returns the first mark; null without any. */
export async function showScans(place, { corpus, artifact_id: id, artifact_version }, boxes, signal) {
  for (const [page, ...box] of boxes) {
    const figure = element("figure", {}, element("p", { className: "faint" }, `Loading page ${number(page)} …`));
    place.append(figure);
    try {
      const found = await call("picture", { id, corpus, artifact_version, page }, signal);
      figure.replaceChildren(...pictured(found, page, box));
    } catch (error) {
      if (!(error instanceof Problem) || error.status === 401) throw error;
      figure.replaceChildren(element("p", { className: "note" }, `No picture of page ${number(page)}: ${error.message}`));
    }
  }
  return place.querySelector(".box");
}

function pictured({ picture, width, height }, page, [left, top, right, bottom]) {
  const shown = element("img", { src: `data:image/jpeg;base64,${picture}`, alt: `Picture of page ${number(page)}`, width, height });
  const mark = element("div", { className: "box", tabIndex: -1 });
  const part = (length, whole) => `${(100 * length) / whole}%`;
  mark.style.insetInlineStart = part(left, width);
  mark.style.insetBlockStart = part(top, height);
  mark.style.inlineSize = part(right - left, width);
  mark.style.blockSize = part(bottom - top, height);
  return [element("div", { className: "scan", dir: "ltr" }, shown, mark), element("figcaption", { className: "faint" }, `Page ${number(page)}`)];
}
