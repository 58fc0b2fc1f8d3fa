"""Pages of a web site as artifacts, found by its links or listed in its sitemap."""

from __future__ import annotations

import codecs
import os
import re
import threading
import time
import zlib
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from mimetypes import guess_type
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, unquote, urljoin, urlsplit

from annotated_types import Ge, Gt

from findingaid.errors import ConfigError, ReadError, SkippedError, SourceError, one_line
from findingaid.identity.hashes import bytes_hash
from findingaid.llm.api_errors import requested_wait
from findingaid.model import Artifact, Discovery, Failure, Listing
from findingaid.registry import checked
from findingaid.sources.change_times import may_repeat, time_of
from findingaid.sources.documents import (
    FORMATS,
    WEB_PAGE,
    convert_document,
    decompress,
    format_of,
    read_plain,
    with_converter,
)
from findingaid.sources.limits import (
    ANSWER_SECONDS,
    PACKED_IN_PART,
    SILENT,
    SLOWEST,
    breaks_off,
    unzip_answer,
    unzipped_whole,
)
from findingaid.sources.media_types import MEDIA_TYPES
from findingaid.sources.patterns import Patterns, check_pattern, unmatched_note
from findingaid.sources.records import MAX_BYTES, Columns, columns_of, require_size
from findingaid.text.decoding import decode

if TYPE_CHECKING:
    import httpx
    from protego import Protego

AGENT = "findingaid"
"""Name under which robots.txt and the logs of a server know this program."""

DOWN = frozenset({429, 502, 503, 504})
BUSY = DOWN | {500}
GONE = frozenset({404, 410})
WHOLE = frozenset({200, 203})
"""Answers of a server that is down or busy, of one that has no such page, and those that are the page.

Others, as 202 of a check for robots, come with a text that is not the page.
"""

HTML = frozenset({"text/html", "application/xhtml+xml"})

TRIES = 3
LONGEST_WAIT = 60.0
"""How often a page is asked for while the server is busy, and the longest wait in seconds in between."""

REDIRECTS = 10
SITEMAPS = 1_000
SITEMAP_BYTES = 50_000_000
"""Most redirects of a page, most sitemaps of a site, and the largest of them, as the protocol of sitemaps has it."""

KEPT_BYTES = 100_000_000
"""Most bytes of pages that are kept from the listing until they are read."""

MARKS = frozenset({"fbclid", "gclid", "msclkid", "mc_cid", "mc_eid"})
"""Parameters that tell where a visitor comes from, beside those that begin with utm_."""

OUTSIDE = "outside_root"
ELSEWHERE = "of another site"
FORBIDDEN = "forbidden by robots.txt"
EXCLUDED = "excluded"
NO_INDEX = "noindex"

GZIP = b"\x1f\x8b"
PDF = b"%PDF-"

