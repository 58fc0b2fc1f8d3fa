// The search page: event handlers, requests and rendering. Its state is kept in the URL, see address.js.

import { addressOf, here, stateOf } from "./address.js";
import { answered, besides } from "./answer.js";
import { call, hasToken, Problem, remember } from "./api.js";
import { artifactNodes } from "./artifact.js";
import { byId, count, element, line, name } from "./dom.js";
import { chosenFacets, leaveFolder, showFacets } from "./facets.js";
import { fileActions } from "./file.js";
import { facetSql, fieldsOf, read, row, sql } from "./filters.js";
import { suffixesOf } from "./kinds.js";
import { grouped, item, linkTo, listedItem } from "./results.js";
import { scannedPlaces, showScans } from "./scans.js";
import { headline, stateNodes } from "./state.js";
import { wordsOf } from "./words.js";

const PAGE = 10; // artifacts added at a time
const LISTED = 20; // artifacts added at a time to the list without a query
const FETCHED = 40; // hits of a request
const REQUESTS = 3; // requests for a page of results, whose hits may all be of few artifacts
const BESIDE = 3; // passages shown beside an answer
const AGAIN = 60_000; // milliseconds between requests for the state of the index
const MODES = { dense: "by meaning", lexical: "by words" };
const QUESTION =
  /\?\s*$|^(who|whose|whom|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could|may|must|has|have|had|will|would|should)\s/i;
const wide = matchMedia("(min-width: 70rem)");
const narrow = matchMedia("(max-width: 40rem)");

let known = { corpora: [], llm: null }; // the server's corpora with their fields, and the model that writes answers
let learning = null; // promise that resolves when loading `known` has ended
let searched = null; // version of the index that was searched
let stated = null; // displayed state of the index
let counted = null; // displayed facets
let newest = []; // artifacts listed without a query
let found = { hits: [], next: null, many: 0 }; // hits of this search, the cursor of further ones, and artifacts shown
let shown = { search: null, artifact: null }; // parts of the URL that the page shows
let asking = new AbortController(); // current search, which the next one aborts
let opening = new AbortController();
let opener = null; // element that gets the focus back when the artifact is closed

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const searchIn = (state) => JSON.stringify({ ...state, artifact: null });
const passageIn = (state) => JSON.stringify(state.artifact);

function go(state) {
  if (addressOf(state) !== addressOf(here())) history.pushState(null, "", addressOf(state));
  show();
}

/** Updates the page to match the URL, and reloads only the parts that differ. */
function show() {
  const state = here();
  if (searchIn(state) !== shown.search) {
    shown.search = searchIn(state);
    fill(state);
    search(state);
  }
  if (passageIn(state) !== shown.artifact) {
    shown.artifact = passageIn(state);
    if (state.artifact) openArtifact(state);
    else closeArtifact();
  }
}

/** Sets the title of the page. */
function entitle(what) {
  document.title = what ? `${line(what)} – findingaid` : "findingaid";
}

// -- the form ---------------------------------------------------------------------------------------------

/** Fills the form from a state. Controls are recreated only if they must differ, so that the focus stays in place. */
function fill(state) {
  byId("q").value = state.query;
  document.querySelector(`input[name=mode][value=${state.mode}]`).checked = true;
  byId("route").value = state.route;
  showFacets(counted, state);
  if (!same(told(rows()), state.conditions)) listConditions(state.conditions);
  byId("filtered").textContent = active(state).map((filter) => `· ${line(filter)}`).join(" ");
  if (MODES[state.mode] || state.route || state.conditions.length) byId("advanced").open = true;
}

/** Returns the filters of a search in words. */
function active({ corpora, kinds, folder, mode, route, conditions }) {
  const chosen = [...corpora, ...kinds, folder, MODES[mode]];
  if (route) chosen.push(byId("route").selectedOptions[0].text.replace(/:.*/, ""));
  if (conditions.length) chosen.push(count(conditions.length, "condition"));
  return chosen.filter(Boolean);
}

/** `rows` reads the conditions in the form; `told` keeps those that have a value. */
const rows = () => [...byId("conditions").querySelectorAll("li")].map(read);
const told = (conditions) => conditions.filter(([, , value]) => value !== "");

function listConditions(conditions) {
  const fields = fieldsOf(known.corpora, asked(false).corpora);
  byId("conditions").querySelector("ul").replaceChildren(...conditions.map((one) => row(one, fields, refine)));
}

function asked(answer) {
  const form = new FormData(byId("ask"));
  const [query, mode, route] = ["q", "mode", "route"].map((field) => form.get(field));
  return { query: query.trim(), mode, ...chosenFacets(), route, conditions: told(rows()), answer, artifact: null };
}

