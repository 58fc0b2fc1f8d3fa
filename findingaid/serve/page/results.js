// Hits, and why each is where it is.

import { leadsTo } from "./address.js";
import { call } from "./api.js";
import { element, line, name, number, score, table } from "./dom.js";
import { excerpt, marked } from "./words.js";

const RANKERS = { dense: "by meaning", lexical: "by words" };
const SYNOPSIS = "by way of a synopsis";
const WAYS = { boost: "with the help of a synopsis", collapsed: SYNOPSIS, gate: SYNOPSIS, neighbours: "by way of a link" };
const SEED = 300; // characters of the record that led to a hit

/** A hit as an item of the list. */
export function item(hit, words, rank) {
  const facts = [hit.corpus, title(hit) === hit.artifact_id ? null : hit.artifact_id, hit.surface_kind].filter(Boolean);
  const of = [...facts.map(name), place(hit), `score ${score(hit.score)}`, hit.route ? way(hit) : null];
  const article = element(
    "article",
    { className: "hit" },
    element("h3", {}, element("a", { ...leadsTo(hit), "aria-describedby": `facts-${rank}` }, name(heading(hit)))),
    element("p", { className: "facts", id: `facts-${rank}` }, of.filter(Boolean).map((fact) => element("span", {}, fact))),
    element("p", { className: "text", dir: "auto" }, marked(excerpt(readable(hit), words), words)),
    why(hit, rank),
  );
  return element("li", {}, article);
}

function place({ span, metadata: { page } }) {
  if (Number.isInteger(page)) return `page ${number(page)}`;
  return span ? `characters ${number(span[0])}–${number(span[1])}` : null;
}

function title(hit) {
  const given = hit.metadata.title;
  return typeof given === "string" && given.trim() ? given : hit.artifact_id;
}

/** The title, and below it the headings that a passage stands under, where there are any. */
function heading(hit) {
  const { headings } = hit.metadata;
  const below = Array.isArray(headings) ? headings.filter((one) => typeof one === "string" && one !== title(hit)) : [];
  return [title(hit), ...below].join(" › ");
}

/** The text of a hit to be read in passing: of Markdown without headings, which stand above it, and most of its marks. */
function readable(hit) {
  const { media_type: kept, text_type: type = kept } = hit.metadata;
  if (type !== "text/markdown" && hit.surface_kind !== "readme") return hit.text.trim();
  const prose = hit.text
    .replace(/(?<![^])---\n[^]*?\n---$|^#{1,6} .*$|^[|:\s-]+$|^(```|~~~).*$|\*\*/gm, "")
    .replace(/!?\[([^\]\n]*)\]\([^)\s]*\)/g, "$1")
    .replace(/\s*\|[\s|]*/g, " · ");
  return prose.replace(/^[\s·]+|[\s·]+$/g, "") || hit.text.trim();
}

function why(hit, rank) {
  const details = element("details", {}, element("summary", {}, "Why this result"));
  const body = element("div", {}, ranks(hit.ranks));
  if (hit.weight !== 1) body.append(element("p", { className: "faint" }, `Weight of its kind: ${score(hit.weight)}`));
  body.append(element("p", { className: "faint" }, hit.route ? `Found ${way(hit)}:` : "The query found it."));
  details.append(body);
  details.addEventListener("toggle", () => showSeed(hit, body), { once: true });
  details.querySelector("summary").setAttribute("aria-label", `Why this result, number ${rank}`);
  return details;
}

function ranks(found) {
  if (!found?.length) return element("p", { className: "faint" }, "No ranking has it.");
  const several = found.some(({ query }) => query > 0);
  const head = ["ranked", ...(several ? ["query"] : []), "place", "its score", "adds"];
  const rows = found.map(({ ranker, query, rank, score: own, share }) => [
    RANKERS[ranker] ?? line(ranker), ...(several ? [number(query + 1)] : []), `#${number(rank)}`, score(own), score(share),
  ]);
  return table(head, rows);
}

function way({ route, depth }) {
  return (WAYS[route] ?? `by ${line(route)}`) + (depth > 1 ? `, ${number(depth)} steps away` : "");
}

/** What led to a hit, which can be opened itself: the record with its text, looked up when somebody wants to know. */
async function showSeed(hit, body) {
  if (!hit.seed) return;
  const place = element("div", { className: "seed" }, "…");
  body.append(place);
  try {
    const artifact = await call("show", { id: hit.seed, corpus: null });
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
