// Markdown rendered as elements. The parser gives each piece of text its place in the source, so passages can be marked.

import { leadsTo } from "./address.js";
import { element, line } from "./dom.js";
import { GFM, parser } from "./lezer-markdown.js";

const PIECE = 3_000; // characters of blocks in a unit of layout
const LONGEST = 20_000; // characters of a paragraph in which emphasis and links are looked for
const PATIENCE = 1_000; // milliseconds after which the rest of a text is shown as it is
const DEEPEST = 30; // levels of nested elements

const FIELD = /^([^\s#:-][^:\n]*):(.*(?:\n(?!---)(?:[ \t-].*)?$)*)/gm; // a field of front matter with the lines of its value
const WIKI_LINK = /^!?\[\[([^[\]\n]{1,400})\]\](?!\()/;
const FRONT_MATTER = /^---\n[^]*?\n---(?:\n|$)/;
const TAGS = {
  Paragraph: "p", Task: "p", Emphasis: "em", StrongEmphasis: "strong", Strikethrough: "del", InlineCode: "code", TableCell: "td",
};
const CONTAINERS = { Blockquote: "blockquote", BulletList: "ul", OrderedList: "ol", ListItem: "li" };
const CODE = new Set(["FencedCode", "CodeBlock"]);
const SOURCE = new Set(["HTMLBlock", "CommentBlock", "ProcessingInstructionBlock", "LinkReference"]); // shown as they are
const MARKS = /Mark$|^(CodeInfo|LinkLabel|LinkTitle|TableDelimiter)$/; // syntax that is not shown
const ENTITIES = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", trade: "™", hellip: "…", middot: "·",
  ndash: "–", mdash: "—", larr: "←", rarr: "→", times: "×", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”",
};

// The time for nested links and emphasis grows with the square of the length.
const bounded = { name: "Bounded", before: "Escape", parse: (cx) => (cx.end - cx.offset > LONGEST ? cx.end : -1) };
const wikiLinks = {
  name: "WikiLink", before: "Link",
  parse: (cx, next, at) => {
    const found = next === 33 || next === 91 ? WIKI_LINK.exec(cx.slice(at, Math.min(at + 410, cx.end))) : null; // "!" or "["
    return found ? cx.addElement(cx.elt("WikiLink", at, at + found[0].length)) : -1;
  },
};
const markdown = parser.configure([GFM, { defineNodes: ["WikiLink"], parseInline: [bounded, wikiLinks] }]);

/** Parses a text, or the beginning of it if that takes too long. */
function parsed(text) {
  const work = markdown.startParse(text);
  const until = performance.now() + PATIENCE;
  for (;;) {
    const tree = work.advance();
    if (tree) return tree;
    if (work.stoppedAt === null && performance.now() > until) work.stopAt(work.parsedPos);
  }
}

/**
 * Renders Markdown as units of layout. `literal(from, to, shown)` returns the nodes for a range of the text; `shown`
 * replaces characters that stand for others. HTML is shown as text, images by their description. `artifactOf` maps the
 * target of a link, or the name in a wiki link, to the artifact that it leads to, if any.
 */
export function markdownNodes(text, literal, artifactOf) {
  const front = FRONT_MATTER.exec(text)?.[0].length ?? 0;
  const tree = parsed(text.slice(front));
  const moved = (from, to, shown) => literal(from + front, to + front, shown);
  const rendered = new Rendering(text.slice(front), moved, tree, artifactOf).blocks(tree.topNode);
  const rest = front + tree.length;
  if (front) rendered.unshift([front, fields(text.slice(0, front), literal)]);
  if (rest < text.length) rendered.push([text.length - rest, source(literal(rest, text.length))]);
  return units(rendered);
}

/** Puts blocks [size, element] together to units that the browser lays out separately. */
function units(blocks) {
  const made = [];
  let size = Infinity;
  for (const [more, block] of blocks) {
    if (size + more > PIECE) made.push(element("div", { className: "piece markdown" }));
    size = size + more > PIECE ? more : size + more;
    made.at(-1).append(block);
  }
  return made;
}

const source = (nodes) => element("pre", { className: "code" }, nodes);

/** Renders front matter as a table of its fields, whose values stay as they are written. */
function fields(text, literal) {
  const rows = [...text.matchAll(FIELD)].map(({ 0: whole, 1: field, 2: value, index }) => {
    const from = index + whole.length - value.trimStart().length;
    const cells = [literal(index, index + field.length), literal(from, from + value.trim().length)];
    return element("tr", {}, element("th", { scope: "row" }, cells[0]), element("td", {}, cells[1]));
  });
  if (!rows.length) return source(literal(0, text.length));
  const given = { className: "table fields", tabIndex: 0, role: "group", "aria-label": "Front matter" };
  return element("div", given, element("table", {}, element("tbody", {}, rows)));
}

class Rendering {
  constructor(text, literal, tree, artifactOf) {
    this.artifactOf = artifactOf;
    this.text = text;
    this.literal = literal;
    this.depth = 0;
    this.inLink = false;
    this.headings = []; // levels of the headings above the current block
    this.targets = references(text, tree);
  }

  /** Returns [size, element] of each block in a node. */
  blocks(node) {
    return children(node).filter(({ name }) => !MARKS.test(name)).map((block) => [block.to - block.from, this.render(block)]);
  }

  /** Renders the children of a node and the text between them. */
  inside(node, from = node.from, to = node.to) {
    const nodes = [];
    let at = from;
    for (const child of children(node)) {
      if (child.from < from || child.to > to) continue;
      nodes.push(...this.literal(at, child.from), this.render(child));
      at = child.to;
    }
    return [...nodes, ...this.literal(at, to)].flat();
  }

  render(node) {
    if (this.depth > DEEPEST) return this.literal(node.from, node.to);
    this.depth += 1;
    const made = this.block(node) ?? this.inline(node);
    this.depth -= 1;
    return made;
  }

  block(node) {
    const { name } = node;
    if (/^(ATX|Setext)Heading/.test(name)) return element(this.heading(Number(name.at(-1))), {}, this.inside(node));
    if (name in CONTAINERS) return this.container(node);
    if (CODE.has(name)) return source(children(node, "CodeText").flatMap(({ from, to }) => this.literal(from, to)));
    if (SOURCE.has(name)) return source(this.literal(node.from, node.to));
    if (name === "Table") return this.table(node);
    return name === "HorizontalRule" ? element("hr") : null;
  }

  inline(node) {
    const { name, from, to } = node;
    if (name in TAGS) return element(TAGS[name], {}, this.inside(node));
    if (MARKS.test(name)) return [];
    if (name === "HardBreak") return element("br");
    if (name === "Escape") return this.literal(from + 1, to);
    if (name === "Entity") return this.literal(from, to, decoded(this.text.slice(from, to)));
    if (name === "TaskMarker") return this.literal(from, to, /x/i.test(this.text.slice(from, to)) ? "☑" : "☐");
    if (name === "Link" || name === "Image") return this.link(node);
    if (name === "WikiLink") return this.wikiLink(node);
    if (name === "Autolink") return this.linked(this.text.slice(from + 1, to - 1), this.literal(from + 1, to - 1));
    if (name === "URL") return this.linked(this.text.slice(from, to), this.literal(from, to));
    return this.literal(from, to);
  }

  container(node) {
    const start = node.name === "OrderedList" ? parseInt(this.text.slice(node.from, node.to), 10) : NaN;
    const given = Number.isNaN(start) ? {} : { start };
    return element(CONTAINERS[node.name], given, this.blocks(node).flatMap(([, block]) => block));
  }

  /** Returns the tag of a heading. No level is left out, and the page's own headings are above all. */
  heading(level) {
    this.headings = [...this.headings.filter((above) => above < level), level];
    return `h${Math.min(3 + this.headings.length, 6)}`;
  }

  table(node) {
    const rows = children(node).filter(({ name }) => name !== "TableDelimiter").map((row) => this.cells(row));
    const columns = rows[0].length;
    const made = rows.map((cells, i) => {
      const all = Array.from({ length: columns }, (_, column) => cells[column] ?? element("td"));
      return element("tr", {}, i ? all : all.map(headed));
    });
    const table = element("table", {}, element("thead", {}, made[0]), element("tbody", {}, made.slice(1)));
    return element("div", { className: "table", tabIndex: 0, role: "group", "aria-label": "Table" }, table);
  }

  /** Returns the cells of a row. The parser leaves out empty cells: these are between two delimiters. */
  cells(row) {
    const found = [];
    let before = null;
    for (const child of children(row)) {
      if (child.name === "TableCell") found.push(this.render(child));
      else if (before === "TableDelimiter") found.push(element("td"));
      before = child.name;
    }
    return found;
  }

  /** Renders a link, or an image as a link with its description. Without a known target both are plain text. */
  link(node) {
    const [opens, closes] = children(node, "LinkMark");
    const [url] = children(node, "URL");
    const label = children(node, "LinkLabel").map(({ from, to }) => this.text.slice(from, to)).find((one) => one !== "[]");
    const target = url ? this.text.slice(url.from, url.to) : this.targets.get(key(label ?? this.text.slice(closes ? opens.to - 1 : node.from, closes?.to)));
    if (target === undefined || !closes) return this.literal(node.from, node.to);
    const outer = this.inLink;
    this.inLink = true;
    const nodes = this.inside(node, opens.to, closes.from);
    this.inLink = outer;
    if (node.name === "Image") nodes.unshift("🖼 ");
    return this.linked(target, nodes);
  }

  /** Renders a wiki link by its label, or by the name and the heading that it leads to. */
  wikiLink({ from, to }) {
    const start = this.text.indexOf("[[", from) + 2;
    const bar = this.text.slice(start, to - 2).indexOf("|");
    const name = this.text.slice(start, bar < 0 ? to - 2 : start + bar).split("#")[0].replace(/\\$/, "");
    return this.toArtifact(this.artifactOf(name, true), name, this.literal(bar < 0 ? start : start + bar + 1, to - 2));
  }

  toArtifact(artifact, target, nodes) {
    if (!artifact || this.inLink) return element("span", { title: line(target) }, nodes);
    return element("a", { ...leadsTo(artifact), title: line(target) }, nodes);
  }

  /** Returns a link to another site or to an artifact. Other targets are named in its title. */
  linked(target, nodes) {
    const address = external(target);
    const shown = nodes.some((node) => (node.textContent ?? node).trim()) ? nodes : [line(target)];
    if (!address || this.inLink) return this.toArtifact(this.artifactOf(target, false), target, shown);
    return element("a", { href: address, title: line(address), target: "_blank", rel: "noopener noreferrer" }, shown);
  }
}

const headed = (cell) => (cell.textContent.trim() ? element("th", { scope: "col" }, ...cell.childNodes) : cell);

/** Returns the children of a node, all or those of one name. */
function children(node, name = null) {
  const found = [];
  for (let child = node.firstChild; child; child = child.nextSibling) if (!name || child.name === name) found.push(child);
  return found;
}

/** Returns the targets of links that a text defines apart from the links, by label. */
function references(text, tree) {
  const found = new Map();
  tree.iterate({
    enter: ({ name, node }) => {
      if (name !== "LinkReference") return;
      const [label] = children(node, "LinkLabel");
      const [url] = children(node, "URL");
      if (label && url && !found.has(key(text.slice(label.from, label.to)))) found.set(key(text.slice(label.from, label.to)), text.slice(url.from, url.to));
    },
  });
  return found;
}

const key = (label) => label.toLowerCase().replace(/\s+/g, " ");

/** Returns the address of a target on the web or of a mailbox, otherwise null. */
function external(target) {
  const text = target.replace(/^<|>$/g, "").replace(/\\([!-/:-@[-`{-~])/g, "$1");
  const whole = /^www\./i.test(text) ? `https://${text}` : /^[^\s/:]+@[^\s/:]+$/.test(text) ? `mailto:${text}` : text;
  const address = URL.canParse(whole) ? new URL(whole) : null;
  return address && ["http:", "https:", "mailto:"].includes(address.protocol) ? address.href : null;
}

/** Decodes a character reference without a parser of HTML. Unknown names are shown as they are. */
function decoded(entity) {
  const numeric = /^&#(?:x([0-9a-f]+)|(\d+));$/i.exec(entity);
  if (!numeric) return ENTITIES[entity.slice(1, -1)] ?? entity;
  const point = numeric[1] ? parseInt(numeric[1], 16) : Number(numeric[2]);
  return point > 0 && point <= 0x10ffff ? line(String.fromCodePoint(point)) : "\ufffd";
}