REFRESH = re.compile(r"\s*[0-5](?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"']+)", re.IGNORECASE)
"""Order to load another page within 5 seconds, as a page has it that has moved."""

SENDABLE = re.compile(r"[\x20-\x7e]+")
"""Value that a header may have. httpx would quote any other one in its error."""

INSTALL = "the source web needs more packages: pip install 'findingaid[web]'"


@dataclass(frozen=True)
class Page:
    """A page as the server gives it; `address` is where its redirects end, `tags` tell whether it changed."""

    address: str
    content: bytes
    media_type: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    hidden: bool = False
    """Whether the server asks not to index it."""

    @property
    def is_html(self) -> bool:
        return self.media_type in HTML

    @property
    def name(self) -> str:
        """The file name that decides how it is converted."""
        if self.is_html:
            return WEB_PAGE
        name = os.path.basename(urlsplit(self.address).path)
        return name if format_of(name) else (name or "page") + self._suffix

    @property
    def _suffix(self) -> str:
        """The suffix of a document whose address has none; "" for plain text."""
        if self.content.startswith(PDF):
            return ".pdf"
        return next((suffix for suffix in FORMATS if MEDIA_TYPES.get(suffix) == self.media_type), "")

    @property
    def stamp(self) -> str:
        return with_converter(bytes_hash(self.content), self.name)


@dataclass(frozen=True)
class Seen:
    """A page of a listing: its stamp and size, its canonical address, and the addresses that it leads to."""

    page: Page
    stamp: str
    size: int
    canonical: str
    links: Sequence[str]
    hidden: bool = False


@checked
@dataclass(frozen=True)
class Site:
    """The pages of a web site, found by links from `start`, or listed in its `sitemap`.

    The id of a page is its address. Links are followed within the folder of `start`, at most `depth` in a row.
    `include` and `exclude` are patterns for the path below it; links of an excluded page are not followed. robots.txt
    is obeyed, and `delay` seconds lie between two requests. More than `max_pages` pages are an error. Linked PDFs and
    other documents are artifacts too.

    `headers` are sent to this site alone, for a sign-in; their values are those of environment variables.

    A page that answers 404 or 410 is gone. If one does not answer, nothing is deleted, since it may lead to others.
    With `start`, every run asks for every page; a page with a `lastmod` in the sitemap is read when that changes.
    """

    start: str | None = None
    sitemap: str | None = None
    include: Columns = ()
    exclude: Columns = ()
    depth: Annotated[int, Ge(0)] = 10
    max_pages: Annotated[int, Gt(0)] = 1_000
    delay: Annotated[float, Ge(0)] = 0.5
    max_bytes: Annotated[int, Gt(0)] = MAX_BYTES
    headers: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    def __post_init__(self) -> None:
        if bool(self.start) == bool(self.sitemap):
            raise ConfigError("start: give either start or sitemap")
        parts = urlsplit(self.first)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise ConfigError(f"{self.key}: {self.first!r}: expected an address that begins with https:// or http://")
        if "@" in parts.netloc:
            raise ConfigError(f"{self.key}: it has a password, which would be stored: use headers")
        for name, value in self.headers.items():
            if not (isinstance(value, Mapping) and [*value] == ["env"]):  # its value must not be in the message
                raise ConfigError(f"headers.{name}: expected {{env: NAME}}, the environment variable with its value")
        for name in ("include", "exclude"):
            for pattern in columns_of(getattr(self, name)):
                check_pattern(name, pattern)

    @property
    def key(self) -> str:
        return "start" if self.start else "sitemap"

    @property
    def first(self) -> str:
        return self.start or self.sitemap or ""

    @property
    def begin(self) -> str:
        """The address of `first` in the form of all others."""
        return cleaned(self.first)

    @property
    def folder(self) -> str:
        """The address that all pages are below."""
        return urljoin(self.begin, "." if self.start else "/")

    def discover(self) -> Discovery:
        """List all pages. Raises SourceError if the first one cannot be read, and for more than `max_pages`."""
        self._client.begin()
        walk = _Walk(self, self._client)
        try:
            if self.sitemap:
                walk.sitemap()
            else:
                walk.links(self.begin)
        except ReadError as error:
            raise SourceError(f"source.{self.key}: {self.first}: {error}") from None
        except ImportError:
            raise SourceError(INSTALL) from None
        return walk.discovery()

    def read(self, artifact_id: str) -> Artifact:
        page = self._client.kept.pop(artifact_id, None) or self._client.page(artifact_id)
        if not _is_page_of(page.address, artifact_id):
            moved = f"leads on to {page.address}: exclude it if it has moved, or does the server want a sign-in?"
            raise ReadError(moved, "unreadable")
        require_size(len(page.content), self.max_bytes)
        if page.hidden or (page.is_html and _links(page)[2]):
            raise SkippedError(NO_INDEX, "robots")
        converted = convert_document(page.name, page.content, self.max_bytes)
        text, own, notes = converted or read_plain(page.name, page.content)
        metadata = {"title": page.name, "url": artifact_id, "media_type": page.media_type}
        return Artifact(artifact_id, text, metadata | own, tuple(notes))

    def place(self, path: str) -> str:
        """Return the address of a page."""
        return path

    @cached_property
    def _client(self) -> _Client:
        return _Client(self)


@dataclass
class _Client:
    """Requests to the server of a site, one after the other."""

    site: Site
    kept: dict[str, Page] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    exclude: Patterns = field(init=False)
    _http: httpx.Client | None = None
    _pid: int = 0
    _robots: Protego | None = None
    _delay: float = 0.0
    _after: float = 0.0

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin a listing: robots.txt may have changed."""
        self.exclude = Patterns(columns_of(self.site.exclude))
        self.kept.clear()
        self._robots = None

    def look(self, address: str) -> Seen:
        """Return a page with its links. One that is as it was is not sent again. Raises ReadError."""
        before = self.seen.get(address)
        page = self.page(address, before.page.tags if before and before.page.address == address else {})
        if before and page is UNCHANGED:
            return before
        if sum(len(kept.content) for kept in self.kept.values()) + len(page.content) <= KEPT_BYTES:
            self.kept[page.address] = page
        if page.is_html:
            require_size(len(page.content), self.site.max_bytes)
        canonical, links, hidden = _links(page) if page.is_html else (page.address, (), page.hidden)
        if not canonical.startswith(self.site.folder):  # it is not listed, and this page would be lost
            canonical = page.address
        light = replace(page, content=b"")
        self.seen[address] = Seen(light, page.stamp, len(page.content), canonical, links, hidden)
        return self.seen[address]

    def page(self, address: str, tags: Mapping[str, str] | None = None, most: int = 0) -> Page:
        """Return the page at an address; UNCHANGED if it still has these tags. Where it leads to may have others.

        Raises SkippedError, and ReadError: "missing" if it is gone, "outside_root" if it is of another site.
        """
        for hop in range(REDIRECTS):
            if not address.startswith(self.site.folder):
                raise ReadError(f"leads to another site: {address}", OUTSIDE)
            if hop and self.exclude.match(address.removeprefix(self.site.folder)):
                raise SkippedError(EXCLUDED, EXCLUDED)
            if not self.robots.can_fetch(address, AGENT):
                raise SkippedError(FORBIDDEN, "robots")
            response, content = self._get(address, tags or {}, most or self.site.max_bytes)
            if response.status_code == 304 and tags:
                return UNCHANGED
            tags = None
            if response.next_request is None:
                _require_whole(response)
                return _page(address, response, content)
            address = cleaned(str(response.next_request.url))
        raise ReadError(f"leads on for more than {REDIRECTS} redirects", "unreadable")

    @property
    def robots(self) -> Protego:
        """The rules of robots.txt, which permit all if there is none, and nothing if the server cannot tell them."""
        if self._robots is None:
            from protego import Protego

            address = urljoin(self.site.begin, "/robots.txt")
            for _ in range(REDIRECTS):
                response, content = self._get(address, {}, MAX_BYTES, fail=False)
                if response.next_request is None:
                    break
                address = str(response.next_request.url)
            if response.next_request or response.status_code in BUSY or response.status_code >= 500:
                raise ReadError(f"its robots.txt answers {response.status_code}, which permits nothing", "unreadable")
            rules = Protego.parse(content.decode("utf-8-sig", "replace") if response.is_success else "")
            self._delay = max(self.site.delay, float(rules.crawl_delay(AGENT) or 0))
            if self._delay > max(self.site.delay, LONGEST_WAIT):
                raise ReadError(
                    f"its robots.txt asks for {self._delay:g} seconds between requests, more than {LONGEST_WAIT:g}",
                    "unreadable",
                )
            self._robots = rules
        return self._robots

    def _get(self, address: str, tags: Mapping[str, str], most: int, fail: bool = True) -> tuple[httpx.Response, bytes]:
        """Return a response, and at most `most` + 1 bytes of its content. Waits for the turn, and for a busy server."""
        import httpx

        for tried in range(1, TRIES + 1):
            try:
                response, content = self._ask(address, tags, most)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                kind = "timeout" if isinstance(error, httpx.TimeoutException) else "transport"
                raise ReadError(f"no answer: {one_line(error)}", kind) from None
            if response.status_code not in BUSY or tried == TRIES:
                break
            self._after += min(requested_wait(response.headers) or tried, LONGEST_WAIT)
        if fail and response.status_code in GONE:
            raise ReadError(f"the server answers {response.status_code}", "missing")
        if fail and response.status_code in DOWN:
            raise ReadError(_answered(response), "transport")
        if fail and response.is_error:
            raise ReadError(_answered(response), "unreadable")
        return response, content

    def _ask(self, address: str, tags: Mapping[str, str], most: int) -> tuple[httpx.Response, bytes]:
        time.sleep(max(0.0, self._after - time.monotonic()))
        http, begun, content = self._connection(), time.monotonic(), bytearray()
        headers = {**tags, **(self._own_headers() if _origin(address) == _origin(self.site.begin) else {})}
        headers_late = threading.Timer(ANSWER_SECONDS, http.close)  # httpx limits the time of each read, not of all
        headers_late.start()
        try:
            with http.stream("GET", address, headers=headers) as response:
                headers_late.cancel()
                unzip = unzip_answer(response.headers)
                for chunk in response.iter_raw():
                    content += unzip.decompress(chunk, most + 1) if unzip else chunk
                    if len(content) > most:
                        break
                    if time.monotonic() > begun + ANSWER_SECONDS + len(content) / SLOWEST:
                        raise ReadError(f"not sent within {time.monotonic() - begun:.0f} s", "timeout")
                else:
                    broken = not unzipped_whole(unzip) if unzip else breaks_off(bytes(content), response.headers)
                    if broken and response.is_success:
                        raise ReadError(PACKED_IN_PART if unzip else "the answer broke off", "transport")
        except zlib.error as error:
            raise ReadError(f"its gzip is damaged: {error}", "unreadable") from None
        finally:
            headers_late.cancel()
            self._after = time.monotonic() + self._delay
        return response, bytes(content[: most + 1])

    def _own_headers(self) -> dict[str, str]:
        """Return the headers for this site. Raises ConfigError for a value that is not there, or not one line."""
        found = {name: os.environ.get(str(of["env"]), "").strip() for name, of in self.site.headers.items()}
        for name, value in found.items():
            if not SENDABLE.fullmatch(value):
                problem = "has characters that no header may have" if value else "is not set"
                variable = self.site.headers[name]["env"]
                raise ConfigError(f"source.headers.{name}: the environment variable {variable} {problem}")
        return found

    def _connection(self) -> httpx.Client:
        """Return the client of this process. A forked one must not share the connections of its parent."""
        import httpx

        if self._http is None or self._http.is_closed or self._pid != os.getpid():
            headers = {"User-Agent": AGENT, "Accept-Encoding": "gzip"}
            self._http, self._pid = httpx.Client(timeout=ANSWER_SECONDS, headers=headers), os.getpid()
        return self._http


def _origin(address: str) -> tuple[str, str, int | None]:
    import httpx

    url = httpx.URL(address)
    return url.scheme, url.host, url.port


def _answered(response: httpx.Response) -> str:
    return f"the server answers {response.status_code} {response.reason_phrase}"


def _require_whole(response: httpx.Response) -> None:
    """Raise ReadError if the content of a response is not that of the page."""
    if response.status_code not in WHOLE:
        raise ReadError(f"{_answered(response)}, which is not the page", "unreadable")


UNCHANGED = Page("", b"")


@dataclass
class _Walk:
    """One listing of a site."""

    site: Site
    client: _Client
    listings: dict[str, Listing] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    moved: dict[str, str] = field(default_factory=dict)
    copies: dict[str, Seen] = field(default_factory=dict)
    asked: int = 0
    _silent: int = 0

    def links(self, start: str) -> None:
        """List the pages that links lead to. Raises ReadError if `start` cannot be read."""
        queue, known = deque([(start, 0)]), {start}
        while queue:
            address, depth = queue.popleft()
            seen = self._look(address, first=not depth)
            if seen is None:
                continue
            known.add(seen.page.address)
            self._add(seen)
            if depth < self.site.depth:
                new = [link for link in (seen.canonical, *seen.links) if link not in known and self._follows(link)]
                known.update(new)
                queue.extend((link, depth + 1) for link in dict.fromkeys(new))

    def sitemap(self) -> None:
        """List the pages of the sitemap, and of those that it names. Raises ReadError if one cannot be read."""
        queue, known = deque([self.site.begin]), {self.site.begin}
        while queue:
            entries, more = self._entries(queue.popleft())
            new = [address for address in more if address not in known]
            known.update(new)
            queue.extend(new)
            if len(known) > SITEMAPS:
                raise ReadError(f"more than {SITEMAPS:,} sitemaps", "too_large")
            for address, changed in entries:
                if not address.startswith(self.site.folder):
                    self.left_out[ELSEWHERE] += 1
                elif not self._follows(address):
                    continue
                elif not changed:
                    if seen := self._look(address):
                        self._add(seen)
                elif not self.client.robots.can_fetch(address, AGENT):
                    self.left_out[FORBIDDEN] += 1
                else:
                    self._count()
                    if self._includes(address):
                        name = os.path.basename(urlsplit(address).path)
                        stamp = with_converter(changed, name if format_of(name) else WEB_PAGE)
                        self.listings[address] = Listing(address, stamp)

    def _entries(self, address: str) -> tuple[list[tuple[str, str]], list[str]]:
        """Return the entries of a sitemap, see `_sitemap`; none of one that is named by another and cannot be read."""
        try:
            return _sitemap(self.client, address)
        except ReadError as error:
            if address == self.site.begin:
                raise
            self._fail(address, error)
            return [], []

    def discovery(self) -> Discovery:
        for seen in self.copies.values():
            if self._is_elsewhere(seen.canonical):
                self.left_out["another page is their canonical one"] += 1
            else:
                self._list(seen)
        notes = [f"addresses left out ({why}): {count:,}" for why, count in sorted((+self.left_out).items())]
        for name, patterns in (("include", self._include), ("exclude", self.client.exclude)):
            if patterns.unmatched:
                notes.append(unmatched_note(name, list(patterns.unmatched), ""))
        if self.failures:
            notes.append("nothing is deleted, since pages did not answer that may lead to others")
        listings = sorted(self.listings.values(), key=lambda listing: listing.artifact_id)
        return Discovery(listings, self.failures, ("",) if self.failures else (), notes)

    def _look(self, address: str, first: bool = False) -> Seen | None:
        """Return a page; None if it is not of this site, gone, or does not answer, which is counted or named.

        Raises ReadError for the first page, and once SILENT in a row did not answer.
        """
        self._count()
        try:
            seen = self.client.look(address)
        except ReadError as error:
            if first:
                raise
            self._silent = self._silent + 1 if error.kind in {"timeout", "transport"} else 0
            if self._silent == SILENT:
                raise ReadError(
                    f"{SILENT} pages in a row gave no answer, the last was {address}: {error}", error.kind
                ) from None
            if isinstance(error, SkippedError):
                self.left_out[str(error)] += 1
            elif error.kind == OUTSIDE:
                self.left_out[ELSEWHERE] += 1
            elif error.kind != "missing":
                self._fail(address, error)
            return None
        self._silent = 0
        self.moved[address] = seen.page.address
        self.left_out["they lead on to another page, perhaps a sign-in"] += seen.page.address != address
        return seen

    def _fail(self, address: str, error: ReadError) -> None:
        self.failures.append(Failure(address, "artifacts", error.kind, str(error)))

    def _add(self, seen: Seen) -> None:
        """List a page under the address where it is, unless it names another one as canonical."""
        if seen.hidden:
            self.left_out[NO_INDEX] += 1
        elif seen.page.address != seen.canonical:
            self.copies[seen.page.address] = seen
        else:
            self._list(seen)

    def _list(self, seen: Seen) -> None:
        address = seen.page.address
        if self._includes(address):
            self.listings[address] = Listing(address, seen.stamp, seen.size)

    def _is_elsewhere(self, canonical: str) -> bool:
        """Return whether the canonical page of another one is listed, or may be once it answers."""
        followed = set[str]()
        while canonical not in followed:
            followed.add(canonical)
            canonical = self.moved.get(canonical, canonical)
            if canonical in self.listings or any(failure.artifact_id == canonical for failure in self.failures):
                return True
            if canonical in self.copies:
                canonical = self.copies[canonical].canonical
        return False

    def _count(self) -> None:
        self.asked += 1
        if self.asked > self.site.max_pages:
            raise SourceError(
                f"source.max_pages: {self.site.first} has more than {self.site.max_pages:,} pages: raise it, or exclude"
                " some"
            )

    def _follows(self, address: str) -> bool:
        """Return whether an address may be a page: text or a document, on this site, and not excluded."""
        if not address.startswith(self.site.folder) or self.client.exclude.match(self._below(address)):
            return False
        name = os.path.basename(urlsplit(address).path)
        kind = guess_type(name)[0] or "text/html"
        wanted = kind in HTML or kind.startswith("text/") or format_of(name) is not None
        self.left_out["pictures and other files without text"] += not wanted
        return wanted

    def _includes(self, address: str) -> bool:
        return not self.site.include or self._include.match(self._below(address))

    def _below(self, address: str) -> str:
        return address.removeprefix(self.site.folder)

    @cached_property
    def _include(self) -> Patterns:
        return Patterns(columns_of(self.site.include))


def cleaned(address: str) -> str:
    """Return an address in the form that is its id: without fragment and marks of campaigns. "" for no address."""
    import httpx

    try:
        url = httpx.URL(address)
    except (httpx.InvalidURL, ValueError):
        return ""
    if marks := [name for name in url.params if name in MARKS or name.startswith("utm_")]:
        rest = [(name, value) for name, value in url.params.multi_items() if name not in marks]
        url = url.copy_with(params=rest or None)
    return str((url if url.raw_path != b"/" else url.copy_with(path="/")).copy_with(fragment=None))


ENDING = re.compile(r"(?:/index)?(?:\.\w+)?/?$")
"""End of an address that servers leave out, or add."""


def _is_page_of(found: str, asked: str) -> bool:
    """Return whether an address to which another one led has the same page, or one in the folder that was asked for.

    The parameters that were asked for are still there, or their values are in the path.
    """
    there, here = (urlsplit(address.casefold()) for address in (found, asked))
    path, wanted = (unquote(ENDING.sub("", each.path, count=1)).casefold() for each in (there, here))
    given = parse_qsl(there.query)
    same = all(pair in given or pair[1].casefold() in path.split("/") for pair in parse_qsl(here.query))
    return f"{path}/".startswith(f"{wanted}/") and same


def _page(address: str, response: httpx.Response, content: bytes) -> Page:
    tags = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}
    told = {tags[name]: response.headers[name] for name in tags if name in response.headers}
    told = {} if may_repeat(response.headers.get("Last-Modified")) else told
    media_type = response.headers.get("Content-Type", "text/html").partition(";")[0].strip().lower()
    if response.charset_encoding and (media_type in HTML or media_type.startswith("text/")):
        content = _as_utf8(content, response.charset_encoding)
    orders = (value for value in response.headers.get_list("X-Robots-Tag") if ":" not in value)  # else for one robot
    return Page(address, content, media_type, told, hidden=_orders_none(",".join(orders), NO_INDEX))


def _as_utf8(content: bytes, encoding: str) -> bytes:
    """Return a text in UTF-8 with its mark; as it is, so that it decides, if it is not in the encoding that is said."""
    with suppress(ReadError):
        text, _, notes = decode(content, encoding)
        return content if notes else codecs.BOM_UTF8 + text.encode()
    with suppress(UnicodeError, LookupError):  # as UTF-16 without a mark
        return codecs.BOM_UTF8 + content.decode(encoding).encode()
    return content


def _orders_none(orders: str, what: str) -> bool:
    """Return whether the orders to robots, as in "noindex, follow", forbid this."""
    return not {what, "none"}.isdisjoint(order.strip().lower() for order in orders.split(","))


def _links(page: Page) -> tuple[str, Sequence[str], bool]:
    """Return the canonical address of a page, those that it leads to, and whether it asks not to be indexed.

    The canonical address of a page that has moved is where it sends its visitors. Raises ReadError for a page that is
    nested too deeply, whose links would not be found.
    """
    from lxml import etree, html

    parser = html.HTMLParser(encoding="utf-8", huge_tree=True)
    try:
        tree = html.document_fromstring(decode(page.content).text.encode(), parser=parser)
    except (etree.ParserError, ValueError, ReadError):
        return page.address, (), page.hidden
    if any(error.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for error in parser.error_log):
        raise ReadError("its elements are nested too deeply to find its links", "parse")
    base = urljoin(page.address, next(iter(tree.xpath("//base/@href")), ""))
    orders = ",".join(tree.xpath("//meta[translate(@name, 'ROBTS', 'robts') = 'robots']/@content"))
    moved = [
        found[1]
        for order in tree.xpath("//meta[translate(@http-equiv, 'EFHRS', 'efhrs') = 'refresh']/@content")
        if (found := REFRESH.match(order))
    ]
    canonical = [_joined(base, href) for href in (*moved, *tree.xpath("//link[@rel = 'canonical']/@href"))]
    linked = "//a/@href | //area/@href | //iframe/@src | //frame/@src"
    links = filter(None, (_joined(base, href) for href in tree.xpath(linked)))
    return (
        (*filter(None, canonical), page.address)[0],
        () if _orders_none(orders, "nofollow") else tuple(dict.fromkeys(links)),
        page.hidden or _orders_none(orders, NO_INDEX),
    )


def _joined(base: str, href: str) -> str:
    """Return the address of a link; "" for one that is no address."""
    try:
        return cleaned(urljoin(base, href.strip()))
    except ValueError:
        return ""


def _sitemap(client: _Client, address: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the pages of a sitemap with the time of their last change, "" if it is not told; and further sitemaps."""
    from lxml import etree

    content = client.page(address, most=SITEMAP_BYTES).content
    try:
        if content.startswith(GZIP):
            content = decompress(content, SITEMAP_BYTES)
        root = etree.fromstring(content, etree.XMLParser(resolve_entities=False, no_network=True))
    except (ReadError, etree.XMLSyntaxError) as error:
        raise ReadError(f"{address}: not a sitemap: {one_line(error)}", "parse") from None
    pages = [(_text(entry, "loc"), _text(entry, "lastmod")) for entry in root.iterchildren("{*}url")]
    more = [cleaned(_text(entry, "loc")) for entry in root.iterchildren("{*}sitemap")]
    if not pages and not more and etree.QName(root).localname not in {"urlset", "sitemapindex"}:
        raise ReadError(f"{address}: not a sitemap, but {etree.QName(root).localname}", "parse")
    told = ((cleaned(loc), changed if time_of(changed) else "") for loc, changed in pages)
    return list({loc: changed + "?" * may_repeat(changed) for loc, changed in told}.items()), more


def _text(entry: Any, name: str) -> str:
    return str(entry.findtext(f"{{*}}{name}") or "").strip()
