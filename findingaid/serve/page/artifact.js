// Text of one artifact with a marked passage.

import { leadsTo } from "./address.js";
import { count, element, line, name, noteText } from "./dom.js";
import { isCode, isMarkdown, typeOf } from "./formats.js";
import { markdownNodes } from "./markdown.js";
import { marked } from "./words.js";

const GAP = 8; // largest gap in characters between two records that counts as the space between paragraphs
const PIECE = 3_000; // characters in a unit of layout

/** Text with positions in code points, as the server counts, instead of JavaScript's UTF-16 code units. */
class Text {
  constructor(text) {
    this.text = text;
    this.wide = []; // positions of code points that take two code units
    for (const { index } of text.matchAll(/[\u{10000}-\u{10ffff}]/gu)) this.wide.push(index - this.wide.length);
    this.length = text.length - this.wide.length;
  }

  unit(point) {
    let [low, high] = [0, this.wide.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.wide[middle] < point) low = middle + 1;
      else high = middle;
    }
    return point + low;
  }

  part(start, end = this.length) {
    return this.text.slice(this.unit(start), this.unit(end));
  }
}

const isClaim = ({ surface_kind: kind }) => kind === "claim";
const isCut = ({ span, producer_id: writer, text }) => span && !writer && new Text(text).length === span[1] - span[0];

/** Groups records in plan order into blocks. If the records were cut from `body`, the body is a single block. */
function blocks(records, body) {
  const cut = records.filter(isCut);
  const text = body === null ? null : new Text(body);
  if (!text || !cut.length || !cut.every((record) => text.part(...record.span) === record.text)) return together(records);
  const whole = { kind: "text", text: body, span: [0, text.length], ids: new Set(cut.map(({ record_id }) => record_id)) };
  return [...together(records.filter(({ record_id }) => !whole.ids.has(record_id))), whole];
}

/** Groups records without a known whole text: records of one kind that overlap or adjoin become one block. */
function together(records) {
  const found = [];
  let before = null;
  for (const record of records) {
    const { text, surface_kind: kind, record_id: id, producer_id: writer, span } = record;
    const gap = before && before.surface_kind === kind && isCut(record) ? gapOf(before, record) : Infinity;
    if (gap > GAP) {
      found.push({ kind, text, span: isCut(record) ? [...span] : null, ids: new Set([id]), writer });
    } else {
      const last = found.at(-1);
      last.text += gap > 0 ? "\n".repeat(gap) + text : new Text(text).part(-gap);
      last.span[1] = span[1];
      last.ids.add(id);
    }
    before = isCut(record) ? record : null;
  }
  return found;
}

/** Returns the characters between two records: negative if they overlap, infinite if they are from different texts. */
function gapOf(before, record) {
  const gap = record.span[0] - before.span[1];
  const onwards = before.span[0] <= record.span[0] && before.span[1] <= record.span[1];
  const shared = gap < 0 && onwards ? new Text(before.text).part(record.span[0] - before.span[0]) : "";
  return onwards && record.text.startsWith(shared) ? gap : Infinity;
}

/**
 * Renders an artifact. The passage `wanted` is in elements of class `passage`: a record, or without one the span of a
 * version. `body` may be null. `refersTo` and `referredBy` are its neighbours.
 */
export function artifactNodes(view, body, wanted, words, { refersTo, referredBy }) {
  const all = blocks(view.records.filter((record) => !isClaim(record)), body);
  const record = view.records.find(({ record_id }) => record_id === wanted.record);
  const span = wanted.record ? record?.span : wanted.span;
  const covers = (block) => span && block.span && block.span[0] <= span[0] && span[1] <= block.span[1];
  const within = all.find((block) => covers(block) && block.ids.has(wanted.record)) ?? all.find(covers);
  const type = typeOf(view.records[0].metadata);
  const claims = view.records.filter(isClaim);
  const artifactOf = targets(refersTo, view.artifact_id);
  return [
    element(
      "p", { className: "faint" },
      `Version ${view.artifact_version.slice(0, 8)}, ${count(view.records.length, "passage")}`,
    ),
    ...view.notes.map((note) => element("p", { className: "note" }, line(noteText(note)))),
    changed(wanted, record, view),
    ...all.map((block) => shown(block, block === within ? span : null, !within && block.ids.has(wanted.record), words, type, artifactOf)),
    referredBy.length ? backlinks(referredBy) : null,
    claims.length ? stated(claims, within ? null : wanted.record) : null,
  ].filter(Boolean);
}

/**
 * Returns a note if the artifact has changed since the passage was found, otherwise null. A record's id depends on its
 * position, so a newer version of the artifact may have another text there, or none.
 */
