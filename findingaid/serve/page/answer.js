// An answer, each sentence with its citations, and below it what they cite.

import { leadsTo } from "./address.js";
import { count, element, line, name } from "./dom.js";
import { marked } from "./words.js";

const TIERS = { approved: "approved by a person", policy: "approved by the policy", unreviewed: "nobody has reviewed it" };

/** An answer as nodes: what is said, and what it stands on. */
export function answered(answer, words) {
  const { sentences, contradictions } = answer.meta;
  const numbers = new Map(answer.claims.map(({ claim_id }, i) => [claim_id, i + 1]));
  const said = sentences.length
    ? element("p", { className: "said", dir: "auto" }, sentences.flatMap((sentence) => spoken(sentence, numbers)))
    : element("p", {}, "No claim of the index speaks of this.");
  const sides = contradictions.filter(({ cited, text }) => !cited && text).map((side) => against(side, numbers));
  return {
    said: [said, ...notes(answer).map((note) => element("p", { className: "faint" }, note)), ...sides],
    evidence: answer.claims.map((claim, i) => evidence(claim, i + 1, words)),
  };
}

function notes({ claims, gaps, meta: { confidence, cut, producer, refused, sentences } }) {
  const who = producer ? `Written by ${line(producer)}` : "Put together";
  return [
    sentences.length && `${who} from the ${count(claims.length, "claim")} below. Confidence: ${confidence}.`,
    gaps.length && `No claim speaks of: ${gaps.map(line).join(", ")}.`,
    cut.length && `No room for ${count(cut.length, "more claim")}.`,
    refused.length && `Left out: ${count(refused.length, "sentence")} of the model that no claim carries.`,
  ].filter(Boolean);
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

function evidence(claim, place, words) {
  const standing = [TIERS[claim.tier] ?? line(claim.tier), claim.truth === "contested" ? "contested" : ""].filter(Boolean);
  const quoted = claim.places.some((at) => wordsAlone(at.quote) === wordsAlone(claim.text));
  const text = quoted ? null : element("span", { dir: "auto" }, `${claim.text} `);
  const head = element("p", {}, `[${place}] `, text, element("span", { className: "faint" }, standing.join(", ")));
  return element("li", { id: `evidence-${place}`, tabIndex: -1 }, head, claim.places.map((at) => quote(claim, at, words)));
}

const wordsAlone = (text) => text.replace(/[^\p{L}\p{N}]+/gu, " ").trim().toLowerCase();

function quote({ corpus }, at, words) {
  const link = element("a", leadsTo({ ...at, corpus }), name(`${corpus}/${at.artifact_id}`));
  const unsure = at.evidence === "verified" ? null : element("span", { className: "alarm" }, ` evidence: ${line(at.evidence)}`);
  const said = at.quote ? element("blockquote", { dir: "auto" }, marked(at.quote, words)) : null;
  return element("div", {}, said, element("p", { className: "faint" }, "in ", link, unsure));
}
