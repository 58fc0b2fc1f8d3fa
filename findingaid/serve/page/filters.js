// Filter conditions: form rows of field, operator and value, converted to SQL for a search.

import { element } from "./dom.js";
import { suffixesOf } from "./kinds.js";

const COMPARED = [["=", "is"], ["<>", "is not"], [">=", "is at least"], ["<=", "is at most"]];
const OPERATORS = {
  string: [["=", "is"], ["<>", "is not"], ["contains", "contains"], ["starts", "starts with"]],
  bool: [["=", "is"]],
  timestamp: [[">=", "is from"], ["<", "is before"]],
  list: [["has", "has"]],
  number: COMPARED,
};
const COLUMNS = [["surface_kind", "string"], ["artifact_id", "string"], ["title", "string"]]; // columns of every record

function family(type) {
  if (type.startsWith("list")) return "list";
  if (/^(u?int|float|double|halffloat)/.test(type)) return "number";
  return OPERATORS[type] ? type : "string";
}

const quoted = (text) => `'${text.replaceAll("'", "''")}'`;

function literal(type, value) {
  if (family(type) === "number") {
    if (/^-?\d+$/.test(value.trim())) return value.trim(); // as it is written: a Number rounds a long one
    return Number.isFinite(Number(value)) ? String(Number(value)) : quoted(value);
  }
  if (type === "bool") return value === "false" ? "false" : "true";
  if (type === "timestamp") {
    const at = new Date(value);
    return Number.isNaN(at.valueOf()) ? quoted(value) : `timestamp ${quoted(at.toISOString())}`;
  }
  return quoted(value);
}

/**
 * Returns the fields that conditions can use, name -> type: fields of the chosen corpora, and columns of every record.
 * Lists of other types than strings are left out, because the server does not allow filters on them.
 */
export function fieldsOf(corpora, chosen) {
  const own = corpora.filter(({ corpus }) => !chosen.length || chosen.includes(corpus)).flatMap(({ fields }) => fields);
  const known = own.filter(({ type }) => !type.startsWith("list") || type === "list<string>");
  return new Map([...COLUMNS, ...known.map(({ name, type }) => [name, type])]);
}

/** Converts the chosen kinds of files and folder to SQL conditions. */
export function facetSql({ kinds, folder }) {
  const suffixes = suffixesOf(kinds).map((suffix) => `artifact_id ILIKE ${quoted(`%${suffix}`)}`).join(" OR ");
  return [suffixes && `(${suffixes})`, folder && `starts_with(artifact_id, ${quoted(folder)})`].filter(Boolean);
}

/** Converts conditions [field, operator, value] to SQL, or null for none. Those without a value are ignored. */
export function sql(conditions, fields) {
  const parts = conditions.filter(([field, , value]) => field && value !== "").map(([field, operator, value]) => {
    const type = fields.get(field) ?? "string";
    const column = `\`${field.replaceAll("`", "")}\``;
    if (operator === "has") return `array_has(${column}, ${quoted(value)})`;
    if (operator === "contains") return `contains(${column}, ${quoted(value)})`;
    if (operator === "starts") return `starts_with(${column}, ${quoted(value)})`;
    return `${column} ${operator} ${literal(type, value)}`;
  });
  return parts.length ? parts.join(" AND ") : null;
}

/** Creates a form row for one condition; `changed` is called when the condition changes. */
export function row(condition, fields, changed) {
  const [field = fields.keys().next().value, operator, value = ""] = condition;
  const type = fields.get(field) ?? "string";
  const option = (chosen) => ([key, label]) => element("option", { value: key, selected: key === chosen }, label);
  const names = fields.has(field) ? [...fields.keys()] : [field, ...fields.keys()];
  const which = element("select", { "aria-label": "Field" }, names.map((key) => option(field)([key, key])));
  const how = element("select", { "aria-label": "Condition" }, OPERATORS[family(type)].map(option(operator)));
  const what =
    type === "bool"
      ? element("select", { "aria-label": "Value" }, [["true", "true"], ["false", "false"]].map(option(value)))
      : element("input", { "aria-label": "Value", value, type: type === "timestamp" ? "datetime-local" : "text" });
  const remove = element("button", { type: "button", className: "quiet" }, "Remove");
  const made = element("li", {}, which, how, what, remove);
  which.addEventListener("change", () => {
    const next = row([which.value, undefined, ""], fields, changed);
    made.replaceWith(next);
    next.querySelector("select").focus();
    if (read(next)[2]) changed(); // the new row already has a value, for example true
  });
  how.addEventListener("change", changed);
  what.addEventListener("change", changed);
  remove.addEventListener("click", () => {
    made.remove();
    changed();
  });
  return made;
}

/** Reads the condition of a form row. */
export const read = (item) => [...item.querySelectorAll("select, input")].map((control) => control.value);
