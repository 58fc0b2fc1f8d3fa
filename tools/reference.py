"""Generator for parts of docs/reference/: settings, kinds, commands, server capabilities, classes and tables.

It is a Sphinx extension that generates them from the code when the site is built. In a page, `<!-- made: NAME -->`
marks the place of a part. Parts are Markdown, so that their headings can be linked to. Files outside of docs/ are not
part of the site, so links to them are replaced by the link text and the file's path.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from inspect import cleandoc, getdoc, isclass
from operator import add
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click
import pyarrow as pa
import yaml
from pydantic import BaseModel, Secret, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

import findingaid
from findingaid.claims.extraction import CLAIM_EXTRACTORS
from findingaid.claims.nodes import NODE_PRODUCERS
from findingaid.cli import main
from findingaid.config import settings as config
from findingaid.embedding import EMBEDDERS
from findingaid.query.answers.generation import ANSWERERS
from findingaid.query.answers.verification import VERIFIERS
from findingaid.query.search.components import RERANKERS, REWRITERS, SELECTORS
from findingaid.registry import Registry
from findingaid.serve import openapi
from findingaid.serve.capabilities import CAPABILITIES, Capability
from findingaid.sources import SOURCES
from findingaid.store import schemas
from findingaid.strategies import STRATEGIES
from findingaid.synthesis import SUMMARIZERS, SYNTHESIZERS

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:)([^)#\s]+)(?:#[^)\s]*)?\)")
MADE = re.compile(r"^<!-- made: (\w+) -->$", re.MULTILINE)
HELP_WIDTH = 100
WORDS: dict[Any, str] = {
    Any: "anything",
    bool: "true or false",
    float: "number",
    int: "whole number",
    NoneType: "null",
    Path: "path",
    SecretStr: "text",
    str: "text",
}
"""Python type -> its name for readers of YAML."""

JSON_WORDS = {
    "boolean": "true or false",
    "integer": "whole number",
    "null": "null",
    "number": "number",
    "string": "text",
}
"""JSON Schema type -> its name for readers."""

SPECS: dict[str, Registry[Any]] = {
    "corpora.NAME.source": SOURCES,
    "corpora.NAME.strategy": STRATEGIES,
    "embedder": EMBEDDERS,
    "synthesizer": SYNTHESIZERS,
    "synthesizer.summarizer": SUMMARIZERS,
    "corpora.NAME.claims": CLAIM_EXTRACTORS,
    "corpora.NAME.summary_nodes": NODE_PRODUCERS,
    "answer": ANSWERERS,
    "verifier": VERIFIERS,
    "search.rewrite": REWRITERS,
    "search.rerank": RERANKERS,
    "search.select": SELECTORS,
}
"""Configuration key that takes a kind -> the registry of its kinds."""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    head = list(head)
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells)


def code(value: object) -> str:
    """Return a value as inline code, or a dash if it is empty."""
    return f"`{value}`" if str(value) else "-"


def settings() -> str:
    """Document every key of findingaid.yaml with its type and default, group by group."""
    return "\n\n".join(_model("", config.Settings))


def _model(path: str, model: type[BaseModel]) -> Iterator[str]:
    keys = model.model_fields
    rows = [(code(name), _type(field.annotation), _default(field)) for name, field in keys.items()]
    yield f"## {path or 'At the top'}\n\n{cleandoc(model.__doc__ or '')}\n\n{table(('key', 'type', 'default'), rows)}"
    for name, field in keys.items():
        for within in _models(field.annotation):
            named = ".NAME" if "dict" in str(field.annotation) else ""
            yield from _model(f"{path}.{name}{named}".lstrip("."), within)


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for argument in get_args(annotation) for found in _models(argument)]


def _type(annotation: Any) -> str:
    """Describe a Python type for readers of YAML."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Union, UnionType}:
        return " or ".join(dict.fromkeys(map(_type, arguments)))
    if origin is Annotated or origin is Secret:
        return _type(arguments[0])
    if origin is Literal:
        return " or ".join(map(code, arguments))
    if isclass(annotation) and issubclass(annotation, StrEnum):
        return " or ".join(code(member.value) for member in annotation)
    if isclass(origin) and issubclass(origin, Mapping):
        return "keys and values" if arguments[1] is Any else f"names, each with {_type(arguments[1])}"
    if isclass(origin) and issubclass(origin, Collection):
        return f"list of {_type(arguments[0])}"
    if isclass(origin) and issubclass(origin, Callable):  # type: ignore[arg-type]  # works like a class here
        return "`module:function`"
    return WORDS.get(annotation) or ("a group of keys" if _models(annotation) else f"a {annotation.__name__.lower()}")


