// DOM elements created without parsing HTML: every string becomes a text node.

export const byId = (id) => document.getElementById(id);

/**
 * Creates an element with properties, attributes and children. Keys with a dash and `role` are set as attributes,
 * others as properties. Children that are null or "" are left out.
 */
export function element(name, given = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (key.includes("-") || key === "role") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children.flat().filter((child) => child !== null && child !== ""));
  return made;
}

// Characters that could reverse or hide part of a line: control characters, direction marks, and zero-width joiners
// next to ASCII, where they join nothing. Joiners between other letters and emoji are part of the spelling.
const TRICKS =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]|(?<![^\u0000-\u007f])[\u200c\u200d]|[\u200c\u200d](?![^\u0000-\u007f])/g;

/** Converts a name to a single line in which nothing is hidden. */
export const line = (text) => String(text).replace(TRICKS, "\ufffd");

/** Creates an element for a name or other untrusted text, whose direction does not affect the text around it. */
export const name = (text) => element("bdi", {}, line(text));

export const number = (value) => value.toLocaleString();

/** Formats a number with a noun and the ending of its plural. */
export const count = (many, what, plural = "s") => `${number(many)} ${what}${many === 1 ? "" : plural}`;

/** Says what was guessed or left out when an artifact was read. */
export const noteText = ({ words, count: times }) => (times === 1 ? words : `${words}: ${number(times)}`);

/** Says that the source of a text has changed or is gone; null if it is current or unknown. */
export function outdated({ fresh, fresh_note: note }) {
  if (fresh !== "changed" && fresh !== "gone") return null;
  return element("span", { className: "weak" }, line(["source", fresh, note].filter(Boolean).join(" ")));
}

export const score = (value) => value.toFixed(3);

/** Formats a time of the server in local time, without the year if it is the current one; "" if there is no time. */
export function moment(iso) {
  const at = new Date(iso ?? "");
  if (Number.isNaN(at.valueOf())) return "";
  const year = at.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  return at.toLocaleString([], { ...year, month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });
}

/** Creates a table from rows of texts or nodes. It scrolls if it is too wide, and by keyboard if it has a `label`. */
export function table(head, rows, label) {
  const cells = (kind, given, row) => element("tr", {}, row.map((cell) => element(kind, given, cell)));
  const made = element(
    "table", {},
    element("thead", {}, cells("th", { scope: "col" }, head)),
    element("tbody", {}, rows.map((row) => cells("td", {}, row))),
  );
  const named = label ? { tabIndex: 0, role: "region", "aria-label": label } : {};
  return element("div", { className: "table", ...named }, made);
}
