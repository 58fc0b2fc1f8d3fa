// The search page. All that it shows stands in its address, so that a search and an opened passage can be linked.

import { answered } from "./answer.js";
import { call, hasToken, Problem, remember } from "./api.js";
import { artifactNodes } from "./artifact.js";
import { byId, element, name, number } from "./dom.js";
import { fieldsOf, read, row, sql } from "./filters.js";
import { item } from "./results.js";
import { extent, headline, stateNodes } from "./state.js";
import { wordsOf } from "./words.js";

const PAGE = 10; // hits at once
const DEEPEST = 10_000; // hits that the server pages to
const wide = matchMedia("(min-width: 70rem)");

let corpora = []; // what the server lists of its corpora, with their fields
let learning = null; // ends when they are known
let shown = { search: null, artifact: null }; // what of the address is on the page
let asking = new AbortController(); // the search under way, which the next one ends
let answering = null; // ends with that search
let opening = new AbortController();
let opener = null; // what has the focus again when the artifact is closed

// -- the address ------------------------------------------------------------------------------------------

/** What is asked, as the address has it. */
function stateOf(address) {
  const given = new URL(address, document.baseURI).searchParams;
  const span = given.get("span")?.match(/^(\d+)-(\d+)$/);
  return {
    query: given.get("q") ?? "",
    mode: ["dense", "lexical"].includes(given.get("mode")) ? given.get("mode") : "hybrid",
    corpora: given.getAll("corpus"),
    route: given.get("route") ?? "",
    conditions: given.getAll("where").map(condition).filter(Boolean),
    answer: given.get("answer") === "1",
    artifact: given.get("artifact") && {
      id: given.get("artifact"),
      corpus: given.get("in"),
      record: given.get("record"),
      span: span ? [Number(span[1]), Number(span[2])] : null,
    },
  };
}

/** A condition is written as a JSON list of three, since any field or value may hold any character. */
function condition(text) {
  try {
    const made = JSON.parse(text);
    return Array.isArray(made) && made.length === 3 && made.every((part) => typeof part === "string") ? made : null;
  } catch {
    return null;
  }
}

function addressOf(state) {
  const given = new URLSearchParams();
  if (state.query) given.set("q", state.query);
  if (state.mode !== "hybrid") given.set("mode", state.mode);
  for (const corpus of state.corpora) given.append("corpus", corpus);
  if (state.route) given.set("route", state.route);
  for (const one of state.conditions) given.append("where", JSON.stringify(one));
  if (state.answer) given.set("answer", "1");
  if (state.artifact) {
    const { id, corpus, record, span } = state.artifact;
    for (const [key, value] of Object.entries({ artifact: id, in: corpus, record })) if (value) given.set(key, value);
    if (span) given.set("span", span.join("-"));
  }
  return given.size ? `?${given}` : "./";
}

const here = () => stateOf(location.href);
const searchIn = (state) => JSON.stringify({ ...state, artifact: null });
const passageIn = (state) => JSON.stringify(state.artifact);

/** The address of a passage: beside the search that is shown. */
const address = ({ corpus, artifact_id: id, record_id: record, span }) =>
  addressOf({ ...here(), artifact: { id, corpus, record, span } });

function go(state) {
  if (addressOf(state) !== addressOf(here())) history.pushState(null, "", addressOf(state));
  show();
}

/** Brings the page to what the address says, doing again only what is another. */
function show() {
  const state = here();
  if (searchIn(state) !== shown.search) {
    shown.search = searchIn(state);
    fill(state);
    answering = search(state);
  }
  if (passageIn(state) !== shown.artifact) {
    shown.artifact = passageIn(state);
    if (state.artifact) openArtifact(state);
    else closeArtifact();
  }
}

// -- the form ---------------------------------------------------------------------------------------------

function fill(state) {
  byId("q").value = state.query;
  document.querySelector(`input[name=mode][value=${state.mode}]`).checked = true;
  byId("route").value = state.route;
  listCorpora(state);
  listConditions(state);
  const count = state.conditions.length + (state.route ? 1 : 0);
  byId("filtered").textContent = count ? `(${count})` : "";
  if (count) byId("more").open = true;
}

function listCorpora(state) {
  const names = [...new Set([...corpora.map(({ corpus }) => corpus), ...state.corpora])];
  byId("corpora").hidden = names.length < 2;
  const legend = byId("corpora").querySelector("legend");
  const chips = names.map((corpus) => {
    const box = element("input", { type: "checkbox", name: "corpus", value: corpus, checked: state.corpora.includes(corpus) });
    return element("label", {}, box, element("span", {}, name(corpus)));
  });
  byId("corpora").replaceChildren(legend, ...chips);
}