function changed(wanted, record, view) {
  const moved = record && wanted.span && String(wanted.span) !== String(record.span);
  const later = !wanted.record && wanted.version && wanted.version !== view.artifact_version;
  if (!later && !moved && (record || !wanted.record)) return null;
  const what = record || later ? "The marked passage may be another one." : "It no longer contains the passage.";
  return element("p", { className: "note" }, `This artifact has changed since this search. ${what}`);
}

/** Returns a function that maps the target of a link, or the name in a wiki link, to the published artifact. */
function targets(refersTo, id) {
  const published = refersTo.filter(({ title }) => title !== null);
  const found = new Map(published.map(({ corpus, artifact_id, link }) => [link ? `[[${link}` : artifact_id, { corpus, artifact_id }]));
  return (target, wiki) => found.get(wiki ? `[[${target.normalize("NFC").trim()}` : pathOf(target, id));
}

/** Returns the id of the file that a target leads to from the file `id`; "" if that is not below their root. */
function pathOf(target, id) {
  try {
    const root = new URL("http://root");
    const url = new URL(target.replace(/^<|>$/g, ""), new URL(id.split("/").map(encodeURIComponent).join("/"), root));
    return url.origin === root.origin ? decodeURIComponent(url.pathname.slice(1)) : "";
  } catch {
    return "";
  }
}

/** Lists the artifacts that refer to one, each with a link to the first place where it does. */
function backlinks(referredBy) {
  const first = new Map(referredBy.toReversed().map((one) => [JSON.stringify([one.corpus, one.artifact_id]), one]));
  const items = [...first.values()].reverse().map((one) =>
    element("li", {}, element("a", leadsTo(one), name(one.title ?? one.artifact_id)), " ", element("span", { className: "faint" }, name(one.artifact_id))),
  );
  const list = element("details", {}, element("summary", {}, `Linked from: ${count(items.length, "text")}`), element("ul", {}, items));
  return element("section", { className: "block backlinks" }, list);
}

function shown(block, span, whole, words, type, artifactOf) {
  const text = new Text(block.text);
  const marks = span ? span.map((at) => text.unit(at - block.span[0])) : whole ? [0, block.text.length] : [-1, -1];
  const by = block.writer ? element("span", {}, ", written by ", name(block.writer)) : null;
  const literal = writer(block.text, marks, words);
  const markdown = !block.writer && isMarkdown(type, block.kind);
  const body = (markdown && rendered(block.text, marks, literal, artifactOf)) || plain(block.text, literal, !block.writer && isCode(type));
  return element("section", { className: "block" }, element("h3", {}, name(block.kind), by), body);
}

/** Returns a function that renders a range of a text, with the part of it that is in the passage marked. */
function writer(text, [start, end], words) {
  return (from, to, instead = null) => {
    const [first, last] = [start, end].map((at) => Math.min(Math.max(at, from), to));
    const passage = text.slice(first, last);
    if (!passage.trim()) return [instead ?? text.slice(from, to)];
    const mark = element("mark", { className: "passage", tabIndex: -1 }, instead ?? marked(passage, words));
    return instead ? [mark] : [text.slice(from, first), mark, text.slice(last, to)];
  };
}

/** Renders Markdown. Returns null if it does not show the passage, such as the target of a link. */
function rendered(text, [start, end], literal, artifactOf) {
  const long = (from, to, instead) => (to - from > 2 * PIECE ? separate(text, from, to, literal) : literal(from, to, instead));
  const made = element("div", {}, markdownNodes(text, long, artifactOf));
  return text.slice(Math.max(start, 0), Math.max(end, 0)).trim() && !made.querySelector(".passage") ? null : made;
}

const plain = (text, literal, code) => element("pre", { className: code ? "code" : "" }, separate(text, 0, text.length, literal));

/** Renders a range of a text in pieces that the browser lays out separately, so that only visible ones cost time. */
function separate(text, from, to, literal) {
  const parts = [...pieces(text.slice(from, to))];
  return parts.map(([start, end]) => element("span", { className: "piece" }, literal(from + start, from + end)));
}

/** Yields [start, end] of the pieces of a text, which end with a line or a word if possible. */
function* pieces(text) {
  for (let from = 0; from < text.length; ) {
    let to = text.indexOf("\n", from + PIECE) + 1 || text.length;
    if (to > from + 2 * PIECE) to = text.lastIndexOf(" ", from + 2 * PIECE) + 1;
    if (to <= from) to = text.codePointAt(from + PIECE - 1) > 0xffff ? from + PIECE + 1 : from + PIECE;
    yield [from, to];
    from = to;
  }
}

function stated(claims, wanted) {
  const items = claims.map(({ record_id, text }) =>
    element("li", record_id === wanted ? { className: "passage", tabIndex: -1, dir: "auto" } : { dir: "auto" }, text),
  );
  const details = element("details", { open: claims.some(({ record_id }) => record_id === wanted) });
  details.append(element("summary", {}, `Statements: ${count(claims.length, "claim")}`), element("ul", {}, items));
  return element("section", { className: "block" }, details);
}
