"""Media types by suffix: one table, so that two machines, or two versions of Python, give a file the same type."""

from __future__ import annotations

from collections.abc import Mapping

MARKDOWN = "text/markdown"
OFFICE = "application/vnd.openxmlformats-officedocument."

MEDIA_TYPES: Mapping[str, str] = {
    ".css": "text/css",
    ".csv": "text/csv",
    ".docx": f"{OFFICE}wordprocessingml.document",
    ".eml": "message/rfc822",
    ".epub": "application/epub+zip",
    ".htm": "text/html",
    ".html": "text/html",
    ".ipynb": "application/x-ipynb+json",
    ".js": "text/javascript",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".latex": "application/x-latex",
    ".markdown": MARKDOWN,
    ".md": MARKDOWN,
    ".mdx": MARKDOWN,
    ".mht": "message/rfc822",
    ".mhtml": "message/rfc822",
    ".mjs": "text/javascript",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".pdf": "application/pdf",
    ".pptx": f"{OFFICE}presentationml.presentation",
    ".py": "text/x-python",
    ".rtf": "application/rtf",
    ".rst": "text/x-rst",
    ".sh": "application/x-sh",
    ".sql": "application/sql",
    ".svg": "image/svg+xml",
    ".tex": "application/x-tex",
    ".toml": "application/toml",
    ".ts": "text/x-typescript",
    ".tsv": "text/tab-separated-values",
    ".tsx": "text/x-typescript",
    ".vtt": "text/vtt",
    ".xhtml": "application/xhtml+xml",
    ".xls": "application/vnd.ms-excel",
    ".xlsb": "application/vnd.ms-excel.sheet.binary.macroEnabled.12",
    ".xlsm": "application/vnd.ms-excel.sheet.macroEnabled.12",
    ".xlsx": f"{OFFICE}spreadsheetml.sheet",
    ".xml": "text/xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
"""Types of suffixes; every other file is text/plain."""
