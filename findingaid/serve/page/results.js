// Hits, and why each is where it is.

import { call } from "./api.js";
import { element, line, name, number, score } from "./dom.js";
import { excerpt, marked } from "./words.js";

const RANKERS = { dense: "by meaning", lexical: "by words" };
const SEED = 300; // characters of the record that led to a hit

/** A hit as an item of the list; `address` gives a link to its passage. */
export function item(hit, words, address, rank) {
  const link = element("a", { href: address(hit) }, name(heading(hit)));
  Object.assign(link.dataset, { corpus: hit.corpus, artifact: hit.artifact_id, record: hit.record_id });
  const span = hit.span ? element("span", {}, `characters ${number(hit.span[0])}–${number(hit.span[1])}`) : null;
  const facts = element(
    "p",
    { className: "facts" },
    element("span", {}, name(hit.corpus)),
    title(hit) === hit.artifact_id ? null : element("span", {}, name(hit.artifact_id)),
    element("span", {}, name(hit.surface_kind)),
    span,
    element("span", {}, `score ${score(hit.score)}`),
    hit.route ? element("span", {}, `by ${line(hit.route)}`) : null,
  );
  const text = element("p", { className: "text", dir: "auto" }, marked(excerpt(hit.text.trim(), words), words));
  const article = element("article", { className: "hit" }, element("h3", {}, link), facts, text, why(hit, rank));
  return element("li", {}, article);
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

function why(hit, rank) {
  const details = element("details", {}, element("summary", {}, "Why this result"));
  const body = element("div", {}, ranks(hit.ranks));
  if (hit.weight !== 1) body.append(element("p", { className: "faint" }, `Weight of its kind: ${score(hit.weight)}`));
  body.append(way(hit));
  details.append(body);
  details.addEventListener("toggle", () => showSeed(hit, body), { once: true });
  details.querySelector("summary").setAttribute("aria-label", `Why this result, number ${rank}`);
  return details;
}

function ranks(found) {
  if (!found?.length) return element("p", { className: "faint" }, "No ranking has it: it was led to.");
  const several = found.some(({ query }) => query > 0);
  const head = ["ranked", ...(several ? ["query"] : []), "place", "its score", "adds"];
  const rows = found.map(({ ranker, query, rank, score: own, share }) => [
    RANKERS[ranker] ?? line(ranker), ...(several ? [number(query + 1)] : []), `#${number(rank)}`, score(own), score(share),
  ]);
  const cells = (kind, texts) => element("tr", {}, texts.map((text) => element(kind, {}, text)));
  const table = element("table", {}, element("thead", {}, cells("th", head)), element("tbody", {}, rows.map((row) => cells("td", row))));
  return element("div", { className: "table" }, table);
}

function way(hit) {
  if (!hit.route) return element("p", { className: "faint" }, "The query found it itself.");
  const steps = hit.depth === 1 ? "one step" : `${number(hit.depth)} steps`;
  const said = hit.depth ? `It was led to, ${steps} by ` : "The query found it, in what was searched by ";
  return element("p", { className: "faint" }, said, name(hit.route), hit.seed ? ", from:" : ".");
}

/** What led to a hit: the record with its text, which is looked up when somebody wants to know. */
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
    place.replaceChildren(element("p", { className: "faint" }, name(kind)), element("p", { dir: "auto" }, text));
  } catch (problem) {
    place.replaceChildren(problem.message);
  }
}
