// State of the index: the published version, its time, its contents and failures.

import { count, element, line, moment, name, number, table } from "./dom.js";

const NAMED = 50; // failures listed by name

const total = (corpora, of) => corpora.reduce((sum, corpus) => sum + of(corpus), 0);

/** Renders the state as one line of nodes. */
export function headline({ published }) {
  if (!published) return ["Nothing published yet"];
  return [`Published ${moment(published.written)}`];
}

/** Renders the whole state, with a link to Dagster's UI if it is known. */
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

/** Returns a column of numbers, or no column if all numbers are zero. */
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
