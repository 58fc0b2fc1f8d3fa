// What the index holds: what is published, since when, and what failed.

import { count, element, line, moment, name, number, table } from "./dom.js";

const NAMED = 50; // failures that are named

const total = (corpora, of) => corpora.reduce((sum, corpus) => sum + of(corpus), 0);

/** A line of it, as nodes. */
export function headline({ published, corpora }) {
  if (!published) return ["Nothing published yet"];
  const failed = total(corpora, (of) => of.failed.length);
  const said = `Published ${moment(published.written)}`;
  return failed ? [`${said} · `, element("span", { className: "alarm" }, `${number(failed)} failed`)] : [said];
}

/** All of it, with a link to Dagster's UI where there is one. */
export function stateNodes({ published, corpora, dagster }) {
  const columns = [
    ["corpus", (of) => name(of.corpus)],
    ["artifacts", (of) => number(of.artifacts)],
    ["records", (of) => number(of.records)],
    ...some("claims", corpora, (of) => of.claims),
    ...some("pending", corpora, (of) => of.pending),
    ["failed", (of) => element("span", of.failed.length ? { className: "alarm" } : {}, number(of.failed.length))],
    ["updated", (of) => moment(of.updated) || "never"],
  ];
  const rows = corpora.map((of) => columns.map(([, cell]) => cell(of)));
  return [
    element("p", {}, said(published, corpora)),
    table(columns.map(([head]) => head), rows, "Corpora"),
    ...corpora.filter(({ failed }) => failed.length).map(failures),
    /^https?:/i.test(dagster ?? "") ? element("p", {}, element("a", { href: dagster, rel: "noreferrer" }, "Open Dagster")) : null,
  ].filter(Boolean);
}

/** A column of numbers, where any corpus has one. */
const some = (head, corpora, of) => (total(corpora, of) ? [[head, (corpus) => number(of(corpus))]] : []);

function said(published, corpora) {
  if (!published) return "Nothing is published yet: run findingaid index, then search here.";
  const [records, artifacts] = [total(corpora, (of) => of.records), total(corpora, (of) => of.artifacts)];
  const what = `${count(artifacts, "artifact")} in ${count(records, "record")}`;
  return `${what}, published ${moment(published.written)} as version ${number(published.version)}.`;
}

function failures({ corpus, failed }, place) {
  const items = failed.slice(0, NAMED).map(({ artifact_id: id, message, stage }) =>
    element("li", {}, name(id), ": ", name(message), element("span", { className: "faint" }, ` ${line(stage)}`)),
  );
  const more = failed.length > NAMED ? element("li", {}, `and ${number(failed.length - NAMED)} more`) : null;
  const title = element("h3", { id: `failed-${place}` }, "Failed in ", name(corpus));
  const list = element("ul", { tabIndex: 0, "aria-labelledby": title.id }, items, more);
  return element("div", { className: "failures" }, title, list);
}
