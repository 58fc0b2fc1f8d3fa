// Highlighting of query words in a text, by rough stemming. It is a visual aid, independent of the ranking.

import { element } from "./dom.js";

const STOP = new Set(
  `a about an and are as at be but by can do does for from had has have how i if in into is it its no not of on or so such
  that the their then there these they this to was what when where which who why will with`.split(/\s+/),
);
const WORD = /[\p{L}\p{N}\p{M}]+/gu;
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Khmer}\p{Script=Lao}]/u;
const EXCERPT = 320; // characters shown of a hit
const LINES = 8; // lines shown of code
const LINE = 300; // characters shown of a line of code
const LONGEST = 200_000; // characters of a text that are searched for words

function stem(word) {
  let found = word.toLowerCase();
  for (const ending of ["ing", "ed", "es", "s", "e"]) {
    if (found.endsWith(ending) && found.length - ending.length >= 3) {
      found = found.slice(0, -ending.length);
      break;
    }
  }
  return found.replace(/y$/, "i").replace(/([^aeiouls])\1$/, "$1");
}

/** Returns the stems of a query's words. Words of scripts without spaces are also returned unstemmed, as `pieces`. */
export function wordsOf(query) {
  const all = query.match(WORD) ?? [];
  const telling = all.filter((word) => !STOP.has(word.toLowerCase()));
  const words = telling.length ? telling : all;
  return {
    stems: new Set(words.map(stem)),
    pieces: words.filter((word) => UNSPACED.test(word)).map((word) => word.toLowerCase()),
  };
}

/** Returns [start, end, stem] of every word of a text that is in the query. */
function places(text, { stems, pieces }) {
  const looked = text.slice(0, LONGEST);
  const found = [];
  for (const match of looked.matchAll(WORD)) {
    const key = stem(match[0]);
    if (stems.has(key)) found.push([match.index, match.index + match[0].length, key]);
    else if (UNSPACED.test(match[0])) found.push(...within(match[0], match.index, pieces));
  }
  return found;
}

function within(run, at, pieces) {
  const found = [];
  for (const piece of pieces) {
    const start = run.toLowerCase().indexOf(piece);
    if (start >= 0) found.push([at + start, at + start + piece.length, piece]);
  }
  return found.sort((one, other) => one[0] - other[0]).filter((one, i, all) => i === 0 || one[0] >= all[i - 1][1]);
}

/** Renders a text as nodes with the words of the query marked. */
export function marked(text, words) {
  const nodes = [];
  let from = 0;
  for (const [start, end] of places(text, words)) {
    nodes.push(text.slice(from, start), element("mark", {}, text.slice(start, end)));
    from = end;
  }
  nodes.push(text.slice(from));
  return nodes.filter((node) => node !== "");
}

/** Returns the start of the window with the most distinct found words, then the most words; 0 if no word was found. */
function densest(found, size) {
  const inside = new Map(); // stem -> number of occurrences in the window
  let [best, most, end] = [0, 0, 0];
  found.forEach(([start, , key], i) => {
    for (; end < found.length && found[end][1] <= start + size; end++) {
      inside.set(found[end][2], (inside.get(found[end][2]) ?? 0) + 1);
    }
    const worth = inside.size * size + end - i;
    if (worth > most) [best, most] = [start, worth];
    if (inside.get(key) > 1) inside.set(key, inside.get(key) - 1);
    else inside.delete(key);
  });
  return best;
}

/** Returns how many distinct query words a text has. */
export const covered = (text, words) => new Set(places(text, words).map(([, , key]) => key)).size;

/** Returns the lines of code with the most query words, or the first ones, without the indentation that all have. */
export function excerptLines(text, words) {
  const lines = text.replace(/^\s*\n|\s+$/g, "").split("\n");
  const whole = lines.join("\n");
  const at = whole.slice(0, densest(places(whole, words), EXCERPT)).split("\n").length - 1;
  const from = Math.max(0, Math.min(at - 1, lines.length - LINES));
  const kept = lines.slice(from, from + LINES).map((one) => (one.length > LINE ? `${one.slice(0, LINE)}…` : one));
  const indents = kept.filter((one) => one.trim()).map((one) => one.match(/^\s*/)[0].length);
  const bare = kept.map((one) => one.slice(Math.min(...indents)));
  return [...(from ? ["…"] : []), ...bare, ...(from + LINES < lines.length ? ["…"] : [])].join("\n");
}

/** Returns the part of a text with the most query words, or its beginning if it has none. */
export function excerpt(text, words) {
  if (text.length <= EXCERPT) return text;
  const best = densest(places(text, words), EXCERPT * 0.8);
  const from = best < EXCERPT * 0.6 ? 0 : text.indexOf(" ", best - EXCERPT * 0.2) + 1 || best;
  const start = from > best ? best : from;
  const end = start + EXCERPT < text.length ? text.lastIndexOf(" ", start + EXCERPT) : text.length;
  const until = end > start ? end : start + EXCERPT;
  return (start ? "… " : "") + text.slice(start, until).trim() + (until < text.length ? " …" : "");
}
