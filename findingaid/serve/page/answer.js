// An answer, each sentence with its citations, and below it what they cite.

import { count, element, line, name } from "./dom.js";
import { marked } from "./words.js";

const TIERS = { approved: "approved by a person", policy: "approved by the policy", unreviewed: "nobody has reviewed it" };

/** The answer as nodes; `address` gives a link to a place in an artifact. */
export function answered(answer, words, address) {
  const { sentences, confidence, contradictions, cut, producer, refused } = answer.meta;
  const numbers = new Map(answer.claims.map(({ claim_id }, i) => [claim_id, i + 1]));
  const notes = [
    confidence && `Confidence: ${confidence}.`,
    producer && `Written by ${line(producer)}.`,
    answer.gaps.length && `Nothing was found for: ${answer.gaps.map(line).join(", ")}.`,
    cut.length && `No room for ${count(cut.length, "more claim")}.`,
    refused.length && `Left out: ${count(refused.length, "sentence")} of the model that no claim carries.`,
  ].filter(Boolean);
  const said = sentences.length
    ? element("p", { className: "said", dir: "auto" }, sentences.flatMap((sentence) => spoken(sentence, numbers)))
    : element("p", {}, "No claim of the index speaks of this.");
  const sides = contradictions.filter(({ cited, text }) => !cited && text).map((side) => against(side, numbers));
  return [
    said,
    ...notes.map((note) => element("p", { className: "faint" }, note)),
    ...sides,
    element("ol", { id: "evidence" }, answer.claims.map((claim, i) => evidence(claim, i + 1, words, address))),
  ];
}

function spoken({ text, claim_ids: cited }, numbers) {
  const stop = /(!|\?|…|\.\.\.)$/.test(text) ? "" : ".";
  const marks = cited.flatMap((claim) => [" ", citation(numbers.get(claim))]);
  return [stop ? text.replace(/\.$/, "") : text, ...marks, `${stop} `];
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
  return element("p", {}, `Against [${numbers.get(claim)}] stands: `, name(text));
}

function evidence(claim, place, words, address) {
  const standing = [TIERS[claim.tier] ?? line(claim.tier), claim.truth === "contested" ? "contested" : ""].filter(Boolean);
  const quoted = claim.places.some((at) => wordsAlone(at.quote) === wordsAlone(claim.text));
  const text = quoted ? null : element("span", { dir: "auto" }, `${claim.text} `);
  const head = element("p", {}, `[${place}] `, text, element("span", { className: "faint" }, standing.join(", ")));
  return element("li", { id: `evidence-${place}`, tabIndex: -1 }, head, claim.places.map((at) => quote(claim, at, words, address)));
}

const wordsAlone = (text) => text.replace(/[^\p{L}\p{N}]+/gu, " ").trim().toLowerCase();

function quote(claim, at, words, address) {
  const { artifact_id, record_id, span, evidence: checked } = at;
  const link = element("a", { href: address({ corpus: claim.corpus, artifact_id, record_id, span }) }, name(`${claim.corpus}/${artifact_id}`));
  Object.assign(link.dataset, { corpus: claim.corpus, artifact: artifact_id, record: record_id });
  const unsure = checked === "verified" ? null : element("span", { className: "alarm" }, ` evidence: ${line(checked)}`);
  const said = at.quote ? element("blockquote", { dir: "auto" }, marked(at.quote, words)) : null;
  return element("div", {}, said, element("p", { className: "faint" }, "in ", link, unsure));
}
