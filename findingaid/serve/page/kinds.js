// Kinds of files, as people call them: families of suffixes. A suffix of no family is a kind of its own.

const FAMILIES = new Map(Object.entries({
  Notes: [".md", ".markdown", ".txt", ".rst", ".org", ".adoc", ".tex"],
  PDF: [".pdf"],
  Office: [".docx", ".doc", ".odt", ".rtf", ".xlsx", ".xls", ".ods", ".pptx", ".ppt", ".odp", ".epub"],
  Images: [".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"],
  Mail: [".eml", ".mbox", ".msg"],
  Web: [".html", ".htm", ".xhtml"],
  Data: [".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".toml", ".xml", ".ini", ".sql"],
  Code: [
    ".py", ".ipynb", ".js", ".mjs", ".jsx", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".scala", ".c", ".h", ".cc", ".cpp",
    ".hpp", ".cs", ".swift", ".rb", ".php", ".pl", ".lua", ".r", ".jl", ".hs", ".ex", ".sh", ".ps1", ".css", ".scss",
  ],
}));

const kindOf = new Map([...FAMILIES].flatMap(([kind, all]) => all.map((suffix) => [suffix, kind])));

/** Returns the suffixes of kinds. */
export const suffixesOf = (kinds) => kinds.flatMap((kind) => FAMILIES.get(kind) ?? [kind]);

/** Adds up counts by suffix, [{value, artifacts}], to counts by kind, most first. */
export function byKind(counted) {
  const sums = new Map();
  for (const { value, artifacts } of counted) {
    const kind = kindOf.get(value) ?? value;
    sums.set(kind, (sums.get(kind) ?? 0) + artifacts);
  }
  return [...sums].map(([value, artifacts]) => ({ value, artifacts })).sort((a, b) => b.artifacts - a.artifacts);
}