/** Repeats the current search with the filters of the form. */
function refine() {
  go(asked(here().answer));
}

// -- the search -------------------------------------------------------------------------------------------

/** Runs a search and shows its results; resolves when all responses have arrived. */
async function search(state) {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  for (const id of ["problem", "answered", "further", "try", "beside"]) byId(id).hidden = true;
  byId("newer").replaceChildren();
  byId("results").setAttribute("aria-busy", "false");
  entitle(state.query);
  toggleIndex(false);
  found = { hits: [], next: null, many: 0 };
  newest = [];
  if (state.query) {
    byId("found").textContent = "Searching …";
    const listing = page(state, signal);
    await Promise.all([listing, state.answer ? answer(state, signal, listing) : null, browse(state, signal)]);
  } else {
    if (byId("hits").querySelector(".hit:not(.plain)")) byId("hits").replaceChildren();
    await browse(state, signal);
  }
  if (signal.aborted) return;
  searched = null;
  await follow();
}

/** Returns the filters of a search. Waits for the types of the fields if there are conditions. */
async function filters(state) {
  const where = await fieldFilter(state);
  const all = [where, ...facetSql(state)].filter(Boolean).join(" AND ");
  return { corpora: state.corpora.length ? state.corpora : null, where: all || null };
}

async function fieldFilter(state) {
  if (state.conditions.length) await learning;
  return sql(state.conditions, fieldsOf(known.corpora, state.corpora));
}

/** Counts what the filters leave, and lists it where there is no query; with one, the search reports a failure. */
async function browse(state, signal) {
  if (!state.query) byId("results").setAttribute("aria-busy", "true");
  try {
    const { corpora, kinds, folder } = state;
    const narrowed = { corpora: corpora.length ? corpora : null, suffixes: suffixesOf(kinds), folder };
    const input = { ...narrowed, where: await fieldFilter(state) };
    counted = await call("browse", { ...input, k: state.query ? 0 : LISTED, offset: newest.length }, signal);
    showFacets(counted, state);
    if (!state.query) listNewest();
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Problem)) throw error;
    if (!state.query) {
      byId("hits").replaceChildren();
      byId("found").textContent = "";
      failed(error);
    }
  }
  if (!state.query) byId("results").setAttribute("aria-busy", "false");
}

function listNewest() {
  const before = newest.length;
  newest = [...newest, ...counted.newest];
  byId("hits").replaceChildren(...newest.map((artifact, i) => listedItem(artifact, i + 1)));
  byId("found").textContent = counted.artifacts ? `${count(counted.artifacts, "text")} to search, newest first` : "Nothing matches.";
  byId("further").hidden = newest.length >= counted.artifacts;
  current();
  if (before) links()[before]?.focus();
}

/** Requests more hits until there are as many artifacts as are to be shown, and shows them. */
async function page(state, signal) {
  const results = byId("results");
  results.setAttribute("aria-busy", "true");
  const { query, mode, route } = state;
  const shownBefore = found.many;
  try {
    const narrowed = await filters(state);
    const input = { query, k: FETCHED, mode, route: route || "flat", explain: true, fresh: true, ...narrowed };
    for (let i = 0; i < REQUESTS && found.next !== "" && grouped(found.hits).length <= shownBefore + PAGE; i++) {
      const { hits, next_cursor: next } = await call("search", { ...input, cursor: found.next }, signal);
      found = { hits: [...found.hits, ...hits], next, many: shownBefore };
    }
    byId("problem").hidden = true;
    list(state, shownBefore);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!shownBefore) byId("hits").replaceChildren();
    if (!shownBefore) byId("found").textContent = "";
    failed(error);
  }
  results.setAttribute("aria-busy", "false");
}

function list(state, before) {
  const groups = grouped(found.hits);
  const words = wordsOf(state.query);
  const items = groups.slice(0, before + PAGE).map((group, i) => item(group, words, i + 1));
  found.many = items.length;
  byId("hits").replaceChildren(...items);
  byId("further").hidden = !found.next && groups.length <= items.length;
  const weak = items.length > 0 && found.hits.every((hit) => hit.weak);
  byId("found").textContent = summaryOf(items.length, weak);
  advise(state, !items.length || weak);
  current();
  if (before) items[before]?.querySelector("h3 a").focus();
}

function summaryOf(many, weak) {
  if (!many) return "Nothing matches.";
  return weak ? `Nothing matches well: ${count(many, "weak match", "es")}, best first` : `${count(many, "result")}, best first`;
}

