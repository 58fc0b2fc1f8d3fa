// The search page: what people do, and what it then asks and shows. All of it stands in the address, see address.js.

import { addressOf, here, stateOf } from "./address.js";
import { answered } from "./answer.js";
import { call, hasToken, Problem, remember } from "./api.js";
import { artifactNodes } from "./artifact.js";
import { byId, count, element, line, name } from "./dom.js";
import { fieldsOf, read, row, sql } from "./filters.js";
import { item } from "./results.js";
import { headline, stateNodes } from "./state.js";
import { wordsOf } from "./words.js";

const PAGE = 10; // hits at once
const DEEPEST = 10_000; // hits that the server pages to
const AGAIN = 60_000; // milliseconds after which the state of the index is asked for again
const wide = matchMedia("(min-width: 70rem)");

let known = { corpora: [], llm: null }; // what the server lists of its corpora and their fields, and who writes answers
let learning = null; // ends when that is there
let searched = null; // the version of the index that was searched
let stated = null; // the state of the index that is shown
let shown = { search: null, artifact: null }; // what of the address is on the page
let asking = new AbortController(); // the search under way, which the next one ends
let opening = new AbortController();
let opener = null; // what has the focus again when the artifact is closed

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const searchIn = (state) => JSON.stringify({ ...state, artifact: null });
const passageIn = (state) => JSON.stringify(state.artifact);

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
    search(state);
  }
  if (passageIn(state) !== shown.artifact) {
    shown.artifact = passageIn(state);
    if (state.artifact) openArtifact(state);
    else closeArtifact();
  }
}

/** The page is called as what is looked at. */
function entitle(what) {
  document.title = what ? `${line(what)} – findingaid` : "findingaid";
}

// -- the form ---------------------------------------------------------------------------------------------

/** What has the focus stays where it is: a control is made anew only where it has to be another. */
function fill(state) {
  byId("q").value = state.query;
  document.querySelector(`input[name=mode][value=${state.mode}]`).checked = true;
  byId("route").value = state.route;
  listCorpora(state);
  if (!same(told(rows()), state.conditions)) listConditions(state.conditions);
  const filters = state.conditions.length + (state.route ? 1 : 0);
  byId("filtered").textContent = filters ? `(${filters})` : "";
  if (filters) byId("more").open = true;
}

function listCorpora(state) {
  const names = [...new Set([...known.corpora.map(({ corpus }) => corpus), ...state.corpora])];
  const boxes = () => [...byId("corpora").querySelectorAll("input")];
  if (!same(names, boxes().map(({ value }) => value))) {
    const chips = names.map((value) =>
      element("label", {}, element("input", { type: "checkbox", name: "corpus", value }), element("span", {}, name(value))),
    );
    byId("corpora").replaceChildren(byId("corpora").querySelector("legend"), ...chips);
  }
  for (const box of boxes()) box.checked = state.corpora.includes(box.value);
  byId("corpora").hidden = names.length < 2;
}

/** Conditions as they stand in the form, and those of them that say something. */
const rows = () => [...byId("conditions").querySelectorAll("li")].map(read);
const told = (conditions) => conditions.filter(([, , value]) => value !== "");

function listConditions(conditions) {
  const fields = fieldsOf(known.corpora, asked(false).corpora);
  byId("conditions").querySelector("ul").replaceChildren(...conditions.map((one) => row(one, fields, refine)));
}

function asked(answer) {
  const form = new FormData(byId("ask"));
  const [query, mode, route] = ["q", "mode", "route"].map((field) => form.get(field));
  return { query: query.trim(), mode, corpora: form.getAll("corpus"), route, conditions: told(rows()), answer, artifact: null };
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
  for (const id of ["problem", "answered", "further"]) byId(id).hidden = true;
  byId("newer").replaceChildren();
  byId("results").setAttribute("aria-busy", "false");
  entitle(state.query);
  toggleIndex(!state.query);
  if (state.query) {
    byId("found").textContent = "Searching …";
    await Promise.all([page(state, 0, signal), state.answer ? answer(state, signal) : null]);
  } else {
    byId("hits").replaceChildren();
    byId("found").textContent = "";
  }
  if (signal.aborted) return;
  searched = null;
  await follow();
}

/** Conditions can be put only when it is known of which type their fields are. */
async function filters(state) {
  if (state.conditions.length) await learning;
  const where = sql(state.conditions, fieldsOf(known.corpora, state.corpora));
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
    byId("problem").hidden = true;
    list(hits.slice(0, PAGE), offset, wordsOf(query));
    byId("further").hidden = hits.length <= PAGE;
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!offset) byId("hits").replaceChildren();
    if (!offset) byId("found").textContent = "";
    failed(error);
  }
  results.setAttribute("aria-busy", "false");
}

function list(hits, offset, words) {
  const items = hits.map((hit, i) => item(hit, words, offset + i + 1));
  if (offset) byId("hits").append(...items);
  else byId("hits").replaceChildren(...items);
  const many = offset + hits.length;
  byId("found").textContent = many ? `${count(many, "result")}, best first` : "Nothing matches. Fewer filters may find more.";
  current();
  if (offset) items[0]?.querySelector("h3 a").focus();
}

