// What the index holds: what is published, since when, and what failed.

import { element, line, moment, name, number } from "./dom.js";

const NAMED = 50; // failures that are named

/** One line on all corpora, for the button. */
export function headline(corpora) {
  const version = corpora.find(({ published_version: version }) => version !== null)?.published_version;
  if (version === undefined) return "Nothing published yet";
  const updated = corpora.map((corpus) => corpus.updated).filter(Boolean).sort().at(-1);
  const failed = total(corpora, (corpus) => corpus.failed.length);
  return [`Version ${number(version)}`, moment(updated), failed && `${number(failed)} failed`].filter(Boolean).join(" · ");
}

const total = (corpora, of) => corpora.reduce((sum, corpus) => sum + of(corpus), 0);

/** All of it; `dagster` is the address of Dagster's UI, where there is one. */
export function stateNodes(corpora, dagster) {
  const head = ["corpus", "artifacts", "records", "claims", "pending", "failed", "updated"];
  const rows = corpora.map((of) => [
    name(of.corpus), number(of.artifacts), number(of.records), number(of.claims), number(of.pending),
    element("span", of.failed.length ? { className: "alarm" } : {}, number(of.failed.length)), moment(of.updated) || "never",
  ]);
  const cells = (kind, texts) => element("tr", {}, texts.map((text) => element(kind, {}, text)));
  const table = element("table", {}, element("thead", {}, cells("th", head)), element("tbody", {}, rows.map((row) => cells("td", row))));
  const version = corpora.find(({ published_version: version }) => version !== null)?.published_version;
  const said = version === undefined ? "Nothing is published yet: run findingaid index." : `Version ${number(version)} is what a search sees.`;
  return [
    element("p", {}, said),
    element("div", { className: "table", tabIndex: 0, role: "region", "aria-labelledby": "index-title" }, table),
    ...corpora.filter(({ failed }) => failed.length).map(failures),
    dagster ? element("p", {}, element("a", { href: dagster, rel: "noreferrer" }, "Open Dagster")) : null,
  ].filter(Boolean);
}

function failures({ corpus, failed }) {
  const items = failed.slice(0, NAMED).map(({ artifact_id: id, message, stage }) =>
    element("li", {}, name(id), ": ", name(message), element("span", { className: "faint" }, ` ${line(stage)}`)),
  );
  const more = failed.length > NAMED ? element("li", {}, `and ${number(failed.length - NAMED)} more`) : null;
  return element("div", { className: "failures" }, element("h3", {}, "Failed in ", name(corpus)), element("ul", {}, items, more));
}
