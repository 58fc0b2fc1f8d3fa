// What the index holds: what is published, since when, and what failed.

import { count, element, line, moment, name, number } from "./dom.js";

const NAMED = 50; // failures that are named

const total = (corpora, of) => corpora.reduce((sum, corpus) => sum + of(corpus), 0);

/** One line, for the button. */
export function headline({ published, corpora }) {
  if (!published) return "Nothing published yet";
  const failed = total(corpora, (corpus) => corpus.failed.length);
  const parts = [`Version ${number(published.version)}`, moment(published.written), failed && `${number(failed)} failed`];
  return parts.filter(Boolean).join(" · ");
}

/** What there is to be searched, in words. */
export function extent({ published, corpora }) {
  if (!published) return "Nothing is indexed yet. Run findingaid index, then search here.";
  const [records, artifacts] = [total(corpora, (of) => of.records), total(corpora, (of) => of.artifacts)];
  return `${count(records, "record")} of ${count(artifacts, "artifact")}`;
}

/** All of it, with a link to Dagster's UI where there is one. */
export function stateNodes({ published, corpora, dagster }) {
  const head = ["corpus", "artifacts", "records", "claims", "pending", "failed", "updated"];
  const rows = corpora.map((of) => [
    name(of.corpus), number(of.artifacts), number(of.records), number(of.claims), number(of.pending),
    element("span", of.failed.length ? { className: "alarm" } : {}, number(of.failed.length)), moment(of.updated) || "never",
  ]);
  const cells = (kind, texts) => element("tr", {}, texts.map((text) => element(kind, {}, text)));
  const table = element("table", {}, element("thead", {}, cells("th", head)), element("tbody", {}, rows.map((row) => cells("td", row))));
  const said = published
    ? `A search sees version ${number(published.version)}, published ${moment(published.written)}.`
    : "Nothing is published yet: run findingaid index.";
  return [
    element("p", {}, said),
    element("div", { className: "table", tabIndex: 0, role: "region", "aria-labelledby": "index-title" }, table),
    ...corpora.filter(({ failed }) => failed.length).map(failures),
    /^https?:/i.test(dagster ?? "") ? element("p", {}, element("a", { href: dagster, rel: "noreferrer" }, "Open Dagster")) : null,
  ].filter(Boolean);
}

function failures({ corpus, failed }) {
  const items = failed.slice(0, NAMED).map(({ artifact_id: id, message, stage }) =>
    element("li", {}, name(id), ": ", name(message), element("span", { className: "faint" }, ` ${line(stage)}`)),
  );
  const more = failed.length > NAMED ? element("li", {}, `and ${number(failed.length - NAMED)} more`) : null;
  return element("div", { className: "failures" }, element("h3", {}, "Failed in ", name(corpus)), element("ul", {}, items, more));
}