def _default(field: FieldInfo) -> str:
    return "required" if field.is_required() else _value(field.get_default(call_default_factory=True))


def _value(value: Any) -> str:
    """Return a default value as it would be written in the file."""
    if isinstance(value, BaseModel):
        return "see there"
    if is_dataclass(value):
        return code(type(value).__name__)
    plain = to_jsonable_python(value, fallback=lambda thing: thing.__name__)
    written = yaml.safe_dump(plain, default_flow_style=True, allow_unicode=True, width=math.inf)
    return code(written.removesuffix("...\n").strip())


def kinds() -> str:
    """Document the parameters of each kind and strategy, by configuration key."""
    return "\n\n".join(_kind(key, registry, name) for key, registry in SPECS.items() for name in registry.known())


def _kind(key: str, registry: Registry[Any], name: str) -> str:
    member = registry.member(name, "")
    types = get_type_hints(member, include_extras=True)
    taken = [field for field in fields(member) if field.metadata.get("spec", True)]
    rows = [(code(field.name), _type(types[field.name]), _default_of(field)) for field in taken]
    shown = table(("parameter", "type", "default"), rows) if rows else "It takes no parameter."
    return f"### {key}: {name}\n\n{getdoc(member)}\n\n{shown}"


def _default_of(field: Any) -> str:
    if field.default is not MISSING:
        return _value(field.default)
    return "required" if field.default_factory is MISSING else _value(field.default_factory())


def commands() -> str:
    """Document every command with the output of its `--help`."""
    return "\n\n".join(_command(main, click.Context(main, info_name="findingaid", max_content_width=HELP_WIDTH)))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    context.terminal_width = HELP_WIDTH
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(context)):
            if within := command.get_command(context, name):
                yield from _command(within, click.Context(within, context, name))


def capabilities() -> str:
    """Document the inputs and outputs of every capability, from the server's OpenAPI document."""
    described = openapi.openapi_document(CAPABILITIES, locked=False)
    shapes: Mapping[str, Any] = described["components"]["schemas"]
    within = {*shapes} - {"Failed", "Said"}  # errors are explained on the page about serving
    shown = []
    for capability in CAPABILITIES:
        post = described["paths"][f"/v1/{capability.name}"]["post"]
        (asked,), answers = _bodies(post["requestBody"]), _bodies(post["responses"]["200"])
        within -= {asked, *answers}
        shown.extend(_capability(capability, shapes[asked], [shapes[name] for name in answers]))
    listed = [
        f"({_place(name)})=\n### {name}\n\n{_about(shapes[name])}\n\n{_shape(shapes[name])}" for name in sorted(within)
    ]
    return "\n\n".join([*shown, "## Shapes within these", *listed])


def _capability(
    capability: Capability, asked: Mapping[str, Any], answers: Iterable[Mapping[str, Any]]
) -> Iterator[str]:
    methods = "Asked by POST and GET" if openapi.is_simple(capability) else "Asked by POST"
    limits = "." if capability.read_only else ", of a server with `--write` alone."
    yield f"## {capability.name}\n\n{capability.description} {methods}{limits}\n\n{_shape(asked)}"
    for n, shape in enumerate(answers):
        yield f"{'Or' if n else 'Answered by'}: {_about(shape)}\n\n{_shape(shape)}"


def _bodies(described: Any) -> list[str]:
    """Return the names of the schemas that a body may have."""
    schema = described["content"]["application/json"]["schema"]
    return [_named(each) for each in schema.get("anyOf", [schema])]


