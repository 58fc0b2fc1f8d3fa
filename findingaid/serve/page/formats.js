// Formats of texts: which are code, and which parts of Markdown are.

const CODE = /^(text\/(x-|css|csv|html|javascript|xml)|application\/(json|toml|xml|x-))/;
const FENCED = /^(```|~~~)[^]*?(?:^\1.*\n?|(?![^]))/gm;

export const isCode = (type) => CODE.test(type);

/** Returns whether a text is Markdown. Readmes are, whatever their package says of itself. */
export const isMarkdown = (type, kind) => type === "text/markdown" || kind === "readme";

/** Returns the media type of the text of a record. */
export function typeOf({ media_type: kept = "", text_type: type = kept }) {
  return type;
}

/** Splits Markdown into parts [text, whether it is a fenced code block] with the same total length. */
export function fenced(text) {
  const parts = [];
  let from = 0;
  for (const { 0: block, index } of text.matchAll(FENCED)) {
    parts.push([text.slice(from, index), false], [block, true]);
    from = index + block.length;
  }
  return [...parts, [text.slice(from), false]];
}