/** Says what to try where nothing matches, or nothing well. */
function advise(state, needed) {
  const { mode, kinds, folder, corpora, conditions, route } = state;
  const narrowed = kinds.length || folder || corpora.length || conditions.length || route === "gate";
  const open = { ...state, kinds: [], folder: "", corpora: [], conditions: [], route: "", artifact: null };
  const advice = [
    narrowed && tried("Search without filters", open),
    mode !== "hybrid" && tried("Search by meaning and by words", { ...state, mode: "hybrid", artifact: null }),
    element("li", {}, "Try other words, or the words that the texts would use."),
  ];
  byId("try").replaceChildren(...advice.filter(Boolean));
  byId("try").hidden = !needed;
}

function tried(label, state) {
  const button = element("button", { type: "button", className: "quiet" }, label);
  button.addEventListener("click", () => {
    byId("results").focus();
    go(state);
  });
  return element("li", {}, button);
}

/** Shows an answer. A model writes it only if the user asks for it (`llm`), since a call may cost money. */
async function answer(state, signal, listing, llm = false) {
  const [said, write] = [byId("said"), byId("write")];
  const doing = element("p", { className: "faint" }, llm ? `${line(known.llm)} is writing …` : "Looking for evidence …");
  if (!llm) for (const id of ["said", "evidence"]) byId(id).replaceChildren();
  said.append(doing);
  write.hidden = true;
  byId("answered").hidden = false;
  try {
    const given = await call("answer", { query: state.query, llm, fresh: true, ...(await filters(state)) }, signal);
    if (llm && !given.meta.sentences.length) throw new Problem(`${line(known.llm)} wrote nothing that the evidence supports.`);
    const nodes = answered(given, wordsOf(state.query));
    said.replaceChildren(...nodes.said);
    byId("evidence").replaceChildren(...nodes.evidence);
    await learning;
    write.hidden = llm || !known.llm || !given.meta.sentences.length;
    write.textContent = `Let ${line(known.llm)} write it`;
    await listing;
    if (!signal.aborted) showBeside(given);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.status === 401) failed(error);
    doing.replaceWith(element("p", {}, error.message));
    write.hidden = !llm;
  }
}

/** Shows what matches the question well, beside the evidence of an answer. */
function showBeside(given) {
  const links = besides(grouped(found.hits).map(([best]) => best), given).slice(0, BESIDE).map(linkTo);
  byId("beside").querySelector("ul").replaceChildren(...links.map((link) => element("li", {}, link)));
  byId("beside").hidden = !links.length;
}

function failed(error) {
  if (!(error instanceof Problem)) throw error;
  const locked = error.status === 401;
  if (locked && byId("artifact").open) byId("artifact").close();
  byId("token").hidden = !locked;
  byId("refused").textContent = hasToken() ? "Wrong token." : "";
  byId("problem").hidden = locked;
  byId("problem").textContent = error.message;
  if (locked) byId("secret").focus();
}

// -- one artifact -----------------------------------------------------------------------------------------

async function openArtifact({ artifact, query }) {
  opening.abort();
  opening = new AbortController();
  const dialog = byId("artifact");
  const body = byId("artifact-body");
  byId("artifact-title").replaceChildren(name(artifact.id));
  byId("artifact-actions").replaceChildren();
  body.replaceChildren(element("p", { className: "faint" }, "Opening …"));
  if (!dialog.open) raise();
  byId("artifact-title").focus({ preventScroll: true });
  current();
  try {
    const of = { id: artifact.id, corpus: artifact.corpus };
    const records = call("show", { ...of, level: "records" }, opening.signal);
    const around = [neighbours(of, false, opening.signal), neighbours(of, true, opening.signal)];
    const [view, text, refersTo, referredBy] = await Promise.all([records, wholeText(of, opening.signal), ...around]);
    // The server also takes the end of an id, and a name with a place behind it.
    if (view.artifact_id !== artifact.id) throw new Problem(`No text ${line(artifact.id)} is published.`);
    const own = text?.artifact_version === view.artifact_version ? text.body : null;
    const title = view.title || view.artifact_id;
    byId("artifact-title").replaceChildren(name(title));
    entitle(title);
    body.replaceChildren(...artifactNodes(view, own, artifact, wordsOf(query), { refersTo, referredBy }));
    const whole = own ?? view.records.map((record) => record.text).join("\n\n");
    byId("artifact-actions").replaceChildren(...fileActions(view, whole));
    inView(body.querySelector(".passage"));
    const boxes = scannedPlaces(view, artifact);
    if (!boxes.length) return;
    const scans = element("section", { className: "block scans", "aria-label": "Scanned pages" });
    body.prepend(scans);
    inView(await showScans(scans, view, boxes, opening.signal));
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.status === 401) return failed(error);
    body.replaceChildren(element("p", {}, error.message));
  }
}

