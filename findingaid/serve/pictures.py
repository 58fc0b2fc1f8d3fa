"""Pictures of scanned pages, for the search page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from pydantic import Field
from typing_extensions import TypedDict

from findingaid.errors import NotFoundError, ReadError
from findingaid.model import Fresh
from findingaid.query.lookup.artifact import ArtifactView
from findingaid.serve.capabilities import Capability
from findingaid.serve.inputs import Input
from findingaid.serve.view import View


@runtime_checkable
class ScanSource(Protocol):
    """A source that can show the scanned pages whose text it recognized."""

    def page_picture(self, artifact_id: str, page: int) -> dict[str, Any]: ...


class PictureInput(Input):
    """Input of `picture`."""

    id: str = Field(description="Id of the artifact.")
    corpus: str = Field(description="Corpus of the artifact.")
    artifact_version: str = Field(description="Version of the artifact; another one has other pages.")
    page: int = Field(ge=1, description="Page, from 1, as the boxes of a record name it.")


class PictureOutput(TypedDict):
    """JPEG of a page in base64, with the size of the page in the unit of the boxes."""

    picture: str
    width: float
    height: float


WHY: Mapping[Fresh | None, str] = {
    "changed": "the file, or the program that reads it, has changed since it was indexed",
    "gone": "the file is gone",
    "unknown": "it is not known whether the file has changed since it was indexed",
}


def _picture(view: View, asked: PictureInput) -> dict[str, Any]:
    shown = _as_indexed(view, asked)
    source = view.aid.corpora[shown.corpus].source
    scanned = {box[0] for record in shown.records for box in record.metadata.get("boxes", ())}
    if asked.page not in scanned or not isinstance(source, ScanSource):
        raise NotFoundError(f"page {asked.page} has no recognized text")
    try:
        made = source.page_picture(shown.artifact_id, asked.page)
    except ReadError as error:
        raise NotFoundError(f"page {asked.page} cannot be shown: {error}") from None
    _as_indexed(view, asked)  # else the file may have been replaced before it was read
    return made


def _as_indexed(view: View, asked: PictureInput) -> ArtifactView:
    """Return the artifact. Raises NotFoundError unless its file is known to be the one that was indexed."""
    shown = view.aid.show(asked.id, asked.corpus, artifact_version=asked.artifact_version, fresh=True)
    if shown.fresh != "current":
        raise NotFoundError(f"{WHY[shown.fresh]}: run `findingaid index`")
    return shown


PICTURE = Capability(
    "picture",
    "Return the picture of a scanned page, whose text was recognized.",
    PictureInput,
    PictureOutput,
    _picture,
)