def _named(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"].rpartition("/")[2])


def _place(name: str) -> str:
    return f"shape-{name.lower()}"


def _about(shape: Mapping[str, Any]) -> str:
    return " ".join(str(shape.get("description", "")).split())


def _shape(shape: Mapping[str, Any]) -> str:
    """Document an object schema key by key; for inputs, with the defaults and meanings of keys."""
    if "enum" in shape:
        return _json_type(shape)
    keys, required = shape["properties"], shape.get("required", ())
    rows = [(code(name), _json_type(field)) for name, field in keys.items()]
    if not any("description" in field for field in keys.values()):
        return table(("key", "type"), rows)
    more = [
        ("required" if name in required else _json(field["default"]), field.get("description", ""))
        for name, field in keys.items()
    ]
    return table(("key", "type", "default", "meaning"), map(add, rows, more))


def _json(value: Any) -> str:
    return code(json.dumps(value))


def _either(types: Iterable[str]) -> str:
    *most, last = types
    return f"{', '.join(most)} or {last}" if most else last


def _json_type(schema: Mapping[str, Any]) -> str:
    """Describe a JSON Schema type in words."""
    if "$ref" in schema:
        return f"[{_named(schema)}](#{_place(_named(schema))})"
    if "anyOf" in schema:
        return _either(map(_json_type, schema["anyOf"]))
    if "enum" in schema:
        return _either(map(_json, schema["enum"]))
    if "const" in schema:
        return _json(schema["const"])
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return f"[{', '.join(map(_json_type, schema['prefixItems']))}]"
        case "array":
            items = _json_type(schema["items"])
            return f"list of ({items})" if " or " in items else f"list of {items}"
        case "object":
            values = schema.get("additionalProperties")
            return f"names, each with {_json_type(values)}" if isinstance(values, Mapping) else "keys and values"
        case kind:
            return JSON_WORDS.get(str(kind), "anything")


def names() -> str:
    """Document every public name of the library with its docstring."""
    public = {name: getattr(findingaid, name) for name in sorted(findingaid.__all__)}
    errors = {name for name, thing in public.items() if isclass(thing) and issubclass(thing, Exception)}
    groups = {
        "Functions": [name for name, thing in public.items() if not isclass(thing) and callable(thing)],
        "Classes": [name for name, thing in public.items() if isclass(thing) and name not in errors],
        "Errors": sorted(errors),
    }
    return "\n\n".join(
        f"## {title}\n\n```{{eval-rst}}\n{_directives(title, within)}\n```" for title, within in groups.items()
    )


def _directives(title: str, within: Iterable[str]) -> str:
    kind = {"Functions": "autofunction", "Classes": "autoclass", "Errors": "autoexception"}[title]
    return "\n".join(f".. {kind}:: findingaid.{name}" for name in within)


def tables() -> str:
    """Document every table of store/schemas.py, column by column."""
    found = {"records": schemas.records(384), **schemas.FIXED}
    return "\n\n".join(_table(name, schema) for name, schema in found.items())


def _table(name: str, schema: pa.Schema) -> str:
    rows = [
        (code(column.name), code(column.type), "yes" if column.nullable else "", schemas.description(column))
        for column in schema
    ]
    version = str(schema.metadata[schemas.VERSION_KEY], "utf-8")
    return f"## {name}\n\nSchema `{version}`.\n\n{table(('column', 'type', 'may be null', 'what it holds'), rows)}"


def errors() -> str:
    """Return the sections of the kinds of errors, which `findingaid help` prints too."""
    text = (ROOT / "findingaid" / "errors.md").read_text()
    return text[text.index("## ") :]


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part for part in (settings, kinds, commands, capabilities, names, tables, errors)
}


def fill(page: Path, text: str) -> str:
    """Return the text of a page with its generated parts, and with links to files outside of docs/ replaced."""
    text = MADE.sub(lambda mark: PARTS[mark[1]](), text)
    return LINK.sub(lambda link: _link(page, link), text)


def _link(page: Path, link: re.Match[str]) -> str:
    place = (page.parent / link[2]).resolve()
    outside = place.is_relative_to(ROOT) and not place.is_relative_to(ROOT / "docs")
    return f"{link[1]} (`{place.relative_to(ROOT)}`)" if outside else link[0]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx, which calls this function."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = fill(Path(app.env.doc2path(name)), source[0])
