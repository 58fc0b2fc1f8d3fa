"""OpenAPI document of the HTTP server, generated from the capabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

from findingaid import __version__
from findingaid.serve.capabilities import Capability, without_properties
from findingaid.serve.outputs import ErrorOutput

REF = "#/components/schemas/{model}"

ERROR_RESPONSES: Mapping[int, str] = {
    400: "Invalid request, or contradictory headers.",
    401: "The token is missing or wrong.",
    403: "Requested from a page of another host or port.",
    404: "Not found.",
    413: "The body is too large.",
    414: "The address is too long.",
    422: "The input does not match the schema.",
    500: "Internal error.",
    502: "A model failed.",
    503: "Nothing is published, storage does not respond, or there are too many requests.",
    504: "The request timed out.",
}


def openapi_document(capabilities: Iterable[Capability], locked: bool) -> dict[str, Any]:
    """Return the OpenAPI document; with `locked`, requests need a bearer token."""
    listed = list(capabilities)
    shapes: list[Any] = [(c.name, "validation", TypeAdapter(c.input)) for c in listed]
    shapes += [(c.name, "serialization", c.adapter) for c in listed]
    shapes += [("failed", "serialization", TypeAdapter(ErrorOutput))]
    schemas, shared = TypeAdapter.json_schemas(shapes, ref_template=REF)
    refusal = schemas[("failed", "serialization")]
    responses = {str(status): _json(said, refusal) for status, said in ERROR_RESPONSES.items()}
    paths: dict[str, Any] = {}
    for c in listed:
        asked, given = schemas[(c.name, "validation")], schemas[(c.name, "serialization")]
        model = asked["$ref"].rpartition("/")[2]
        shared["$defs"][model] = without_properties(shared["$defs"][model], c.unused)
        about: dict[str, Any] = {
            "summary": c.name,
            "description": c.description,
            "responses": {"200": _json("Success.", given), **responses},
        }
        body = {"required": True, **_json("", asked)}
        del body["description"]
        paths[f"/v1/{c.name}"] = {"post": {"operationId": c.name, "requestBody": body, **about}}
        if is_simple(c):
            fields = c.input_schema(REF)
            paths[f"/v1/{c.name}"]["get"] = {"operationId": f"get_{c.name}", "parameters": _parameters(fields), **about}
    made: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "findingaid",
            "version": __version__,
            "description": "Search, answers and provenance of an index.",
        },
        "paths": paths,
        "components": {"schemas": shared.get("$defs", {})},
    }
    if locked:
        made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
    return made


def is_simple(capability: Capability) -> bool:
    """Return whether the capability can be called with GET.

    It must be read-only, call no model, and have inputs that fit in a query string. Any web page can make a browser
    send a GET, so a GET must neither write nor cost money.
    """
    schema = capability.input.model_json_schema()
    free = capability.read_only and not capability.asks_models
    return free and "$defs" not in schema and not any(map(_is_nested, schema["properties"].values()))


def list_parameters(capability: Capability) -> frozenset[str]:
    """Return the names of parameters that may be repeated in a query string."""
    fields = capability.input.model_json_schema()["properties"]
    return frozenset(name for name, field in fields.items() if _without_null(field).get("type") == "array")


def _is_nested(field: Mapping[str, Any]) -> bool:
    """Return whether a field is an object, or may be a list or something else than a list."""
    kinds = {each.get("type") for each in field.get("anyOf", [field])} - {"null"}
    return "object" in kinds or ("array" in kinds and len(kinds) > 1)


def _parameters(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": field.get("description", ""),
            "schema": _without_null(field),
        }
        for name, field in schema["properties"].items()
    ]


def _without_null(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a field without null, because a query string omits a null value."""
    kept = {key: value for key, value in field.items() if key not in {"anyOf", "description", "title", "default"}}
    kinds = [dict(each) for each in field.get("anyOf", ()) if each.get("type") != "null"]
    return kept | ({"anyOf": kinds} if len(kinds) > 1 else next(iter(kinds), {}))


def _json(description: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
