"""Folders of a web server: the pages of links that it shows for them."""

from __future__ import annotations

import asyncio
import html
import io
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import IO, Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from findingaid.sources.addresses import Address
from findingaid.sources.change_times import RACY_SECONDS
from findingaid.sources.limits import (
    ANSWER_SECONDS,
    ARCHIVE_BYTES,
    PACKED_IN_PART,
    PAGE_BYTES,
    SLOWEST,
    breaks_off,
    unzip_answer,
    unzipped_whole,
)
from findingaid.sources.trees.file_systems import FileSystem
from findingaid.sources.trees.tree import Entry, check_archive, name_of, seconds_of

WHOLE = (200, 203)
"""Statuses of an answer with the whole content."""

LINKS = re.compile(r"""<a\s(?:[^<>]*?\s)?href\s*=\s*(?:"([^"<>]+)"|'([^'<>]+)'|([^\s"'<>]+))""", re.IGNORECASE)
"""Links of a folder page, in quotes of either kind or in none."""

TAG = re.compile(r"<[^<>]*>")

NO_FILE = re.compile(r"(mailto|javascript|data|tel):|[^?#]*[?#]")
"""Links on a web server's folder page that lead to none of its files, such as sort orders or a mail address."""


class Web(FileSystem):
    """The page of links that a web server shows for a folder, with the pages of the folders below it; or one file.

    Paths are as on the server's disk: %20 in the URL is a space in the path.
    """

    patient = True

    def __init__(self, address: Address, options: Mapping[str, Any]) -> None:
        import aiohttp

        client = {"timeout": aiohttp.ClientTimeout(total=ANSWER_SECONDS), **options.get("client_kwargs", {})}
        client["auto_decompress"] = False  # aiohttp takes a packed answer that broke off for whole
        secret = {*options.get("headers", ()), *client.get("headers", ())}
        client["trace_configs"] = [*client.get("trace_configs", ()), _without_headers_elsewhere(secret)]
        super().__init__(address, {**options, "client_kwargs": client})
        self._root = str(address)

    def size(self, path: str) -> int | None:
        size: int | None = self._info(self._url(path)).get("size")
        return size

    def payload(self, path: str, most: int) -> bytes:
        content, response = self._get(self._url(path), most)
        if response.history and _is_other_page(path, response.url, response.headers.get("Content-Type", "")):
            page = f"{response.url.name!r} of {response.url.host}"
            raise OSError(f"the server gives the page {page} instead: does it want a sign-in?")
        return content

    def opened(self) -> tuple[IO[bytes], str]:
        file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller reads it for as long as it needs
        self._download(self._root, file, ARCHIVE_BYTES + 1)
        check_archive(file.tell())
        file.seek(0)
        return file, self._stamp(self._info(self._root))

    def _get(self, url: str, most: int) -> tuple[bytes, Any]:
        """Return the first `most` bytes at an address, and the response. Raises any exception of the client."""
        content = io.BytesIO()
        response = self._download(url, content, most)
        return content.getvalue()[:most], response

    def _download(self, url: str, into: IO[bytes], most: int) -> Any:
        """Write at least the first `most` bytes at an address, or all, to a file, and return the response."""
        from fsspec.asyn import sync

        return sync(self._fs.loop, self._stream, url, into, most)

    async def _stream(self, url: str, into: IO[bytes], most: int) -> Any:
        import aiohttp

        options = {"timeout": aiohttp.ClientTimeout(total=None), **self._fs.kwargs}
        options["headers"] = {**options.get("headers", {}), "Accept-Encoding": "gzip"}
        session = await self._fs.set_session()
        begun = asyncio.get_running_loop().time()
        async with asyncio.timeout(ANSWER_SECONDS) as patience:
            async with session.get(self._fs.encode_url(url), **options) as response:
                self._fs._raise_not_found_for_status(response, url)
                if response.status not in WHOLE:
                    raise OSError(f"the server answers with status {response.status} instead of the content")
                unzip = unzip_answer(response.headers)
                async for chunk in response.content.iter_any():
                    into.write(unzip.decompress(chunk, most + 1) if unzip else chunk)
                    if into.tell() >= most:
                        break
                    patience.reschedule(begun + ANSWER_SECONDS + into.tell() / SLOWEST)
                else:
                    if unzip and not unzipped_whole(unzip):
                        raise OSError(PACKED_IN_PART)
                return response

    @property
    def _name(self) -> str:
        return unquote(name_of(urlsplit(self._root).path.rstrip("/")))

    @cached_property
    def _is_file(self) -> bool:
        """Return whether the root is a file.

        Servers redirect a folder's address without a final "/" to the one with it.
        """
        if self._root.endswith("/"):
            return False
        return not self._info(self._root)["url"].endswith("/")

    def _children(self, prefix: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
        folder = self._url(prefix)
        page, response = self._get(folder, PAGE_BYTES)
        if len(page) == PAGE_BYTES:
            raise ValueError(f"its page of links has more than {PAGE_BYTES:,} bytes")
        if "html" not in (found := response.headers.get("Content-Type", "html")):
            raise ValueError(f"expected a page of links, got {found.partition(';')[0]}")
        there, wanted = response.url.path.lower(), (prefix or self._name).lower()
        if response.history and (wanted not in there if wanted else there != "/"):
            raise OSError(f"the server leads to {response.url.path} of {response.url.host}: does it want a sign-in?")
        if not page or breaks_off(page, response.headers):
            raise OSError("its page of links is empty, or broken off")
        text = page.decode("utf-8", "ignore")
        names = dict.fromkeys(_linked(folder, text))
        if not names and prefix.rstrip("/").rpartition("/")[2] not in html.unescape(TAG.sub("", text)):
            raise OSError("its page has no links to what is in it, nor its name: is it the page of a folder?")
        for name in names:
            yield prefix + name, {"type": "directory" if name.endswith("/") else "file"}

    def _entry(self, path: str, info: Mapping[str, Any]) -> Entry:
        """Return an entry with the size and stamp that the server reports, since a page of links gives names only.

        If that request fails, or leads to another page, the entry has only its path, and the file is read.
        """
        from yarl import URL

        try:
            info = self._info(self._url(path))
        except Exception:  # noqa: BLE001  # reading the file reports the error
            return Entry(path)
        if _is_other_page(path, URL(info["url"]), info.get("mimetype", "")):
            return Entry(path)
        return super()._entry(path, info)

    def _stamp(self, info: Mapping[str, Any]) -> str:
        """Return a stamp from the response headers.

        An ETag is trusted no more than time and size, since servers mostly derive it from these.
        """
        told = [str(info[name]) for name in ("ETag", "Content-MD5", "Digest", "Last-Modified") if name in info]
        written = seconds_of(info.get("Last-Modified"))
        racy = written is not None and time.time() - written < RACY_SECONDS
        return f"{info.get('size')}:{':'.join(told)}" + "?" * racy if told else ""

    def _info(self, url: str) -> Mapping[str, Any]:
        try:
            info: Mapping[str, Any] = self._fs.info(url)
        except FileNotFoundError as error:  # fsspec raises this for every error; the real one is its cause
            raise error.__cause__ or error from None
        return info

    def _url(self, path: str) -> str:
        return self._root if self._is_file else f"{self._root.rstrip('/')}/{quote(path)}"


def _without_headers_elsewhere(names: Iterable[str]) -> Any:
    """Return a trace that takes these headers out of a request that is redirected to another server.

    aiohttp itself does so with Authorization alone.
    """
    import aiohttp
    from yarl import URL

    async def redirected(_session: object, _context: object, request: aiohttp.TraceRequestRedirectParams) -> None:
        here, there = request.url, request.url.join(URL(request.response.headers.get("Location", "")))
        if (there.host, there.port) != (here.host, here.port) and (there.host, there.scheme) != (here.host, "https"):
            for name in names:
                request.headers.popall(name, None)

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(redirected)
    return trace


def _linked(folder: str, page: str) -> Iterator[str]:
    """Yield the names that a page has links to in its folder, in whatever way their addresses are written."""
    at = urlsplit(folder)
    base = f"{at.scheme}://{at.netloc.rpartition('@')[2]}{at.path}"
    here = _place(base, "")
    for link in (html.unescape("".join(found)).strip() for found in LINKS.findall(page)):
        place = "" if NO_FILE.match(link) else _place(base, link)
        name = place.removeprefix(here)
        if name and place != name and ".." not in name.split("/"):
            yield name


def _place(base: str, link: str) -> str:
    """Return the server and path that a link leads to, unescaped; "" if it leads nowhere."""
    is_name = not link.startswith(("http://", "https://", "/"))  # which may have a colon
    try:
        return unquote(urljoin(base, f"./{link}" if is_name else link).partition("//")[2])
    except ValueError:
        return ""


def _is_other_page(path: str, url: Any, media_type: str) -> bool:
    """Return whether a web server led from a file to a page of another name."""
    return "html" in media_type and _stem(url.name) != _stem(path)


def _stem(path: str) -> str:
    return name_of(path).partition(".")[0]
