// State of the page in its URL: the search and the open artifact. Both can be linked to, and Back undoes them.

/** Returns the state that a URL encodes. */
export function stateOf(address) {
  const given = new URL(address, document.baseURI).searchParams;
  const span = given.get("span")?.match(/^(\d+)-(\d+)$/);
  return {
    query: given.get("q") ?? "",
    mode: ["dense", "lexical"].includes(given.get("mode")) ? given.get("mode") : "hybrid",
    corpora: given.getAll("corpus"),
    kinds: given.getAll("kind"),
    folder: given.get("folder") ?? "",
    route: given.get("route") ?? "",
    conditions: given.getAll("where").map(condition).filter(Boolean),
    answer: given.get("answer") === "1",
    artifact: given.get("artifact") && {
      id: given.get("artifact"),
      corpus: given.get("in"),
      record: given.get("record"),
      span: span ? [Number(span[1]), Number(span[2])] : null,
      version: given.get("version"),
    },
  };
}

/** Parses a condition. It is written as a JSON list of three, because fields and values may contain any character. */
function condition(text) {
  try {
    const made = JSON.parse(text);
    return Array.isArray(made) && made.length === 3 && made.every((part) => typeof part === "string") ? made : null;
  } catch {
    return null;
  }
}

export function addressOf(state) {
  const given = new URLSearchParams();
  if (state.query) given.set("q", state.query);
  if (state.mode !== "hybrid") given.set("mode", state.mode);
  for (const corpus of state.corpora) given.append("corpus", corpus);
  for (const kind of state.kinds) given.append("kind", kind);
  if (state.folder) given.set("folder", state.folder);
  if (state.route) given.set("route", state.route);
  for (const one of state.conditions) given.append("where", JSON.stringify(one));
  if (state.answer) given.set("answer", "1");
  if (state.artifact) {
    const { id, corpus, record, span, version } = state.artifact;
    for (const [key, value] of Object.entries({ artifact: id, in: corpus, record, version })) if (value) given.set(key, value);
    if (span) given.set("span", span.join("-"));
  }
  return given.size ? `?${given}` : "./";
}

export const here = () => stateOf(location.href);

/**
 * Returns the URL of a passage next to the current search. A passage that is not a record is a span of a version of its
 * artifact.
 */
export const passageAddress = ({ corpus, artifact_id: id, record_id: record = null, span = null, artifact_version: version }) =>
  addressOf({ ...here(), artifact: { id, corpus, record, span, version: record ? null : version } });

/** Returns the whole URL of an artifact alone, which stays the same when the artifact changes. */
export const artifactAddress = ({ corpus, artifact_id: id }) =>
  new URL(addressOf({ ...stateOf("./"), artifact: { id, corpus } }), document.baseURI).href;

/** Returns the properties of a link that opens a passage on this page. */
export const leadsTo = (at) => ({ href: passageAddress(at), "data-corpus": at.corpus, "data-record": at.record_id ?? "" });
