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

// What would turn round or hide a part of a line: controls, and marks that say which way text runs.
const TRICKS = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A name as one line that shows all it has. */
export const line = (text) => String(text).replace(TRICKS, "\ufffd");

/** A name or another bit of somebody's text, which does not turn round what stands beside it. */
export const name = (text) => element("bdi", {}, line(text));

export const number = (value) => value.toLocaleString();

/** So many of something, whose plural ends in s. */
export const count = (many, what) => `${number(many)} ${what}${many === 1 ? "" : "s"}`;

export const score = (value) => value.toFixed(3);

/** A time of the server as it is here, "" for none. */
export function moment(iso) {
  const at = new Date(iso ?? "");
  return Number.isNaN(at.valueOf()) ? "" : at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}
