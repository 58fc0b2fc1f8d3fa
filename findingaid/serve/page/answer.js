// An answer: each sentence with its citations, and the cited evidence below.

import { leadsTo } from "./address.js";
import { count, element, line, name, outdated } from "./dom.js";
import { marked } from "./words.js";

const TIERS = { approved: "approved by a person", policy: "accepted without review", unreviewed: "not reviewed" };

/** Renders an answer as nodes: the sentences, and their evidence. */
export function answered(answer, words) {
  const { sentences, contradictions } = answer.meta;
  const cited = [...answer.claims, ...answer.quotes];
  const numbers = new Map(cited.map((each, i) => [idOf(each), i + 1]));
  const said = sentences.length
    ? element("p", { className: "said", dir: "auto" }, sentences.flatMap((sentence) => spoken(sentence, numbers, cited)))
    : element("p", {}, `No answer: ${line(answer.meta.note)}.`);
  const sides = contradictions.filter(({ cited, text }) => !cited && text).map((side) => against(side, numbers));
  return {
    said: [said, sure(answer), ...notes(answer).map((note) => element("p", { className: "faint" }, note)), ...sides].filter(Boolean),
    evidence: cited.map((each, i) => (each.quote_id ? quoted(each, i + 1, words) : evidence(each, i + 1, words))),
  };
}

const idOf = ({ claim_id: claim, quote_id: quote }) => claim ?? quote;

/** Returns how sure an answer is, and why it is not surer. */
function sure({ meta: { confidence, note, relevance, sentences, standing } }) {
  if (!sentences.length) return null;
  const level = element("strong", { className: `sure ${line(confidence)}` }, `Confidence: ${line(confidence)}`);
  const met = `relevance ${Math.min(99, Math.round(relevance * 100))}%${standing ? `, claims ${line(standing)}` : ""}`;
  return element("p", {}, level, ` ${line(note || met)}`);
}

function notes({ claims, quotes, gaps, meta: { cut, producer, refused, sentences, unread, unreviewed } }) {
  const below = [claims.length && count(claims.length, "claim"), quotes.length && count(quotes.length, "passage")];
  const who = producer ? `Written by ${line(producer)}` : "Composed";
  return [
    sentences.length && `${who} from the ${below.filter(Boolean).join(" and the ")} below.`,
    unreviewed > 0 && `Not reviewed by a person: ${line(unreviewed)} of ${count(sentences.length, "sentence")}.`,
    gaps.length && `Not covered: ${gaps.map(line).join(", ")}.`,
    cut.length && `Left out for length: ${count(cut.length, "citation")}.`,
    refused.length && `Left out: ${count(refused.length, "sentence")} of the model that nothing cited supports.`,
    unread && `Not read here: ${line(unread)}. The state of the index says why.`,
  ].filter(Boolean);
}

/** Returns the hits that match well and that an answer does not quote, best first. */
export function besides(hits, { claims, quotes }) {
  const quoted = [...claims.flatMap(({ corpus, places }) => places.map((at) => ({ ...at, corpus }))), ...quotes];
  const isQuoted = (hit) =>
    quoted.some(({ corpus, artifact_id: id, quote }) => corpus === hit.corpus && id === hit.artifact_id && hit.text.includes(quote));
  return hits.filter((hit) => !hit.weak && !isQuoted(hit));
}

function spoken({ text, claim_ids: claims, quote_ids: quotes }, numbers, evidence) {
  const cited = [...claims, ...quotes];
  const stop = /(!|\?|…|\.\.\.)$/.test(text) ? "" : ".";
  const marks = cited.flatMap((id) => [" ", citation(numbers.get(id))]);
  const remarks = cited.map((id) => staleness(evidence.find((each) => idOf(each) === id))).filter(Boolean);
  return [stop ? text.replace(/\.$/, "") : text, ...marks, `${stop} `, ...remarks.flatMap((remark) => [remark, " "])];
}

/** Says that no source of a claim or quote still has the version that states it; null if one may have it. */
function staleness(cited) {
  const remarks = (cited.places ?? [cited]).map(outdated);
  return remarks.every(Boolean) ? remarks[0] : null;
}

function citation(place) {
  const link = element("a", { href: `#evidence-${place}`, className: "cite", "aria-label": `Evidence ${place}` }, `[${place}]`);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const there = document.getElementById(`evidence-${place}`);
    there.scrollIntoView({ block: "center" });
    there.focus({ preventScroll: true });
  });
  return link;
}

function against({ claim_id: claim, text }, numbers) {
  return element("p", {}, `[${numbers.get(claim)}] is contested by: `, name(text));
}

function evidence(claim, place, words) {
  const standing = [TIERS[claim.tier] ?? line(claim.tier), claim.truth === "contested" ? "contested" : ""].filter(Boolean);
  const quoted = claim.places.some((at) => wordsAlone(at.quote) === wordsAlone(claim.text));
  const text = quoted ? null : element("span", { dir: "auto" }, `${claim.text} `);
  const head = element("p", {}, `[${place}] `, text, element("span", { className: "faint" }, standing.join(", ")));
  return element("li", { id: `evidence-${place}`, tabIndex: -1 }, head, claim.places.map((at) => quote(claim, at, words)));
}

function quoted(sentence, place, words) {
  const head = element("p", {}, `[${place}] `, element("span", { className: "faint" }, "passage"));
  return element("li", { id: `evidence-${place}`, tabIndex: -1 }, head, quote(sentence, sentence, words));
}

const wordsAlone = (text) => text.replace(/[^\p{L}\p{N}]+/gu, " ").trim().toLowerCase();

function quote({ corpus }, at, words) {
  const link = element("a", leadsTo({ ...at, corpus }), name(`${corpus}/${at.artifact_id}`));
  const unsure = at.quote_id || at.evidence === "verified" ? null : element("span", { className: "alarm" }, ` evidence: ${line(at.evidence)}`);
  const said = at.quote ? element("blockquote", { dir: "auto" }, marked(at.quote, words)) : null;
  return element("div", {}, said, element("p", { className: "faint" }, "in ", link, at.date ? `, ${line(at.date)} ` : " ", outdated(at), unsure));
}
