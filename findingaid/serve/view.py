"""View of a finding aid for clients, and the addresses under which they find its artifacts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from findingaid.errors import NotFoundError, brief
from findingaid.query.lookup.places import source_url
from findingaid.serve.request_context import BASE_URL

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.query.lookup.reading import Reading

SCHEME = "findingaid://"


@dataclass(frozen=True)
class View:
    """View of a finding aid for clients outside this process.

    `aid` contains only the corpora that clients may query. `actor` is recorded as the author of proposed claims;
    without an actor the view is read-only. `dagster` is the URL of Dagster's UI, reported by `status`. With
    `elsewhere`, clients may be on other machines, so responses do not name paths of this machine.
    """

    aid: FindingAid
    actor: str | None = None
    dagster: str | None = None
    elsewhere: bool = False

    def read_exactly(
        self, corpus: str, artifact_id: str, offset: int, chars: int, artifact_version: str | None = None
    ) -> Reading:
        """Return a part of the text of the artifact with this id. Raises NotFoundError for anything else than its id.

        A name that people type may be a part of an id. A program passes the ids of results, and another document must
        not take the place of one that is gone.
        """
        found = self.aid.read(artifact_id, corpus, offset=offset, chars=chars, artifact_version=artifact_version)
        if found.artifact_id != artifact_id:
            raise NotFoundError(f"{corpus}: no published artifact {brief(artifact_id)}: pass the id of a search result")
        return found

    def url_of(self, corpus: str, artifact_id: str) -> str:
        """Return the URL at which the client can open an artifact.

        It is made from the corpus's `url` template. Without one it leads to the search page, if the client asks over
        HTTP, else to the artifact in its source. An artifact without any of these has the URI of its MCP resource.
        """
        known = self.aid.corpora[corpus]
        if made := known.url_of(artifact_id):
            return made
        if base := BASE_URL.get():
            return f"{base}/?{urlencode({'artifact': artifact_id, 'in': corpus})}"
        place = "" if self.elsewhere else source_url(known.source, artifact_id)
        return place or resource_uri(corpus, artifact_id)


def resource_uri(corpus: str, artifact_id: str) -> str:
    """Return the URI of an artifact as an MCP resource."""
    return f"{SCHEME}{corpus}/{quote(artifact_id, safe='/')}"
