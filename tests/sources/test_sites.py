"""The pages of a site on loopback as artifacts: what is gone is gone, and what does not answer is kept."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

import findingaid
from findingaid.edges.links import LinkEdges
from findingaid.errors import ConfigError, ReadError, SkippedError, SourceError
from findingaid.sources import sites
from findingaid.sources.documents import with_converter
from findingaid.sources.sites import Site, _is_page_of
from findingaid.store import Store
from tests.conftest import Cli
from tests.support.documents import pdf
from tests.support.web import on_loopback

Answer = tuple[int, Mapping[str, str], bytes]
HTML = {"Content-Type": "text/html; charset=utf-8"}


@dataclass
class Server:
    """A site whose answers a test changes; `asked` has the paths of all requests, and their headers."""

    answers: dict[str, Answer | Callable[[], Answer]] = field(default_factory=dict)
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    endless: set[str] = field(default_factory=set)
    """Paths of which the headers never end."""
    unmeasured: set[str] = field(default_factory=set)
    """Paths of which no length is announced: the end of the connection is theirs."""
    address: str = ""

    def page(self, path: str, body: str, head: str = "", **headers: str) -> None:
        content = f"<html><head><title>{path}</title>{head}</head><body>{body}</body></html>".encode()
        self.answers[path] = (200, {**HTML, **headers}, content)

    def status(self, path: str, status: int, **headers: str) -> None:
        self.answers[path] = (status, {**HTML, **headers}, b"")

    def site(self, **given: Any) -> Site:
        return Site(**({"start": f"{self.address}/"} if "sitemap" not in given else {}) | {"delay": 0} | given)

    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    def listed(self, source: Site) -> list[str]:
        return [listing.artifact_id.removeprefix(self.address) for listing in source.discover().listings]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


@pytest.fixture
def elsewhere() -> Iterator[Server]:
    with serving() as made:
        yield made


@contextmanager
def serving() -> Iterator[Server]:
    made = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append((self.path, dict(self.headers)))
            found = made.answers.get(self.path, (404, HTML, b"nothing here"))
            if self.path in made.endless:
                self.send_headers_for_ever()
                return
            try:
                status, headers, content = found() if callable(found) else found
            except ConnectionError:  # no answer
                self.close_connection = True
                return
            tag = headers.get("ETag")
            if tag and self.headers.get("If-None-Match") == tag:
                status, content = 304, b""
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if self.path not in made.unmeasured:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def send_headers_for_ever(self) -> None:
            self.close_connection = True
            with suppress(OSError):  # the client has left
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while True:
                    self.wfile.write(b"X-Wait: a little\r\n")
                    time.sleep(0.05)

    with on_loopback(Handler) as made.address:
        yield made


def artifact_ids(cli: Cli) -> set[str]:
    return set(Store(str(cli.folder / "index")).rows("artifacts", ["artifact_id"])["artifact_id"].to_pylist())


MENU = '<nav><a href="/">Home</a> <a href="/imprint">Imprint</a></nav>'


FOOTER = "<footer>All rights reserved</footer>"


@pytest.fixture
def harbour(server: Server) -> Server:
    """A site of four pages, of which one is reached over another."""
    server.page(
        "/", f'{MENU}<main><h1>Harbour</h1><p>See the <a href="ferry?utm_source=menu#top">ferry</a>.</p></main>'
    )
    server.page("/imprint", f"{MENU}<main><p>Harbour Ltd, Quay 1.</p></main>")
    server.page(
        "/ferry", f'{MENU}<main><h1>Ferry</h1><p>It leaves at nine.</p><a href="/prices/">Prices</a></main>{FOOTER}'
    )
    server.page("/prices/", f"{MENU}<main><h1>Prices</h1><p>A crossing is twelve crowns.</p></main>")
    return server


def test_links_lead_to_the_pages_of_a_site_and_a_page_is_its_main_text(harbour: Server) -> None:
    source = harbour.site()

    assert harbour.listed(source) == ["/", "/ferry", "/imprint", "/prices/"]
    page = source.read(f"{harbour.address}/ferry")
    assert "It leaves at nine." in page.raw
    assert "Imprint" not in page.raw
    assert page.metadata["title"] == "Ferry"
    assert page.metadata["url"] == f"{harbour.address}/ferry"
    assert page.metadata["text_type"] == "text/markdown"
    assert [str(note) for note in page.notes] == ["words beside the main text of a page, as in its footer, not read: 3"]
    assert [edge.target_id for edge in LinkEdges().extract(page, {})] == [f"{harbour.address}/prices/"]
    assert harbour.paths().count("/ferry") == 1  # read from what was listed


@pytest.mark.parametrize(
    ("head", "body", "date"),
    [
        ("", "Opened on 3 March 1998. Valid until 31.12.2025.", None),
        ("", "<img src='/2018-03-04.png'> <time datetime='2027-05-06'>next year</time>", None),
        ("<link rel='canonical' href='/2011/07/09/'><title>Rates of 2 May 2019</title>", "", None),
        ("<meta name='Date' content='2023-02-01'>", "Opened on 3 March 1998.", "2023-02-01"),
        ("<meta name='citation_date' content='2023/02/01'>", "", "2023-02-01"),
        ("<meta property='article:published_time' content='2023-02-01T23:30:00-05:00'>", "", "2023-02-01"),
        (
            "<script type='application/ld+json'>"
            '{"dateModified": "2024-01-01", "datePublished": "2023-02-01T08:00:00+0000"}</script>',
            "",
            "2023-02-01",
        ),
        ("<meta name='date' content='February 1, 2023'>", "", "2023-02-01"),
        ("<meta name='dc.date' content='1. Februar 2023'>", "", "2023-02-01"),
        ("<meta name='date' content='2023年2月1日'>", "", "2023-02-01"),
        ("<meta name='date' content='Wed Feb 01 2023 23:30:00 GMT-0500 (EST)'>", "", "2023-02-01"),
        ("<meta name='citation_date' content='2023/2/1'>", "", "2023-02-01"),
        ("<meta name='dcterms.date' content='28.02.2023'>", "", "2023-02-28"),
        ("<meta name='date' content='2023'><meta name='dc.date' content='Feb 1 2023'>", "", "2023-02-01"),
        ("", "<time class='entry-date published' datetime='2023-02-01T08:00:00Z'>1 February</time>", "2023-02-01"),
        ("", "<p itemprop='datePublished' datetime='2023-02-01'></p><p pubdate datetime='2023-02-02'></p>", None),
    ],
    ids=[
        *("words", "event", "address", "meta", "slashes", "zone", "linked data"),
        *("English", "German", "Japanese", "JavaScript", "no zeros", "dots", "a year beside", "marked", "several"),
    ],
)
def test_the_date_of_a_page_is_the_one_that_it_declares(
    harbour: Server, head: str, body: str, date: str | None
) -> None:
    harbour.page(
        "/", f"<main><p>{'Ships over 40 metres pay double. ' * 5}</p>{body}</main><footer>(c) 2019</footer>", head
    )
    source = harbour.site()

    (page,) = (source.read(listing.artifact_id) for listing in source.discover().listings)

    assert page.metadata.get("date") == date


@pytest.mark.parametrize(
    ("head", "count"),
    [
        ("<meta name='date' content=' '>", 0),
        ("<meta name='date' content='05/06/2024'>", 1),
        ("<meta name='date' content='05.06.24'>", 1),
        ("<meta name='date' content='2024-06'><meta name='dc.date' content='2024'>", 2),
        ("<meta name='date' content='yesterday'>", 1),
        ("<meta name='date' content='2024-06-05'><meta name='dc.date' content='2024-06-06'>", 2),
        ("".join(f"<meta name='date' content='June 5, 2024, {hour}:15'>" for hour in range(24)), 24),
    ],
    ids=["none", "day or month", "year of two digits", "no day", "relative", "two days", "many"],
)
def test_a_declared_date_that_may_be_of_several_days_is_noted(harbour: Server, head: str, count: int) -> None:
    harbour.page("/", f"<main><p>{'Ships over 40 metres pay double. ' * 5}</p></main>", head)
    source = harbour.site()

    (page,) = (source.read(listing.artifact_id) for listing in source.discover().listings)

    assert "date" not in page.metadata
    assert sum(note.count for note in page.notes if "declared dates" in note.words) == count


@pytest.mark.parametrize(
    ("head", "body", "notes"),
    [
        ("<meta name='author' content='ann bee'>", "", []),
        (
            '<script type="application/ld+json">{"@context": "https://schema.org", "@type": "Article",'
            ' "author": {"@type": "Person", "name": "Ann Bee"}}</script>',
            "",
            [],
        ),
        (
            "",
            "<aside><span class='author'>Ann Bee</span> wrote another page</aside>",
            ["author, guessed from the words of the page"],
        ),
        ("", "", []),
    ],
    ids=["meta", "linked data", "words", "none"],
)
def test_an_author_that_a_page_does_not_declare_is_told_as_guessed(
    harbour: Server, head: str, body: str, notes: list[str]
) -> None:
    harbour.page("/", f"<main><p>{'Ships over 40 metres pay double. ' * 5}</p>{body}</main>", head)
    source = harbour.site()

    (page,) = (source.read(listing.artifact_id) for listing in source.discover().listings)

    assert [note.words for note in page.notes if note.kind == "guessed"] == notes
    assert bool(page.metadata.get("author")) == bool(head or body)


def test_a_page_that_is_gone_is_deleted_and_while_one_does_not_answer_nothing_is(cli: Cli, harbour: Server) -> None:
    cli.settings["corpora"] = {"site": {"source": {"kind": "web", "start": f"{harbour.address}/", "delay": 0}}}
    assert cli.run("index").exit_code == 0
    ids = artifact_ids(cli)
    assert len(ids) == 4

    harbour.status("/ferry", 500)  # and with it, /prices/ cannot be found
    failed = cli.run("index")
    assert failed.exit_code == 1
    assert "the server answers 500" in failed.output
    assert "nothing is deleted" in failed.output
    assert artifact_ids(cli) == ids

    harbour.status("/ferry", 410)
    harbour.page(
        "/", f"{MENU}<main><p>See the <a href='/prices/'>prices</a> and the <a href='ferry'>ferry</a></p></main>"
    )
    assert cli.run("index").exit_code == 0
    assert artifact_ids(cli) == ids - {f"{harbour.address}/ferry"}


def test_nothing_is_read_that_did_not_change(cli: Cli, harbour: Server) -> None:
    cli.settings["corpora"] = {"site": {"source": {"kind": "web", "start": f"{harbour.address}/", "delay": 0}}}
    cli.run("index")

    again = cli.json("index")
    assert (again["corpora"]["site"]["unchanged"], again["corpora"]["site"]["changed"]) == (4, 0)
    harbour.page("/ferry", f'{MENU}<main><p>It leaves at ten.</p><a href="/prices/">Prices</a></main>')
    again = cli.json("index")
    assert (again["corpora"]["site"]["unchanged"], again["corpora"]["site"]["changed"]) == (3, 1)


def test_a_check_of_freshness_asks_for_the_page_anew(cli: Cli, harbour: Server) -> None:
    cli.settings["corpora"] = {"site": {"source": {"kind": "web", "start": f"{harbour.address}/", "delay": 0}}}
    cli.configure()
    aid = findingaid.open(cli.config)
    aid.index()
    aid.index()  # lists pages that it does not read

    def fresh() -> list[str | None]:
        return [hit.fresh for hit in aid.search("leaves at nine", 1, mode="lexical", fresh="verify")]

    assert fresh() == ["current"]
    harbour.page("/ferry", "<main><p>It leaves at ten.</p></main>")
    assert fresh() == ["changed"]


def test_a_page_with_an_unchanged_tag_is_not_sent_again_in_one_process(harbour: Server) -> None:
    harbour.page("/ferry", '<main><p>It leaves at nine.</p><a href="/prices/">Prices</a></main>', ETag='"one"')
    source = harbour.site()
    before = source.discover().listings

    harbour.asked.clear()
    assert source.discover().listings == before
    (headers,) = [headers for path, headers in harbour.asked if path == "/ferry"]
    assert headers["If-None-Match"] == '"one"'
    assert "nine" in source.read(f"{harbour.address}/ferry").raw


def test_the_tags_of_a_page_that_changed_just_now_are_not_asked_with(harbour: Server) -> None:
    """It may change again within the second, after which servers name their tags."""
    harbour.page("/ferry", "<main>Nine</main>", ETag='"one"', **{"Last-Modified": formatdate(usegmt=True)})
    source = harbour.site()
    harbour.listed(source)

    harbour.asked.clear()
    harbour.listed(source)
    (headers,) = [headers for path, headers in harbour.asked if path == "/ferry"]
    assert "If-None-Match" not in headers


def test_the_converter_of_a_document_is_in_its_stamp_of_a_sitemap(harbour: Server) -> None:
    loc = f"<url><loc>{harbour.address}/plan.pdf</loc><lastmod>2024-03-01</lastmod></url>"
    harbour.answers["/sitemap.xml"] = (200, {"Content-Type": "text/xml"}, f"<urlset>{loc}</urlset>".encode())

    [listing] = harbour.site(sitemap=f"{harbour.address}/sitemap.xml").discover().listings

    assert listing.stamp == with_converter("2024-03-01", "plan.pdf")


def test_a_server_that_goes_down_is_not_asked_for_every_page(harbour: Server) -> None:
    def dead() -> Answer:
        raise ConnectionError

    harbour.page("/", "".join(f'<a href="/{i}">{i}</a>' for i in range(20)))
    harbour.answers |= {f"/{i}": dead for i in range(20)}

    with pytest.raises(SourceError, match="5 pages in a row gave no answer"):
        harbour.site().discover()
    assert len(harbour.paths()) == 2 + 5


def test_robots_txt_is_obeyed(harbour: Server) -> None:
    rules = b"User-agent: *\nDisallow: /prices\n"
    harbour.answers["/robots.txt"] = (200, {"Content-Type": "text/plain"}, rules)
    source = harbour.site()

    found = source.discover()
    assert f"{harbour.address}/prices/" not in {listing.artifact_id for listing in found.listings}
    assert found.notes == ["addresses left out (forbidden by robots.txt): 1"]
    assert "/prices/" not in harbour.paths()
    with pytest.raises(ReadError, match=r"robots\.txt"):
        source.read(f"{harbour.address}/prices/")

    harbour.status("/robots.txt", 503)
    with pytest.raises(SourceError, match=r"robots\.txt answers 503, which permits nothing"):
        source.discover()


def test_pages_that_name_another_as_theirs_or_ask_not_to_be_listed_are_counted(harbour: Server) -> None:
    harbour.page("/imprint", "<main><p>Print view</p></main>", '<link rel="canonical" href="/ferry">')
    harbour.page("/prices/", "<main><p>Draft</p></main>", '<meta name="ROBOTS" content="noindex, follow">')

    found = harbour.site().discover()
    assert [listing.artifact_id for listing in found.listings] == [f"{harbour.address}/", f"{harbour.address}/ferry"]
    assert found.notes == [
        "addresses left out (another page is their canonical one): 1",
        "addresses left out (noindex): 1",
    ]


def test_a_canonical_address_that_is_not_of_this_site_loses_no_page(harbour: Server) -> None:
    """As behind a proxy that speaks HTTPS, or in a folder of a site whose canonical pages are in another folder."""
    for path in ("/imprint", "/prices/"):
        secure = harbour.address.replace("http:", "https:")
        harbour.page(path, "<main><p>Text</p></main>", f'<link rel="canonical" href="{secure}{path}">')

    assert harbour.listed(harbour.site()) == ["/", "/ferry", "/imprint", "/prices/"]
    harbour.page("/prices/", "<main><p>Text</p></main>", '<link rel="canonical" href="/imprint">')
    assert harbour.listed(Site(f"{harbour.address}/prices/", delay=0)) == ["/prices/"]


def test_a_page_of_a_sitemap_that_has_moved_is_listed_where_it_is(harbour: Server) -> None:
    loc = f"<url><loc>{harbour.address}/prices</loc></url>"
    harbour.answers["/sitemap.xml"] = (200, {"Content-Type": "text/xml"}, f"<urlset>{loc}</urlset>".encode())
    harbour.status("/prices", 301, Location="/prices/")

    assert harbour.listed(harbour.site(sitemap=f"{harbour.address}/sitemap.xml")) == ["/prices/"]


def test_a_site_that_asks_for_hours_between_requests_is_an_error(harbour: Server) -> None:
    rules = b"User-agent: *\nCrawl-delay: 3600\n"
    harbour.answers["/robots.txt"] = (200, {"Content-Type": "text/plain"}, rules)

    with pytest.raises(SourceError, match="asks for 3600 seconds between requests, more than 60"):
        harbour.site().discover()


def test_a_site_without_end_and_one_that_wants_a_sign_in_are_errors(harbour: Server) -> None:
    with pytest.raises(SourceError, match=r"source\.max_pages: .* more than 3 pages"):
        harbour.site(max_pages=3).discover()
    harbour.status("/", 302, Location="http://localhost:1/login")
    with pytest.raises(SourceError, match=r"leads to another site: http://localhost:1/login"):
        harbour.site().discover()
    harbour.status("/", 302, Location="/")
    with pytest.raises(SourceError, match="more than 10 redirects"):
        harbour.site().discover()
    harbour.status("/", 404)
    with pytest.raises(SourceError, match="the server answers 404"):
        harbour.site().discover()


def test_a_redirect_within_the_site_is_the_page_that_it_leads_to(harbour: Server) -> None:
    harbour.status("/ferry", 301, Location="/boat")
    harbour.page("/boat", "<main><p>The boat leaves at nine.</p></main>")
    harbour.page("/imprint", '<main><a href="/boat">Boat</a></main>')

    assert harbour.listed(harbour.site()) == ["/", "/boat", "/imprint"]


@pytest.mark.parametrize("to", ["/login?next=/ferry", "/"])
def test_a_page_to_which_one_of_a_sitemap_leads_is_not_its_text(harbour: Server, to: str) -> None:
    """It is asked for when it is read alone, since the sitemap tells the time of its change."""
    loc = "".join(
        f"<url><loc>{harbour.address}{at}</loc><lastmod>2024-03-01</lastmod></url>" for at in ("/ferry", "/prices")
    )
    harbour.answers["/sitemap.xml"] = (200, {"Content-Type": "text/xml"}, f"<urlset>{loc}</urlset>".encode())
    harbour.page("/login?next=/ferry", "<main><p>Sign in to read this.</p></main>")
    harbour.status("/ferry", 302, Location=to)
    harbour.status("/prices", 301, Location="/prices/")
    source = harbour.site(sitemap=f"{harbour.address}/sitemap.xml")
    source.discover()

    with pytest.raises(ReadError, match=r"leads on to .*: exclude it if it has moved, or does the server want a sign-"):
        source.read(f"{harbour.address}/ferry")
    assert "twelve" in source.read(f"{harbour.address}/prices").raw


@pytest.mark.parametrize(
    ("asked", "found", "same"),
    [
        ("/w/index.php?title=Ferry", "/w/index.php?title=Login&returnto=Ferry", False),
        ("/w/index.php?title=Ferry", "/w/index.php?lang=en&title=Ferry", True),
        ("/w/index.php?title=Ferry", "/w/ferry", True),
        ("/w/index.php?title=Ferry", "/w/login?returnto=Ferry", False),
        ("/item?id=7", "/item?id=8", False),
        ("/item?id=7", "/item", False),
        ("/item", "/item/?lang=en", True),
        ("/?title=Gr%c3%bc%C3%9Fe", "/wiki/Gr%C3%BC%C3%9Fe", True),
    ],
)
def test_a_page_is_another_if_its_parameters_are(asked: str, found: str, same: bool) -> None:
    assert _is_page_of(f"https://a.example{found}", f"https://a.example{asked}") is same


@pytest.mark.parametrize("changed", ["2024-03", "2024", "1 March", "03/01/2024"])
def test_a_page_whose_time_of_change_says_no_day_is_asked_for(harbour: Server, changed: str) -> None:
    loc = f"<url><loc>{harbour.address}/ferry</loc><lastmod>{changed}</lastmod></url>"
    harbour.answers["/sitemap.xml"] = (200, {"Content-Type": "text/xml"}, f"<urlset>{loc}</urlset>".encode())
    source = harbour.site(sitemap=f"{harbour.address}/sitemap.xml")
    before = source.discover().listings
    harbour.page("/ferry", "<main><p>The ferry leaves at eleven.</p></main>")

    assert [each.stamp for each in source.discover().listings] != [each.stamp for each in before]


def test_a_page_that_leads_on_from_now_on_is_not_unchanged_since_its_new_place_is_older(harbour: Server) -> None:
    """A long-lived process, such as `findingaid watch`, asks only for what changed since the time of a page."""

    def dated(path: str, text: str, changed: str) -> None:
        server = harbour.answers
        harbour.page(path, f"<main><p>{text}</p></main>", **{"Last-Modified": changed})
        page = server[path]
        server[path] = lambda: (304, {}, b"") if harbour.asked[-1][1].get("If-Modified-Since", "") > changed else page

    dated("/prices/", "Twelve crowns", "Fri, 01 Mar 2024 10:00:00 GMT")
    dated("/imprint", "Quay 1", "Fri, 01 Mar 2024 11:00:00 GMT")
    source = harbour.site()
    assert harbour.listed(source) == ["/", "/ferry", "/imprint", "/prices/"]

    harbour.status("/imprint", 301, Location="/prices/")
    assert harbour.listed(source) == ["/", "/ferry", "/prices/"]
    dated("/imprint", "Quay 1", "Fri, 01 Mar 2024 09:00:00 GMT")
    assert harbour.listed(source) == ["/", "/ferry", "/imprint", "/prices/"]


def test_pages_that_all_lead_to_a_sign_in_are_counted(harbour: Server) -> None:
    for page in ("/ferry", "/imprint"):
        harbour.status(page, 302, Location="/login")
    harbour.page("/login", "<main><p>Sign in to read this.</p></main>")

    found = harbour.site().discover()

    assert "addresses left out (they lead on to another page, perhaps a sign-in): 2" in found.notes


TOKEN = "Bearer hunter/22+x"
SIGNED_IN = {"Authorization": {"env": "HARBOUR_TOKEN"}}


def test_a_sign_in_is_sent_to_its_site_alone_and_kept_nowhere(
    cli: Cli, harbour: Server, elsewhere: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARBOUR_TOKEN", f"{TOKEN}\n")
    elsewhere.page("/", "<p>Another port is another site.</p>")
    harbour.status("/imprint", 302, Location=f"{elsewhere.address}/")
    harbour.status("/robots.txt", 302, Location=f"{elsewhere.address}/robots.txt")
    harbour.status("/prices/", 500)
    web = {"kind": "web", "start": f"{harbour.address}/", "delay": 0, "headers": SIGNED_IN}
    cli.settings["corpora"] = {"site": {"source": web}}

    shown = [cli.run(*command.split()).output for command in ("index", "config", "plan", "status --json")]

    assert {headers.get("Authorization") for _, headers in harbour.asked} == {TOKEN}
    assert "/robots.txt" in elsewhere.paths()
    assert not any("Authorization" in headers for _, headers in elsewhere.asked)
    assert artifact_ids(cli) == {f"{harbour.address}/", f"{harbour.address}/ferry"}
    kept = [path.read_bytes() for path in cli.folder.rglob("*") if path.is_file()]
    assert not any(b"hunter" in content for content in [*kept, *map(str.encode, shown)])
    assert "hunter" not in repr(harbour.site(headers=SIGNED_IN))


def test_a_sign_in_that_may_not_be_there_fails_the_listing_without_its_value(
    harbour: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = harbour.site(headers=SIGNED_IN)
    for value, problem in (("", "is not set"), ("hunter\n22", "no header may have"), ("hünter", "no header may have")):
        monkeypatch.setenv("HARBOUR_TOKEN", value)
        with pytest.raises(ConfigError, match=rf"headers.Authorization: .* HARBOUR_TOKEN .*{problem}") as raised:
            source.discover()
        assert not {"hunter", "hünter"} & {*str(raised.value).split()}
    assert harbour.asked == []


def test_another_sign_in_makes_no_page_stale(cli: Cli, harbour: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    web = {"kind": "web", "start": f"{harbour.address}/", "delay": 0, "headers": SIGNED_IN}
    cli.settings["corpora"] = {"site": {"source": web}}
    for token in ("one", "other"):
        monkeypatch.setenv("HARBOUR_TOKEN", token)
        cli.configure()
        report = findingaid.open(cli.config).index()

    assert not report.corpora["site"].active


def test_patterns_choose_pages_and_an_excluded_one_is_not_followed(harbour: Server) -> None:
    assert harbour.listed(harbour.site(exclude=["ferry"])) == ["/", "/imprint"]
    assert harbour.listed(harbour.site(include=["prices/"])) == ["/prices/"]
    assert harbour.listed(harbour.site(depth=1)) == ["/", "/ferry", "/imprint"]
    assert harbour.site(include=["nowhere/"]).discover().notes == ["source.include: matched nothing: nowhere/"]
    assert harbour.listed(Site(f"{harbour.address}/prices/", delay=0)) == ["/prices/"]


def test_a_linked_document_is_an_artifact_and_a_picture_is_counted(harbour: Server) -> None:
    harbour.page("/", '<main><a href="plan.pdf">Plan</a> <a href="quay.png">Quay</a></main>')
    harbour.answers["/plan.pdf"] = (200, {"Content-Type": "application/pdf"}, pdf("Timetable of the ferry"))
    source = harbour.site()

    found = source.discover()
    assert [listing.artifact_id for listing in found.listings] == [f"{harbour.address}/", f"{harbour.address}/plan.pdf"]
    assert found.notes == ["addresses left out (pictures and other files without text): 1"]
    assert "Timetable of the ferry" in source.read(f"{harbour.address}/plan.pdf").raw


def test_a_sitemap_lists_the_pages_and_only_changed_ones_are_read(harbour: Server) -> None:
    def sitemap(changed: str) -> None:
        harbour.answers["/sitemap.xml"] = (200, {"Content-Type": "text/xml"}, gzip.compress(f"""
            <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
            <url><loc>{harbour.address}/ferry</loc><lastmod>{changed}</lastmod></url>
            <url><loc>{harbour.address}/prices/</loc></url>
            <url><loc>http://elsewhere.example/</loc></url>
            </urlset>""".strip().encode()))  # fmt: skip

    harbour.answers["/index.xml"] = (200, {"Content-Type": "text/xml"}, f"""
        <sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
        <sitemap><loc>{harbour.address}/sitemap.xml</loc></sitemap></sitemapindex>""".strip().encode())  # fmt: skip
    sitemap("2024-03-01")
    source = harbour.site(sitemap=f"{harbour.address}/index.xml")
    before = source.discover()
    asked = harbour.paths()
    sitemap("2024-03-02")
    after = source.discover()

    assert [listing.artifact_id for listing in before.listings] == [
        f"{harbour.address}/ferry",
        f"{harbour.address}/prices/",
    ]
    assert before.notes == ["addresses left out (of another site): 1"]
    assert "/ferry" not in asked
    assert before.listings[0].stamp != after.listings[0].stamp
    assert before.listings[1] == after.listings[1]
    assert "nine" in source.read(f"{harbour.address}/ferry").raw


@pytest.mark.parametrize("content", [b"<html><body>no", b"", b"<feed/>", b"\x1f\x8bbroken"])
def test_what_is_not_a_sitemap_deletes_nothing(harbour: Server, content: bytes) -> None:
    harbour.answers["/sitemap.xml"] = (200, {"Content-Type": "text/xml"}, content)

    with pytest.raises(SourceError, match="not a sitemap"):
        harbour.site(sitemap=f"{harbour.address}/sitemap.xml").discover()


def test_a_busy_server_is_asked_again_after_the_time_that_it_names(harbour: Server) -> None:
    answers = iter([(429, {**HTML, "Retry-After": "0.1"}, b""), (503, HTML | {"Retry-After": "0"}, b"")])
    page = harbour.answers["/ferry"]
    harbour.answers["/ferry"] = lambda: next(answers, page)

    assert "/ferry" in harbour.listed(harbour.site())
    assert harbour.paths().count("/ferry") == 3


def test_the_encoding_that_the_server_names_counts(harbour: Server) -> None:
    body = "<html><body><main><p>Die Fähre kostet zwölf Kronen.</p></main></body></html>".encode("iso-8859-1")
    harbour.answers["/ferry"] = (200, {"Content-Type": "text/html; charset=iso-8859-1"}, body)
    source = harbour.site()
    source.discover()

    assert "Die Fähre kostet zwölf Kronen." in source.read(f"{harbour.address}/ferry").raw


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give either start or sitemap"),
        ({"start": "http://a/", "sitemap": "http://a/s.xml"}, "give either start or sitemap"),
        ({"start": "ftp://a/"}, "expected an address"),
        ({"start": "http://ann:secret@a/"}, "it has a password"),
        ({"start": "http://a/", "include": ["../b"]}, "leads out of the root"),
        ({"start": "http://a/", "headers": {"Authorization": "Bearer secret"}}, "headers.Authorization"),
        ({"start": "http://a/", "headers": {"Authorization": {"token": "secret"}}}, "headers.Authorization"),
    ],
)
def test_a_wrong_setting_is_one_line(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        Site(**given)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("status", [202, 204, 206, 300, 302, 304])
def test_an_answer_that_is_not_the_page_takes_no_pages_place(cli: Cli, harbour: Server, status: int) -> None:
    """As the check for robots of 202, and a 304 that was not asked for."""
    cli.settings["corpora"] = {"site": {"source": {"kind": "web", "start": f"{harbour.address}/", "delay": 0}}}
    cli.run("index")
    ids = artifact_ids(cli)
    harbour.answers["/ferry"] = (status, HTML, b"" if status in {204, 304} else b"<p>Checking your browser.</p>")

    failed = cli.run("index")
    assert f"the server answers {status}" in failed.output
    assert artifact_ids(cli) == ids
    assert "nine" in cli.run("search", "leaves at nine", "--mode", "lexical").output
    with pytest.raises(ReadError, match="which is not the page"):
        harbour.site().read(f"{harbour.address}/ferry")


def test_an_answer_that_breaks_off_within_its_gzip_is_not_half_a_page(harbour: Server) -> None:
    content = b"".join(b"<p>Departure %d is at %x.</p>" % (n, n**7) for n in range(2_000))
    packed = gzip.compress(content)
    harbour.answers["/ferry"] = (200, {**HTML, "Content-Encoding": "gzip"}, packed)
    source = harbour.site()
    source.discover()
    assert "Departure 1999" in source.read(f"{harbour.address}/ferry").raw

    parts = gzip.compress(content[:1_000]) + gzip.compress(content[1_000:])
    for broken, said in (
        (packed[: len(packed) // 2], "broke off"),
        (parts, "in several parts"),
        (b"plain", "gzip is damaged"),
    ):
        harbour.answers["/ferry"] = (200, {**HTML, "Content-Encoding": "gzip"}, broken)
        (failure,) = source.discover().failures
        assert said in failure.message
    harbour.answers["/ferry"] = (200, {**HTML, "Content-Encoding": "br"}, packed)
    with pytest.raises(ReadError, match="sent as br, which was not asked for"):
        source.read(f"{harbour.address}/ferry")


def test_a_page_that_breaks_off_without_an_announced_length_deletes_nothing(cli: Cli, harbour: Server) -> None:
    harbour.unmeasured |= {"/ferry", "/prices/"}
    cli.settings["corpora"] = {"docs": {"source": {"kind": "web", "start": f"{harbour.address}/", "delay": 0}}}
    cli.run("index")
    ids = artifact_ids(cli)
    assert len(ids) == 4
    status, headers, content = harbour.answers["/ferry"]  # type: ignore[misc]  # no function
    harbour.answers["/ferry"] = (status, headers, content[: content.index(b'<a href="/prices/')])

    broken = cli.run("index")
    assert broken.exit_code == 1
    assert "the answer broke off" in broken.output
    assert artifact_ids(cli) == ids

    harbour.answers["/ferry"] = (status, headers, b"<p>It leaves at ten.</p><a href='/prices/'>Prices</a>")
    assert cli.run("index").exit_code == 0
    assert artifact_ids(cli) == ids


def test_headers_without_end_are_left_in_time(harbour: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites, "ANSWER_SECONDS", 0.5)
    harbour.endless.add("/ferry")
    source = harbour.site()

    (failure,) = source.discover().failures
    assert failure.message.startswith("no answer")
    assert "crossing" not in source.read(f"{harbour.address}/imprint").raw  # asked for after the connection was closed


def test_a_server_that_is_down_behind_its_sitemap_is_not_asked_for_every_page(harbour: Server) -> None:
    locs = "".join(f"<url><loc>{harbour.address}/{i}</loc></url>" for i in range(20))
    harbour.answers["/sitemap.xml"] = (200, {"Content-Type": "text/xml"}, f"<urlset>{locs}</urlset>".encode())
    for i in range(20):
        harbour.status(f"/{i}", 503, **{"Retry-After": "0.01"})

    with pytest.raises(SourceError, match=r"5 pages in a row gave no answer.*answers 503"):
        harbour.site(sitemap=f"{harbour.address}/sitemap.xml").discover()


def test_robots_txt_is_obeyed_wherever_and_however_it_is_written(harbour: Server) -> None:
    rules = b"\xef\xbb\xbfUser-agent: *\nDisallow: /prices\n"
    harbour.answers["/robots.txt"] = (200, {"Content-Type": "text/plain"}, rules)
    assert "/prices/" not in harbour.listed(harbour.site())

    harbour.answers["/rules/robots.txt"] = harbour.answers["/robots.txt"]
    harbour.status("/robots.txt", 301, Location="/rules/robots.txt")
    assert "/prices/" not in harbour.listed(harbour.site())
    harbour.status("/robots.txt", 429, **{"Retry-After": "0"})
    with pytest.raises(SourceError, match=r"robots\.txt answers 429, which permits nothing"):
        harbour.site().discover()
    harbour.status("/robots.txt", 301, Location="/robots.txt")
    with pytest.raises(SourceError, match=r"robots\.txt answers 301, which permits nothing"):
        harbour.site().discover()


def test_the_orders_of_a_page_count_wherever_they_are(harbour: Server) -> None:
    harbour.page("/prices/", "<main><p>Draft</p></main>", **{"X-Robots-Tag": "noindex, nofollow"})
    harbour.page("/imprint", "<main><p>Quay 1</p></main>", **{"X-Robots-Tag": "otherbot: noindex"})
    harbour.page("/ferry", "<main><p>Draft</p></main>", '<meta name="robots" content="noindex">')
    loc = "<lastmod>2024-03-01</lastmod></url><url><loc>".join(f"{harbour.address}/{at}</loc>" for at in ("ferry", ""))
    urls = f"<urlset><url><loc>{loc}</url></urlset>".encode()
    harbour.answers["/sitemap.xml"] = (200, {"Content-Type": "text/xml"}, urls)

    assert harbour.listed(harbour.site()) == ["/", "/imprint"]
    source = harbour.site(sitemap=f"{harbour.address}/sitemap.xml")
    source.discover()
    with pytest.raises(SkippedError, match="noindex"):  # a page with `lastmod` is not asked for when it is listed
        source.read(f"{harbour.address}/ferry")


CANONICAL = '<link rel="canonical" href="{}">'


@pytest.mark.parametrize(
    ("imprint", "prices", "given", "listed"),
    [
        ("/prices/", "/imprint", {}, ["/", "/ferry", "/imprint"]),
        ("/gone", "/prices/", {}, ["/", "/ferry", "/imprint", "/prices/"]),
        ("/en/", "/prices/", {"exclude": ["en/"]}, ["/", "/ferry", "/imprint", "/prices/"]),
        ("/en/", "/en/", {"depth": 1}, ["/", "/ferry", "/imprint"]),
        ("/en/", "/prices/", {}, ["/", "/en/", "/ferry", "/prices/"]),
        ("/moved", "/prices/", {}, ["/", "/ferry", "/prices/"]),
    ],
)
def test_a_page_is_left_out_only_for_one_that_is_listed(
    harbour: Server, imprint: str, prices: str, given: Any, listed: list[str]
) -> None:
    harbour.page("/imprint", "<main><p>Quay 1</p></main>", CANONICAL.format(imprint))
    harbour.page("/prices/", "<main><p>Twelve crowns</p></main>", CANONICAL.format(prices))
    harbour.page("/en/", "<main><p>Quay 1, Harbour</p></main>")
    harbour.status("/moved", 301, Location="/prices/")

    assert harbour.listed(harbour.site(**given)) == listed


def test_a_page_that_sends_its_visitors_on_is_followed(harbour: Server) -> None:
    harbour.page("/", "", '<meta http-equiv="Refresh" content="0; url=&quot;ferry&quot;">')
    harbour.page("/prices/", "<main><p>Twelve crowns</p></main>", '<meta http-equiv="refresh" content="300">')

    assert harbour.listed(harbour.site()) == ["/ferry", "/imprint", "/prices/"]


def test_an_excluded_page_is_not_reached_by_a_redirect(harbour: Server) -> None:
    harbour.status("/ferry", 302, Location="/prices/")
    source = harbour.site(exclude=["prices/"])

    found = source.discover()
    assert [listing.artifact_id for listing in found.listings] == [f"{harbour.address}/", f"{harbour.address}/imprint"]
    assert found.notes == ["addresses left out (excluded): 1"]
    with pytest.raises(SkippedError, match="excluded"):
        source.read(f"{harbour.address}/ferry")


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("iso-8859-1", "cp1252"),
        ("iso-8859-1", "utf-8"),
        ("iso-8859-1", "utf-8-sig"),
        ("iso-8859-2", "iso-8859-2"),
        ("utf-16le", "utf-16-le"),
        ("nonsense", "utf-8"),
    ],
)
@pytest.mark.parametrize("media_type", ["text/html", "text/plain"])
def test_words_and_links_are_read_in_the_encoding_that_a_page_has(
    harbour: Server, said: str, written: str, media_type: str
) -> None:
    text = "“Die Fähre” kostet" if written == "cp1252" else "Die Fähre kostet zwölf Kronen"
    body = f"<html><body><main><p>{text}</p><a href='/fähre'>ab</a></main></body></html>".encode(written)
    harbour.answers["/ferry"] = (200, {"Content-Type": f"{media_type}; charset={said}"}, body)
    harbour.page("/f%C3%A4hre", "<main><p>Um neun</p></main>")
    source = harbour.site()

    assert ("/f%C3%A4hre" in harbour.listed(source)) == (media_type == "text/html")
    assert text in source.read(f"{harbour.address}/ferry").raw


@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-16"])
def test_links_are_read_in_the_encoding_that_a_page_itself_says(harbour: Server, encoding: str) -> None:
    body = f'<html><head><meta charset="{encoding}"></head><body><a href="/fähre">ab</a></body></html>'
    harbour.answers["/ferry"] = (200, {"Content-Type": "text/html"}, body.encode(encoding))
    harbour.page("/f%C3%A4hre", "<main><p>Um neun</p></main>")

    assert "/f%C3%A4hre" in harbour.listed(harbour.site())


def test_links_below_many_elements_are_found_and_below_too_many_delete_nothing(harbour: Server) -> None:
    deep = "<div>{}</div>".format
    for levels, found in ((300, True), (5_000, False)):
        body = '<a href="/prices/">Prices</a>'
        for _ in range(levels):
            body = deep(body)
        harbour.page("/ferry", f"<main>{body}</main>")
        listing = harbour.site().discover()
        assert (f"{harbour.address}/prices/" in {each.artifact_id for each in listing.listings}) == found
        assert bool(listing.unknown) == (not found)


def test_a_document_is_known_by_its_type_where_its_address_does_not_tell(harbour: Server) -> None:
    harbour.page("/", '<main><a href="/2401.00001">a</a> <a href="/get?id=3">b</a> <a href="/files/">c</a></main>')
    for path, media_type in (("/2401.00001", "application/pdf"), ("/get?id=3", "application/octet-stream")):
        harbour.answers[path] = (200, {"Content-Type": media_type}, pdf("Timetable of the ferry"))
    harbour.answers["/files/"] = (200, {"Content-Type": "application/pdf"}, pdf("Timetable of the ferry"))
    source = harbour.site()
    source.discover()

    for path in ("/2401.00001", "/get?id=3", "/files/"):
        read = source.read(harbour.address + path)
        assert read.raw.strip() == "Timetable of the ferry"
        assert read.metadata["n_pages"] == 1


def test_a_sitemap_that_another_names_and_that_is_gone_deletes_nothing_and_stops_nothing(harbour: Server) -> None:
    def sitemap(path: str, kind: str, entry: str, *paths: str) -> None:
        locs = "".join(f"<{entry}><loc>{harbour.address}{at}</loc></{entry}>" for at in paths)
        harbour.answers[path] = (200, {"Content-Type": "text/xml"}, f"<{kind}>{locs}</{kind}>".encode())

    sitemap("/index.xml", "sitemapindex", "sitemap", "/gone.xml", "/index.xml", "/one.xml")
    sitemap("/one.xml", "urlset", "url", *["/ferry"] * 40)

    found = harbour.site(sitemap=f"{harbour.address}/index.xml", max_bytes=1_000).discover()
    assert [listing.artifact_id for listing in found.listings] == [f"{harbour.address}/ferry"]
    assert [failure.artifact_id for failure in found.failures] == [f"{harbour.address}/gone.xml"]
    assert found.unknown == ("",)
    assert harbour.paths().count("/ferry") == 1  # a sitemap may name a page often


def test_an_address_is_one_in_any_spelling(harbour: Server) -> None:
    harbour.page("/f%C3%A4hre/", "<main><p>Um neun</p></main>")
    address = harbour.address.replace("http://127.0.0.1", "HTTP://127.0.0.1")

    assert harbour.listed(Site(f"{address}/fähre/#top", delay=0)) == ["/f%C3%A4hre/"]
