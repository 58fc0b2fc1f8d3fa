// Facets of a search: corpora, kinds of files and folders, with the number of artifacts in each.

import { byId, element, name, number } from "./dom.js";
import { byKind } from "./kinds.js";

const FIRST = 8; // values of a facet that are shown before all are asked for
const GROUPS = [["corpora", "corpus"], ["kinds", "kind"], ["folders", "folder"]];

/** Returns a folder and the folders that it is in, outermost first: "a/", "a/b/". */
const path = (folder) => [...folder.matchAll(/\//g)].map(({ index }) => folder.slice(0, index + 1));

/** Returns the [value, count] of a facet to offer: those counted, and the chosen ones, whose count may be unknown. */
function offered(counted, chosen) {
  const known = new Map(counted.map(({ value, artifacts }) => [value, artifacts]));
  return [...counted.map(({ value }) => value), ...chosen.filter((value) => !known.has(value))]
    .map((value) => [value, known.get(value) ?? null]);
}

/** Shows the facets with what a state has chosen. `counted` is null as long as nothing was counted. */
export function showFacets(counted, { corpora, kinds, folder }) {
  const of = counted ?? { corpora: [], suffixes: [], folders: [] };
  const chosen = path(folder);
  const folders = [...chosen.map((value) => [value, null]), ...offered(of.folders, [])];
  const values = { corpora: offered(of.corpora, corpora), kinds: offered(byKind(of.suffixes), kinds), folders };
  const checked = { corpora, kinds, folders: chosen };
  for (const [id, field] of GROUPS) {
    fill(byId(id), field, values[id]);
    for (const box of boxes(byId(id))) {
      box.checked = checked[id].includes(box.value);
      if (box.checked) box.parentElement.hidden = false;
    }
    byId(id).hidden = values[id].length < 2 && !checked[id].length;
  }
}

const boxes = (group) => [...group.querySelectorAll("input")];

/** Fills a group with values. Controls are recreated only if they must differ, and the focus stays on its value. */
function fill(group, field, values) {
  if (JSON.stringify(boxes(group).map(({ value }) => value)) !== JSON.stringify(values.map(([value]) => value))) {
    const focused = group.contains(document.activeElement) ? document.activeElement.value : null;
    const chips = values.map(([value]) =>
      element(
        "label", {},
        element("input", { type: "checkbox", name: field, value }),
        element("span", {}, name(label(field, value)), element("small")),
      ),
    );
    group.replaceChildren(group.firstElementChild, ...chips, all(group, chips.slice(FIRST)));
    boxes(group).find(({ value }) => value === focused)?.focus();
  }
  for (const [i, box] of boxes(group).entries()) {
    const [, count] = values[i];
    box.nextElementSibling.lastElementChild.textContent = count === null ? "" : ` ${number(count)}`;
  }
}

/** Hides the last chips of a group, and returns the button that shows them; "" if there are none. */
function all(group, chips) {
  if (!chips.length) return "";
  const button = element("button", { type: "button", className: "quiet" }, `${number(chips.length)} more`);
  button.setAttribute("aria-label", `${button.textContent}: ${group.firstElementChild.textContent}`);
  for (const chip of chips) chip.hidden = true;
  button.addEventListener("click", () => {
    button.remove();
    for (const chip of chips) chip.hidden = false;
    chips[0].querySelector("input").focus();
  });
  return button;
}

/** A folder is shown by its own name, since those that it is in are shown before it. */
const label = (field, value) => (field === "folder" ? value.match(/[^/]*\/$/)[0] : value);

/** Reads the chosen facets of the form. */
export function chosenFacets() {
  const [corpora, kinds, folders] = GROUPS.map(([id]) =>
    boxes(byId(id)).filter(({ checked }) => checked).map(({ value }) => value),
  );
  return { corpora, kinds, folder: folders.at(-1) ?? "" };
}

/** Leaves the folders within one that is no longer chosen. */
export function leaveFolder({ checked, value }) {
  if (!checked) for (const box of boxes(byId("folders"))) if (box.value.startsWith(value)) box.checked = false;
}