function listConditions(state) {
  const fields = fieldsOf(corpora, state.corpora);
  byId("conditions").querySelector("ul").replaceChildren(...state.conditions.map((one) => row(one, fields, refine)));
}

function asked(answer) {
  const form = new FormData(byId("ask"));
  const rows = [...byId("conditions").querySelectorAll("li")].map(read);
  return {
    query: form.get("q").trim(),
    mode: form.get("mode"),
    corpora: form.getAll("corpus"),
    route: form.get("route"),
    conditions: rows.filter(([, , value]) => value !== ""),
    answer,
    artifact: null,
  };
}

/** The same query with other filters; nothing before there is one. */
function refine() {
  if (here().query) go(asked(here().answer));
}

// -- the search -------------------------------------------------------------------------------------------

/** Ends when everything that was asked is there. */
async function search(state) {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  byId("problem").hidden = true;
  byId("answered").hidden = true;
  document.title = state.query ? `${state.query} – findingaid` : "findingaid";
  if (!state.query) {
    byId("hits").replaceChildren();
    byId("found").textContent = "";
    byId("further").hidden = true;
    return;
  }
  byId("found").textContent = "Searching …";
  await Promise.all([page(state, 0, signal), state.answer ? answer(state, signal) : null]);
}

/** Conditions can be put only when it is known of which type their fields are. */
async function filters(state) {
  if (state.conditions.length) await learning;
  const where = sql(state.conditions, fieldsOf(corpora, state.corpora));
  return { corpora: state.corpora.length ? state.corpora : null, where };
}

/** Asks for hits from `offset` on, one more than are shown, which says whether there are more. */
async function page(state, offset, signal) {
  const results = byId("results");
  results.setAttribute("aria-busy", "true");
  const { query, mode, route } = state;
  const k = Math.min(PAGE + 1, DEEPEST - offset);
  try {
    const input = { query, k, offset, mode, route: route || "flat", explain: true, ...(await filters(state)) };
    const { hits } = await call("search", input, signal);
    list(hits.slice(0, PAGE), offset, wordsOf(query));
    byId("further").hidden = hits.length <= PAGE;
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!offset) byId("hits").replaceChildren();
    byId("found").textContent = "";
    byId("further").hidden = true;
    failed(error);
  }
  results.setAttribute("aria-busy", "false");
}

function list(hits, offset, words) {
  const items = hits.map((hit, i) => item(hit, words, address, offset + i + 1));
  if (offset) byId("hits").append(...items);
  else byId("hits").replaceChildren(...items);
  const count = offset + hits.length;
  byId("found").textContent = count ? `The best ${number(count)}, best first` : "Nothing matches. Fewer filters may find more.";
  current();
  if (offset) items[0]?.querySelector("h3 a").focus();
}

async function answer(state, signal) {
  const body = byId("answer-body");
  body.replaceChildren(element("p", { className: "faint" }, "Looking for claims …"));
  byId("answered").hidden = false;
  try {
    const found = await call("answer", { query: state.query, ...(await filters(state)) }, signal);
    body.replaceChildren(...answered(found, wordsOf(state.query), address));
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.status === 401) failed(error);
    body.replaceChildren(element("p", {}, error.message));
  }
}

function failed(error) {
  if (!(error instanceof Problem)) throw error;
  byId("token").hidden = error.status !== 401;
  byId("refused").textContent = hasToken() ? "Not the right token." : "";
  byId("problem").hidden = error.status === 401;
  byId("problem").textContent = error.message;
  if (error.status === 401) byId("secret").focus();
}

// -- one artifact -----------------------------------------------------------------------------------------

async function openArtifact({ artifact, query }) {
  opening.abort();
  opening = new AbortController();
  const dialog = byId("artifact");
  const body = byId("artifact-body");
  byId("artifact-title").replaceChildren(name(artifact.id));
  body.replaceChildren(element("p", { className: "faint" }, "Opening …"));
  if (!dialog.open) raise();
  byId("artifact-title").focus({ preventScroll: true });
  current();
  try {
    const view = await call("show", { id: artifact.id, corpus: artifact.corpus }, opening.signal);
    byId("artifact-title").replaceChildren(name(view.title || view.artifact_id));
    body.replaceChildren(...artifactNodes(view, artifact, wordsOf(query)));
    inView(body.querySelector(".passage"));
  } catch (error) {
    if (error.name === "AbortError") return;
    body.replaceChildren(element("p", {}, error.message));
  }
}

/** Beside the results where there is room, over them where there is not. */
function raise() {
  if (wide.matches) byId("artifact").show();
  else byId("artifact").showModal();
}

