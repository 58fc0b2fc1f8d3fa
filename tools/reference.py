"""The parts of docs/reference/ that are made from the code when the site is: settings, commands, what can be asked of a
server, classes and tables.

A page has `<!-- made: NAME -->` where a part goes. What it becomes is Markdown, so that its headings can be linked to.
What a page links to outside of docs/ is no part of the site, and is named instead.
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
from findingaid import config
from findingaid.claims.extraction import CLAIM_EXTRACTORS
from findingaid.cli import main
from findingaid.embedding import EMBEDDERS
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
LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:)([^)#\s]+)\)")
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
"""What YAML calls a type of Python."""

JSON_WORDS = {
    "boolean": "true or false",
    "integer": "whole number",
    "null": "null",
    "number": "number",
    "string": "text",
}
"""What a type of JSON Schema is called."""

SPECS: dict[str, Registry[Any]] = {
    "corpora.NAME.source": SOURCES,
    "corpora.NAME.strategy": STRATEGIES,
    "embedder": EMBEDDERS,
    "synthesizer": SYNTHESIZERS,
    "synthesizer.summarizer": SUMMARIZERS,
    "corpora.NAME.claims": CLAIM_EXTRACTORS,
    "corpora.NAME.summary_nodes": config.NODE_PRODUCERS,
    "answer": config.ANSWERERS,
    "search.rewrite": config.REWRITERS,
    "search.rerank": config.RERANKERS,
    "search.select": config.SELECTORS,
}
"""Where a configuration names a thing by its kind, and who knows the kinds."""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    head = list(head)
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells)


def code(value: object) -> str:
    """A value as code, nothing as a dash."""
    return f"`{value}`" if str(value) else "-"


def settings() -> str:
    """Every key of findingaid.yaml with its type and default, group by group."""
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
    """A type in the words of YAML."""
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
    if isclass(origin) and issubclass(origin, Callable):  # type: ignore[arg-type]  # a class as good as any
        return "`module:function`"
    return WORDS.get(annotation) or ("a group of keys" if _models(annotation) else f"a {annotation.__name__.lower()}")


def _default(field: FieldInfo) -> str:
    return "required" if field.is_required() else _value(field.get_default(call_default_factory=True))


def _value(value: Any) -> str:
    """A default as the file would have it."""
    if isinstance(value, BaseModel):
        return "see there"
    if is_dataclass(value):
        return code(type(value).__name__)
    plain = to_jsonable_python(value, fallback=lambda thing: thing.__name__)
    written = yaml.safe_dump(plain, default_flow_style=True, allow_unicode=True, width=math.inf)
    return code(written.removesuffix("...\n").strip())


def kinds() -> str:
    """What each kind and strategy takes, by the key it is named under."""
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
    """The help of every command, as `--help` prints it."""
    return "\n\n".join(_command(main, click.Context(main, info_name="findingaid", max_content_width=HELP_WIDTH)))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    context.terminal_width = HELP_WIDTH
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for name, within in sorted(command.commands.items()):
            yield from _command(within, click.Context(within, context, name))


def capabilities() -> str:
    """What a server can be asked and what it then answers, from the OpenAPI document that it gives."""
    described = openapi.document(CAPABILITIES, locked=False)
    shapes: Mapping[str, Any] = described["components"]["schemas"]
    within = {*shapes} - {"Failed", "Said"}  # what errors are is on the page about serving
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
    """The shapes that a body may have."""
    schema = described["content"]["application/json"]["schema"]
    return [_named(each) for each in schema.get("anyOf", [schema])]


def _named(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"].rpartition("/")[2])


def _place(name: str) -> str:
    return f"shape-{name.lower()}"


def _about(shape: Mapping[str, Any]) -> str:
    return " ".join(str(shape.get("description", "")).split())


def _shape(shape: Mapping[str, Any]) -> str:
    """What a mapping has, key by key; of a question also what is taken where a key is left out."""
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
    """A type of JSON Schema in words."""
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
    """Every public name of the library, with its docstring."""
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
    """Every table, column by column, as store/schemas.py has them."""
    found = {"records": schemas.records(384), **schemas.FIXED}
    return "\n\n".join(_table(name, schema) for name, schema in found.items())


def _table(name: str, schema: pa.Schema) -> str:
    rows = [
        (code(column.name), code(column.type), "yes" if column.nullable else "", schemas.description(column))
        for column in schema
    ]
    version = str(schema.metadata[schemas.VERSION_KEY], "utf-8")
    return f"## {name}\n\nSchema `{version}`.\n\n{table(('column', 'type', 'may be null', 'what it holds'), rows)}"


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part for part in (settings, kinds, commands, capabilities, names, tables)
}


def fill(page: Path, text: str) -> str:
    """A page with its parts."""
    text = MADE.sub(lambda mark: PARTS[mark[1]](), text)
    return LINK.sub(lambda link: _link(page, link), text)


def _link(page: Path, link: re.Match[str]) -> str:
    place = (page.parent / link[2]).resolve()
    outside = place.is_relative_to(ROOT) and not place.is_relative_to(ROOT / "docs")
    return f"{link[1]} (`{place.relative_to(ROOT)}`)" if outside else link[0]


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls of an extension."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = fill(Path(app.env.doc2path(name)), source[0])
