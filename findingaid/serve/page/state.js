// State of the index: the published version, its time, its contents, failures and notes.

import { count, element, line, moment, name, noteText, number, table } from "./dom.js";

const NAMED = 50; // artifacts listed by name

const total = (corpora, of) => corpora.reduce((sum, corpus) => sum + of(corpus), 0);

/** Renders the state as one line of nodes. */
export function headline({ published, caller }) {
  if (!published) return ["Nothing published yet"];
  return [`Published ${moment(published.written)}`, ...(caller ? [", for ", name(caller)] : [])];
}

/** Renders the whole state, with a link to Dagster's UI if it is known. */
export function stateNodes({ published, corpora, dagster }) {
  const columns = [
    ["corpus", (of) => name(of.corpus)],
    ["texts", (of) => number(of.artifacts)],
    ["passages", (of) => number(of.records)],
    ...some("claims", corpora, (of) => of.claims),
    ...some("pending", corpora, (of) => of.pending),
    ["failed", (of) => element("span", of.failed.length ? { className: "alarm" } : {}, number(of.failed.length))],
    ["updated", (of) => moment(of.updated) || "never"],
  ];
  const rows = corpora.map((of) => columns.map(([, cell]) => cell(of)));
  return [
    element("p", {}, said(published, corpora)),
    published && corpora[0]?.unpublished ? element("p", { className: "alarm" }, name(corpora[0].unpublished)) : null,
    table(columns.map(([head]) => head), rows, "Corpora"),
    ...corpora.flatMap(({ corpus, failed, noted, skipped }, place) => [
      listed(`failed-${place}`, ["Failed in ", name(corpus)], failed, ({ message, stage }) =>
        [name(message), element("span", { className: "faint" }, ` ${line(stage)}`)]),
      listed(`noted-${place}`, ["Guessed or left out in ", name(corpus)], noted, (note) => [name(noteText(note))]),
      listed(`skipped-${place}`, ["Skipped in ", name(corpus)], skipped, ({ reason }) => [name(reason)]),
    ]),
    /^https?:/i.test(dagster ?? "") ? element("p", {}, element("a", { href: dagster, rel: "noreferrer" }, "Open Dagster")) : null,
  ].filter(Boolean);
}

/** Returns a column of numbers, or no column if all numbers are zero. */
const some = (head, corpora, of) => (total(corpora, of) ? [[head, (corpus) => number(of(corpus))]] : []);

function said(published, corpora) {
  if (!published) return "Nothing is published yet: run findingaid index, then search here.";
  const [records, artifacts] = [total(corpora, (of) => of.records), total(corpora, (of) => of.artifacts)];
  const what = `${count(artifacts, "text")} in ${count(records, "passage")}`;
  return `${what}, published ${moment(published.written)} as version ${number(published.version)}.`;
}

/** Renders a list of artifacts with a text on each, or nothing for no artifacts. */
function listed(id, heading, artifacts, said) {
  if (!artifacts.length) return null;
  const items = artifacts.slice(0, NAMED).map((of) => element("li", {}, name(of.artifact_id), ": ", ...said(of)));
  const more = artifacts.length > NAMED ? element("li", {}, `and ${number(artifacts.length - NAMED)} more`) : null;
  const title = element("h3", { id }, ...heading);
  const list = element("ul", { tabIndex: 0, "aria-labelledby": id }, items, more);
  return element("div", { className: "listed" }, title, list);
}
