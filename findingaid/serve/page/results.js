// Search hits, grouped by artifact, with explanations of their ranks.

import { leadsTo } from "./address.js";
import { call } from "./api.js";
import { element, line, moment, name, number, outdated, score, table } from "./dom.js";
import { fenced, isCode, isMarkdown, typeOf } from "./formats.js";
import { covered, excerpt, excerptLines, marked } from "./words.js";

const RANKERS = { dense: "by meaning", lexical: "by words" };
const SYNOPSIS = "through a synopsis";
const WAYS = { boost: "raised by a synopsis", collapsed: SYNOPSIS, gate: SYNOPSIS, neighbours: "through a link" };
const SEED = 300; // characters shown of the record that led to a hit

/** Groups hits by artifact, best first. A hit that only repeats others of its artifact is left out. */
export function grouped(hits) {
  const groups = new Map();
  for (const hit of hits) {
    const key = JSON.stringify([hit.corpus, hit.artifact_id]);
    groups.set(key, [...(groups.get(key) ?? []), hit]);
  }
  return [...groups.values()].map((group) => {
    const own = group.filter((hit) => !repeats(hit, group));
    return own.length ? own : group;
  });
}

/** Returns whether each sentence of a composed text, such as a synopsis, is in other hits that have a place. */
function repeats(hit, group) {
  if (hit.span) return false;
  const said = group.filter((other) => other !== hit && other.span).map((other) => bare(other.text)).join();
  return said !== "" && hit.text.split(/(?<=[.!?…])\s+|\n+/).every((sentence) => said.includes(bare(sentence)));
}

const bare = (text) => ` ${text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim()} `.replace(/^ +$/, "");

/** Renders the hits of an artifact as a list item: the best one, and the others on request. */
export function item([hit, ...others], words, rank) {
  const facts = [hit.corpus, title(hit) === hit.artifact_id ? null : hit.artifact_id].filter(Boolean);
  const of = [...facts.map(name), page(hit), dated(hit), hit.route ? way(hit) : null];
  const weak = hit.weak ? element("span", { className: "weak" }, "weak match") : null;
  const article = element(
    "article",
    { className: hit.weak ? "hit faded" : "hit" },
    element("h3", {}, element("a", { ...leadsTo(hit), "aria-describedby": `facts-${rank}` }, name(heading(hit)))),
    element("p", { className: "facts", id: `facts-${rank}` }, weak, outdated(hit), of.filter(Boolean).map((fact) => element("span", {}, fact))),
    passage(hit, words),
    others.length ? more(others, words, rank) : null,
    why(hit, rank),
  );
  return element("li", {}, article);
}

/** Renders an artifact of the list without a query: its title, its id and the time of its last change. */
export function listedItem({ corpus, artifact_id: id, title: given, changed }, rank) {
  const facts = [...[corpus, given === id ? null : id].filter(Boolean).map(name), moment(changed)];
  const article = element(
    "article",
    { className: "hit plain" },
    element("h3", {}, element("a", { ...leadsTo({ corpus, artifact_id: id }), "aria-describedby": `facts-${rank}` }, name(given))),
    element("p", { className: "facts", id: `facts-${rank}` }, facts.map((fact) => element("span", {}, fact))),
  );
  return element("li", {}, article);
}

function more(others, words, rank) {
  const rows = others.map((hit) => element("li", {}, other(hit), passage(hit, words)));
  const summary = element("summary", {}, `+${number(others.length)} more in this file`);
  summary.setAttribute("aria-label", `${summary.textContent}, number ${rank}`);
  return element("details", { className: "others" }, summary, element("ul", {}, rows));
}

function other(hit) {
  const below = headings(hit).join(" › ");
  const at = below && place(hit) ? element("span", { className: "faint" }, ` ${place(hit)}`) : null;
  return element("p", {}, element("a", leadsTo(hit), name(below || place(hit) || hit.surface_kind)), at);
}

/** Returns a link to a hit by its artifact and headings. */
export const linkTo = (hit) => element("a", leadsTo(hit), name([hit.artifact_id, ...headings(hit)].join(" › ")));

/** Returns the place of a hit in a document; null in a text without pages. */
function page({ metadata: { page: at, sheet, rows } }) {
  if (typeof sheet === "string" && Array.isArray(rows)) return `sheet ${sheet}, rows ${rows.map(number).join(" to ")}`;
  return Number.isInteger(at) ? `page ${number(at)}` : null;
}

const place = (hit) => page(hit) ?? (hit.span ? `characters ${number(hit.span[0])}–${number(hit.span[1])}` : null);