/** Returns the whole text of an artifact as last read, or null if it is not available. */
async function wholeText(of, signal) {
  try {
    return await call("show", { ...of, level: "body" }, signal);
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
  }
}

/** Returns the references of an artifact, or those to it; none if the server does not tell them. */
async function neighbours(of, reverse, signal) {
  try {
    return (await call("neighbours", { ...of, reverse }, signal)).neighbours.filter(({ kind }) => kind !== "SUMMARIZES");
  } catch (error) {
    if (error instanceof Problem) return [];
    throw error;
  }
}

/** Opens the artifact next to the results on a wide screen, otherwise on top of them. */
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
  entitle(here().query);
  current();
  (opener?.isConnected ? opener : byId("q")).focus();
  opener = null;
}

/** Marks the open result and keeps it visible, since the list is narrower next to an artifact. */
function current() {
  const open = here().artifact;
  for (const link of document.querySelectorAll("#hits :is(h3, .others p) a")) {
    const { corpus, record } = link.dataset;
    if (open && record === open.record && corpus === open.corpus) {
      link.setAttribute("aria-current", "true");
      const others = link.closest(".others");
      if (others) others.open = true;
      link.closest(".hit").scrollIntoView({ block: "nearest" });
    } else {
      link.removeAttribute("aria-current");
    }
  }
}

// -- the index --------------------------------------------------------------------------------------------

/** Shows the current state of the index, and tells the user if a newer version than the searched one is published. */
async function follow() {
  try {
    const state = await call("status", {});
    byId("state").replaceChildren(...headline(state));
    if (!same(state, stated)) byId("index-body").replaceChildren(...stateNodes(state));
    if (stated && !same(state.published, stated.published)) learning = learnCorpora();
    stated = state;
    if (!state.published && !here().query) toggleIndex(true);
    searched ??= state.published;
    if (!same(searched, state.published) && !byId("newer").firstChild) byId("newer").append(...newer());
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    byId("state").textContent = error.message;
    if (!stated && error.status === 401) failed(error);
  }
}

function newer() {
  const again = element("button", { type: "button", className: "quiet" }, here().query ? "Search again" : "Show it");
  again.addEventListener("click", () => {
    byId("results").focus();
    search(here());
  });
  return ["A new version of the index was published. ", again];
}

/** Loads the corpora and their fields. A failure, as before the first run, is ignored: a search reports the reason. */
async function learnCorpora() {
  try {
    const { corpora } = known;
    known = await call("corpora", {});
    if (!same(corpora, known.corpora)) listConditions(rows());
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
}

function toggleIndex(open) {
  byId("index").hidden = !open;
  byId("state").setAttribute("aria-expanded", String(open));
}

// -- user actions -----------------------------------------------------------------------------------------

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
  } else if (!byId("index").hidden && document.activeElement.closest("#state, #index")) {
    toggleIndex(false);
    byId("state").focus();
  } else if (byId("hits").contains(document.activeElement)) {
    byId("q").focus();
  }
}

function clicked(event) {
  const link = event.target.closest("a[data-record]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  opener = link;
  go(stateOf(link.href));
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  shown.search = null; // submitting the same search repeats it
  const query = byId("q").value.trim();
  byId("more").open = !query && !narrow.matches;
  go(asked(QUESTION.test(query)));
});
byId("ask").addEventListener("change", ({ target }) => {
  if (target.name === "folder") leaveFolder(target);
  if (target.name === "corpus") listConditions(rows());
  if (["mode", "corpus", "kind", "folder", "route"].includes(target.name)) refine();
});
byId("add").addEventListener("click", () => {
  const made = row([], fieldsOf(known.corpora, asked(false).corpora), refine);
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
byId("further").addEventListener("click", async () => {
  if (byId("results").getAttribute("aria-busy") === "true") return;
  await (here().query ? page : browse)(here(), asking.signal);
  await follow(); // tells of a version that was published since the first part of the list
});
byId("write").addEventListener("click", () => {
  byId("answered-title").focus();
  answer(here(), asking.signal, null, true);
});
byId("state").addEventListener("click", () => {
  toggleIndex(byId("index").hidden);
  follow();
});
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
document.addEventListener("visibilitychange", () => document.hidden || follow());
setInterval(() => document.hidden || follow(), AGAIN);
addEventListener("popstate", show);

/** Starts the page from scratch, initially and after a token was entered. */
function begin() {
  learning = learnCorpora();
  shown = { search: null, artifact: null };
  byId("more").open = !here().query && !narrow.matches;
  show();
  if (!here().query && !here().artifact) byId("q").focus();
}

begin();
