// Elements made without ever reading HTML: every string becomes a text node.

export const byId = (id) => document.getElementById(id);

/** An element with properties and attributes (those with a dash, and `role`), and what is in it; null and "" are left out. */
export function element(name, given = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (key.includes("-") || key === "role") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children.flat().filter((child) => child !== null && child !== ""));
  return made;
}

// What would turn round or hide a part of a line: controls, marks that say which way text runs, and joiners of letters
// beside ASCII, where they join nothing; between other letters and emoji they are part of how these are written.
const TRICKS =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]|(?<![^\u0000-\u007f])[\u200c\u200d]|[\u200c\u200d](?![^\u0000-\u007f])/g;

/** A name as one line that shows all it has. */
export const line = (text) => String(text).replace(TRICKS, "\ufffd");

/** A name or another bit of somebody's text, which does not turn round what stands beside it. */
export const name = (text) => element("bdi", {}, line(text));

export const number = (value) => value.toLocaleString();

/** So many of something, whose plural ends in s. */
export const count = (many, what) => `${number(many)} ${what}${many === 1 ? "" : "s"}`;

export const score = (value) => value.toFixed(3);

/** A time of the server as it is here, "" for none; of this year without the year. */
export function moment(iso) {
  const at = new Date(iso ?? "");
  if (Number.isNaN(at.valueOf())) return "";
  const year = at.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  return at.toLocaleString([], { ...year, month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });
}

/** A table of rows of texts or nodes, which scrolls by itself where it is too wide, by keyboard, too, where it has a `label`. */
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