/** Returns the day that a text gives as its date, such as the day on which a mail was sent. */
function dated({ metadata: { date } }) {
  return typeof date === "string" ? (date.match(/^\d{4}-\d\d-\d\d/)?.[0] ?? null) : null;
}

function title(hit) {
  const given = hit.metadata.title;
  return typeof given === "string" && given.trim() ? given : hit.artifact_id;
}

/** Returns the headings above a passage, without one that repeats the title. */
function headings(hit) {
  const given = hit.metadata.headings;
  return Array.isArray(given) ? given.filter((one) => typeof one === "string" && one !== title(hit)) : [];
}

/** Returns the title of a hit, followed by the headings above its passage, if any. */
const heading = (hit) => [title(hit), ...headings(hit)].join(" › ");

/** Returns the part of a hit with the most words of the query. Code keeps its lines. */
function passage(hit, words) {
  const type = typeOf(hit.metadata);
  const markdown = isMarkdown(type, hit.surface_kind);
  if (!markdown && isCode(type)) return code(hit.text, words);
  if (markdown) {
    const parts = fenced(hit.text).filter(([part]) => part.trim());
    const best = Math.max(...parts.map(([part]) => covered(part, words)));
    const [part, isFenced] = parts.find(([text]) => covered(text, words) === best) ?? [hit.text, false];
    if (isFenced) return code(part.replace(/^(```|~~~).*\n?/gm, ""), words);
  }
  const text = markdown ? readable(hit.text) : hit.text.trim();
  return element("p", { className: "text", dir: "auto" }, marked(excerpt(text, words), words));
}

const code = (text, words) => element("pre", { className: "text code" }, marked(excerptLines(text, words), words));

/** Returns Markdown for skimming, without most markup and without its headings, which are shown above. */
function readable(text) {
  const prose = text
    .replace(/(?<![^])---\n[^]*?\n---$|^#{1,6} .*$|^[|:\s-]+$|^(```|~~~).*$|\*\*/gm, "")
    .replace(/!?\[([^\]\n]*)\]\([^)\s]*\)/g, "$1")
    .replace(/\s*\|[\s|]*/g, " · ");
  return prose.replace(/^[\s·]+|[\s·]+$/g, "") || text.trim();
}

function why(hit, rank) {
  const details = element("details", {}, element("summary", {}, "Why this result"));
  const body = element("div", {}, ranks(hit.ranks));
  const what = [hit.surface_kind, hit.span && `characters ${number(hit.span[0])}–${number(hit.span[1])}`, `score ${score(hit.score)}`];
  body.append(element("p", { className: "faint" }, name(what.filter(Boolean).join(", "))));
  if (hit.weight !== 1) body.append(element("p", { className: "faint" }, `Weight of its surface kind: ${score(hit.weight)}`));
  body.append(element("p", { className: "faint" }, hit.route ? `Found ${way(hit)}:` : "The query found it."));
  details.append(body);
  details.addEventListener("toggle", () => showSeed(hit, body), { once: true });
  details.querySelector("summary").setAttribute("aria-label", `Why this result, number ${rank}`);
  return details;
}

function ranks(found) {
  if (!found?.length) return element("p", { className: "faint" }, "It is in no ranking.");
  const several = found.some(({ query }) => query > 0);
  const head = ["ranking", ...(several ? ["query"] : []), "rank", "score", "adds"];
  const rows = found.map(({ ranker, query, rank, score: own, share }) => [
    RANKERS[ranker] ?? line(ranker), ...(several ? [number(query + 1)] : []), rank ? `#${number(rank)}` : "–", score(own), score(share),
  ]);
  return table(head, rows);
}

function way({ route, depth }) {
  return (WAYS[route] ?? `by ${line(route)}`) + (depth > 1 ? `, ${number(depth)} steps away` : "");
}

/** Shows a link to the record that led to a hit, with its text. It is loaded when the user opens the details. */
async function showSeed(hit, body) {
  if (!hit.seed) return;
  const place = element("div", { className: "seed" }, "…");
  body.append(place);
  try {
    const artifact = await call("show", { id: hit.seed, corpus: null, level: "records" });
    const record = artifact.records.find(({ record_id }) => record_id === hit.seed);
    const said = record ? record.text.trim() : "";
    const text = said.length > SEED ? `${said.slice(0, SEED)} …` : said;
    const kind = `${record?.surface_kind ?? "record"} of ${artifact.corpus}/${artifact.artifact_id}`;
    const link = element("a", leadsTo({ ...artifact, ...record }), name(kind));
    place.replaceChildren(element("p", { className: "faint" }, link), element("p", { dir: "auto" }, text));
  } catch (problem) {
    place.replaceChildren(problem.message);
  }
}