function inView(passage) {
  if (!passage) return;
  const tall = passage.getBoundingClientRect().height > byId("artifact-body").clientHeight * 0.8;
  passage.scrollIntoView({ block: tall ? "start" : "center" });
  passage.focus({ preventScroll: true });
}

function closeArtifact() {
  opening.abort();
  if (!byId("artifact").open) return;
  byId("artifact").close();
  current();
  (opener?.isConnected ? opener : byId("q")).focus();
  opener = null;
}

/** Says which of the results is open. */
function current() {
  const open = here().artifact;
  for (const link of byId("hits").querySelectorAll("h3 a")) {
    const { corpus, record } = link.dataset;
    if (open && record === open.record && corpus === open.corpus) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

// -- the index --------------------------------------------------------------------------------------------

async function lookAtIndex() {
  try {
    const state = await call("status", {});
    byId("state").textContent = headline(state);
    byId("index-body").replaceChildren(...stateNodes(state));
    if (!here().query) byId("found").textContent = extent(state);
  } catch (error) {
    byId("index-body").replaceChildren(element("p", {}, error.message));
    failed(error);
  }
}

/** Without them, as before the first run, there are no filters to choose from; a search says why itself. */
async function learnCorpora() {
  try {
    corpora = (await call("corpora", {})).corpora;
    byId("wants-answer").hidden = !corpora.some(({ claims }) => claims);
    listCorpora(here());
    listConditions(here());
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
}

function toggleIndex(open) {
  byId("index").hidden = !open;
  byId("state").setAttribute("aria-expanded", String(open));
  if (open) lookAtIndex();
}

// -- what people do ---------------------------------------------------------------------------------------

function links() {
  return [...document.querySelectorAll("#hits h3 a")];
}

function move(step) {
  const all = links();
  const at = all.indexOf(document.activeElement);
  const next = at + step;
  if (next < 0) byId("q").focus();
  else all[Math.min(next, all.length - 1)]?.focus();
}

function pressed(event) {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const typing = target.matches("input:not([type=radio], [type=checkbox]), select, textarea");
  const inList = target === byId("q") || target === document.body || target.closest("#hits h3");
  if (key === "/" && !typing) {
    event.preventDefault();
    if (byId("artifact").matches(":modal")) go({ ...here(), artifact: null });
    byId("q").focus();
    byId("q").select();
  } else if ((key === "ArrowDown" || key === "ArrowUp") && inList && links().length) {
    event.preventDefault();
    move(key === "ArrowDown" ? 1 : -1);
  } else if (key === "Escape") {
    back(event);
  }
}

function back(event) {
  if (byId("artifact").open) {
    event.preventDefault();
    go({ ...here(), artifact: null });
  } else if (!byId("index").hidden) {
    toggleIndex(false);
    byId("state").focus();
  } else if (byId("hits").contains(document.activeElement)) {
    byId("q").focus();
  }
}

function clicked(event) {
  const link = event.target.closest("a[data-artifact]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  opener = link;
  go(stateOf(link.href));
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  shown.search = null; // asked again is done again
  go(asked(event.submitter === byId("wants-answer")));
});
byId("ask").addEventListener("change", ({ target }) => {
  if (target.name === "corpus") listConditions(asked(false));
  if (["mode", "corpus", "route"].includes(target.name)) refine();
});
byId("add").addEventListener("click", () => {
  const made = row([], fieldsOf(corpora, asked(false).corpora), refine);
  byId("conditions").querySelector("ul").append(made);
  made.querySelector("select").focus();
});
byId("token").addEventListener("submit", (event) => {
  event.preventDefault();
  remember(byId("secret").value);
  byId("secret").value = "";
  byId("token").hidden = true;
  begin();
});
byId("further").addEventListener("click", () => {
  if (byId("results").getAttribute("aria-busy") === "true") return;
  page(here(), byId("hits").children.length, asking.signal);
});
byId("state").addEventListener("click", () => toggleIndex(byId("index").hidden));
byId("close").addEventListener("click", () => go({ ...here(), artifact: null }));
byId("artifact").addEventListener("cancel", (event) => {
  event.preventDefault();
  go({ ...here(), artifact: null });
});
wide.addEventListener("change", () => {
  if (!byId("artifact").open) return;
  byId("artifact").close();
  raise();
});
document.addEventListener("click", clicked);
document.addEventListener("keydown", pressed);
addEventListener("popstate", show);

/** Everything from the start, as after a token was given. */
function begin() {
  learning = learnCorpora();
  shown = { search: null, artifact: null };
  show();
  answering.then(lookAtIndex); // nobody waits for it
  if (!here().query) byId("q").focus();
}

begin();