/** An answer from claims; one that a model writes only where somebody asks for it, since a call may cost money. */
async function answer(state, signal, llm = false) {
  const [said, write] = [byId("said"), byId("write")];
  const doing = element("p", { className: "faint" }, llm ? `${line(known.llm)} is writing …` : "Looking for claims …");
  if (!llm) for (const id of ["said", "evidence"]) byId(id).replaceChildren();
  said.append(doing);
  write.hidden = true;
  byId("answered").hidden = false;
  try {
    const found = await call("answer", { query: state.query, llm, ...(await filters(state)) }, signal);
    if (llm && !found.claims.length) throw new Problem(`${line(known.llm)} wrote nothing that the claims carry.`);
    const nodes = answered(found, wordsOf(state.query));
    said.replaceChildren(...nodes.said);
    byId("evidence").replaceChildren(...nodes.evidence);
    await learning;
    write.hidden = llm || !known.llm || !found.claims.length;
    write.textContent = `Have ${line(known.llm)} write it`;
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.status === 401) failed(error);
    doing.replaceWith(element("p", {}, error.message));
    write.hidden = !llm;
  }
}

function failed(error) {
  if (!(error instanceof Problem)) throw error;
  const locked = error.status === 401;
  if (locked && byId("artifact").open) byId("artifact").close();
  byId("token").hidden = !locked;
  byId("refused").textContent = hasToken() ? "Not the right token." : "";
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
  body.replaceChildren(element("p", { className: "faint" }, "Opening …"));
  if (!dialog.open) raise();
  byId("artifact-title").focus({ preventScroll: true });
  current();
  try {
    const of = { id: artifact.id, corpus: artifact.corpus };
    const [view, text] = await Promise.all([call("show", of, opening.signal), wholeText(of, opening.signal)]);
    const own = text?.artifact_version === view.artifact_version ? text.body : null;
    const title = view.title || view.artifact_id;
    byId("artifact-title").replaceChildren(name(title));
    entitle(title);
    body.replaceChildren(...artifactNodes(view, own, artifact, wordsOf(query)));
    inView(body.querySelector(".passage"));
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.status === 401) return failed(error);
    body.replaceChildren(element("p", {}, error.message));
  }
}

/** What the artifact said when it was last read, null where that is not to be had. */
async function wholeText(of, signal) {
  try {
    return await call("show", { ...of, level: "body" }, signal);
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
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
  entitle(here().query);
  current();
  (opener?.isConnected ? opener : byId("q")).focus();
  opener = null;
}

/** Says which of the results is open, and keeps it where it can be seen, since the list is narrower beside an artifact. */
function current() {
  const open = here().artifact;
  for (const link of links()) {
    const { corpus, record } = link.dataset;
    if (open && record === open.record && corpus === open.corpus) {
      link.setAttribute("aria-current", "true");
      link.closest(".hit").scrollIntoView({ block: "nearest" });
    } else {
      link.removeAttribute("aria-current");
    }
  }
}

// -- the index --------------------------------------------------------------------------------------------

/** Shows the state of the index as it is now, and says when it is another than what was searched. */
async function follow() {
  try {
    const state = await call("status", {});
    byId("state").replaceChildren(...headline(state));
    if (!same(state, stated)) byId("index-body").replaceChildren(...stateNodes(state));
    if (stated && !same(state.published, stated.published)) learning = learnCorpora();
    stated = state;
    searched ??= state.published;
    if (here().query && !same(searched, state.published) && !byId("newer").firstChild) byId("newer").append(...newer());
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    byId("state").textContent = error.message;
    if (!stated && error.status === 401) failed(error);
  }
}

function newer() {
  const again = element("button", { type: "button", className: "quiet" }, "Search again");
  again.addEventListener("click", () => {
    byId("results").focus();
    search(here());
  });
  return ["The index has been published anew since. ", again];
}

/** Without them, as before the first run, there are no filters to choose from; a search says why itself. */
async function learnCorpora() {
  try {
    const { corpora } = known;
    known = await call("corpora", {});
    byId("wants-answer").hidden = !known.corpora.some(({ claims }) => claims);
    listCorpora(asked(false));
    if (!same(corpora, known.corpora)) listConditions(rows());
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
}

function toggleIndex(open) {
  byId("index").hidden = !open;
  byId("state").setAttribute("aria-expanded", String(open));
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
  shown.search = null; // asked again is done again
  go(asked(event.submitter === byId("wants-answer")));
});
byId("ask").addEventListener("change", ({ target }) => {
  if (target.name === "corpus") listConditions(rows());
  if (["mode", "corpus", "route"].includes(target.name)) refine();
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
byId("further").addEventListener("click", () => {
  if (byId("results").getAttribute("aria-busy") === "true") return;
  page(here(), byId("hits").children.length, asking.signal);
});
byId("write").addEventListener("click", () => {
  byId("answered-title").focus();
  answer(here(), asking.signal, true);
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

/** Everything from the start, as after a token was given. */
function begin() {
  learning = learnCorpora();
  shown = { search: null, artifact: null };
  show();
  if (!here().query && !here().artifact) byId("q").focus();
}

begin();
