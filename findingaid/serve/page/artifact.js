// One artifact as text, put together again from the records that were cut from it, with a passage marked.

import { count, element, name } from "./dom.js";
import { marked } from "./words.js";

const GAP = 8; // characters between two records that are taken for the space between paragraphs

/** A part of a text by code points, as the server counts, not by JavaScript's units. */
function part(text, start, end) {
  return /[\ud800-\udfff]/.test(text) ? [...text].slice(start, end).join("") : text.slice(start, end);
}

const points = (text) => (/[\ud800-\udfff]/.test(text) ? [...text].length : text.length);

/** Records in plan order as blocks: those of one kind that follow on each other in the artifact's text are one. */
function blocks(records) {
  const found = [];
  for (const record of records) {
    const { text, surface_kind: kind, span, record_id: id } = record;
    const cut = span && !record.producer_id && points(text) === span[1] - span[0];
    const last = found.at(-1);
    const gap = cut && last?.span && last.kind === kind && span[0] >= last.span[0] ? span[0] - last.span[1] : Infinity;
    if (gap > GAP) {
      found.push({ kind, parts: [text], span: cut ? [...span] : null, ids: new Set([id]), generated: Boolean(record.producer_id) });
      continue;
    }
    last.ids.add(id);
    if (span[1] > last.span[1]) {
      last.parts.push(gap > 0 ? "\n".repeat(gap) + text : part(text, -gap, points(text)));
      last.span[1] = span[1];
    }
  }
  return found;
}

/** The artifact as nodes, the passage being the element of class `passage`: `wanted` is {record, span}. */
export function artifactNodes(view, wanted, words) {
  const claims = view.records.filter(({ surface_kind: kind }) => kind === "claim");
  const all = blocks(view.records.filter(({ surface_kind: kind }) => kind !== "claim"));
  const record = view.records.find(({ record_id }) => record_id === wanted.record);
  const span = wanted.span ?? record?.span;
  const covers = (block) => span && block.span && block.span[0] <= span[0] && span[1] <= block.span[1];
  const within = all.find((block) => covers(block) && block.ids.has(wanted.record)) ?? all.find(covers);
  const facts = `version ${view.artifact_version.slice(0, 8)}, ${count(view.records.length, "record")}`;
  return [
    element("p", { className: "faint" }, name(`${view.corpus}/${view.artifact_id}`), ` · ${facts}`),
    ...all.map((block) => shown(block, block === within ? span : null, !within && block.ids.has(wanted.record), words)),
    claims.length ? stated(claims, within ? null : wanted.record) : null,
  ].filter(Boolean);
}

function shown(block, span, whole, words) {
  const text = block.parts.join("");
  const pre = element("pre", { dir: "auto" });
  if (span) {
    const [start, end] = [span[0] - block.span[0], span[1] - block.span[0]];
    const passage = element("mark", { className: "passage", tabIndex: -1 }, marked(part(text, start, end), words));
    pre.append(part(text, 0, start), passage, part(text, end, points(text)));
  } else if (whole) {
    Object.assign(pre, { className: "passage", tabIndex: -1 });
    pre.append(...marked(text, words));
  } else {
    pre.append(text);
  }
  const kind = block.generated ? `${block.kind}, written by a model or a rule` : block.kind;
  return element("section", { className: "block" }, element("h3", {}, name(kind)), pre);
}

function stated(claims, wanted) {
  const items = claims.map(({ record_id, text }) =>
    element("li", record_id === wanted ? { className: "passage", tabIndex: -1, dir: "auto" } : { dir: "auto" }, text),
  );
  const details = element("details", { open: claims.some(({ record_id }) => record_id === wanted) });
  details.append(element("summary", {}, `What it states: ${count(claims.length, "claim")}`), element("ul", {}, items));
  return element("section", { className: "block" }, details);
}
