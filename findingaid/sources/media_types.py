"""Media types by suffix: one table, so that two machines, or two versions of Python, give a file the same type."""

from __future__ import annotations

import os
from collections.abc import Mapping

JSON = frozenset({"application/json", "application/jsonl"})
MARKDOWN = "text/markdown"
OFFICE = "application/vnd.openxmlformats-officedocument."

MEDIA_TYPES: Mapping[str, str] = {
    ".adoc": "text/x-asciidoc",
    ".asciidoc": "text/x-asciidoc",
    ".c": "text/x-c",
    ".cc": "text/x-c++",
    ".cjs": "text/javascript",
    ".cpp": "text/x-c++",
    ".css": "text/css",
    ".csv": "text/csv",
    ".cts": "text/x-typescript",
    ".cxx": "text/x-c++",
    ".docx": f"{OFFICE}wordprocessingml.document",
    ".eml": "message/rfc822",
    ".epub": "application/epub+zip",
    ".go": "text/x-go",
    ".h": "text/x-chdr",
    ".hh": "text/x-c++",
    ".hpp": "text/x-c++",
    ".htm": "text/html",
    ".html": "text/html",
    ".hxx": "text/x-c++",
    ".ics": "text/calendar",
    ".ipynb": "application/x-ipynb+json",
    ".java": "text/x-java",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".js": "text/javascript",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".jsx": "text/javascript",
    ".latex": "application/x-tex",
    ".markdown": MARKDOWN,
    ".md": MARKDOWN,
    ".mdx": MARKDOWN,
    ".mht": "message/rfc822",
    ".mhtml": "message/rfc822",
    ".mjs": "text/javascript",
    ".msg": "application/vnd.ms-outlook",
    ".mts": "text/x-typescript",
    ".ndjson": "application/jsonl",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".org": "text/x-org",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".pptx": f"{OFFICE}presentationml.presentation",
    ".py": "text/x-python",
    ".pyi": "text/x-python",
    ".rs": "text/x-rust",
    ".rst": "text/x-rst",
    ".rtf": "application/rtf",
    ".sh": "application/x-sh",
    ".sql": "application/sql",
    ".srt": "application/x-subrip",
    ".svg": "image/svg+xml",
    ".tex": "application/x-tex",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".toml": "application/toml",
    ".ts": "text/x-typescript",
    ".tsv": "text/tab-separated-values",
    ".tsx": "text/x-tsx",
    ".vcf": "text/vcard",
    ".vtt": "text/vtt",
    ".webp": "image/webp",
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


def media_type_of(name: str) -> str:
    """Return the media type of a file name."""
    return MEDIA_TYPES.get(os.path.splitext(name)[1].lower(), "text/plain")
