"""Mails: their fields and text, and the artifacts that a mailbox and the attached files of a mail become."""

from __future__ import annotations

import mailbox
import os
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from findingaid.errors import ReadError, SourceError
from findingaid.sources.documents import AS_STORED, ATTACHED, convert_document
from findingaid.sources.files import Files
from tests.conftest import Cli
from tests.support.documents import pdf

LIMIT = 1_000_000
MIXED = b"From: a\nContent-Type: multipart/mixed; boundary=q\n\n"


def mail(subject: str, text: str = "Of herons.", message_id: str = "", **attached: bytes) -> EmailMessage:
    """Create a mail with attached files: the name with "__" for the dot -> content."""
    made = EmailMessage()
    made["From"] = "Ada Löwe <ada@example.org>"
    made["To"] = "Bob <bob@example.org>, carl@example.org"
    made["Date"] = "Mon, 02 Mar 2026 10:00:00 +0200"
    made["Subject"] = subject
    if message_id:
        made["Message-ID"] = f"<{message_id}>"
    made.set_content(text)
    for name, content in attached.items():
        made.add_attachment(content, maintype="application", subtype="octet-stream", filename=name.replace("__", "."))
    return made


def write_mailbox(path: Path, mails: Iterable[EmailMessage]) -> None:
    path.unlink(missing_ok=True)
    made = mailbox.mbox(path)
    for each in mails:
        made.add(each)
    made.close()


def ids(source: Files) -> list[str]:
    return [found.artifact_id for found in source.discover().listings]


def test_a_mail_has_its_fields_and_its_decoded_text(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(bytes(mail("Pläne für März", "Größe: 5 €")))

    found = Files(tmp_path).read("a.eml")

    assert found.raw == (
        "From: Ada Löwe <ada@example.org>\nTo: Bob <bob@example.org>, carl@example.org\n"
        "Date: Mon, 02 Mar 2026 10:00:00 +0200\nSubject: Pläne für März\n\nGröße: 5 €\n"
    )
    assert {name: found.metadata[name] for name in ("title", "subject", "from", "to", "date")} == {
        "title": "Pläne für März",
        "subject": "Pläne für März",
        "from": "Ada Löwe <ada@example.org>",
        "to": ["Bob <bob@example.org>", "carl@example.org"],
        "date": "2026-03-02T10:00:00+02:00",
    }


@pytest.mark.parametrize(
    ("sent", "date"),
    [
        ("Thu, 31 Dec 2026 23:30:00 -0500", "2026-12-31T23:30:00-05:00"),
        ("Fri, 01 Jan 2027 00:10:00 +0100", "2027-01-01T00:10:00+01:00"),
        ("Fri, 01 Jan 2027 00:10:00 -0000", "2027-01-01T00:10:00+00:00"),
        ("Fri, 01 Jan 2027 00:10:00 GMT", "2027-01-01T00:10:00+00:00"),
        ("Fri, 31 Dec 9999 23:30:00 -0500", ""),
    ],
)
def test_the_day_of_a_mail_is_the_one_that_it_says(tmp_path: Path, sent: str, date: str) -> None:
    heads = f"From: ada@example.org\nTo: bob@example.org\nDate: {sent}\nSubject: Herons\n\n"
    (tmp_path / "a.eml").write_text(f"{heads}The heron stands by the canal.\n")

    assert Files(tmp_path).read("a.eml").metadata.get("date", "") == date


@pytest.mark.parametrize(
    "body",
    [
        "Content-Type: text/plain; charset=us-ascii\n\nGröße".encode(),
        "Content-Type: text/plain; charset=utf-8\n\nGröße".encode("latin-1"),
        "Content-Type: text/plain; charset=no-such\n\nGröße".encode(),
        b"Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\nGr=F6=DFe",
        b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\nR3LDtsOfZQ==",
        "Content-Type: text/html\n\n<p>Größe</p>".encode(),
        b"Content-Type: multipart/alternative; boundary=q\n\n--q\nContent-Type: text/plain\n\n \n--q\n"
        b"Content-Type: text/html\n\n<p>Gr&ouml;&szlig;e</p>\n--q--\n",
    ],
)
def test_a_body_is_decoded_even_if_its_charset_is_wrong(body: bytes) -> None:
    found = convert_document("a.eml", b"From: a@example.org\nSubject: Plan\n" + body, LIMIT)

    assert found is not None
    assert found.text.strip().endswith("Größe")


def alternative(plain: str, page: str) -> str:
    made = mail("Plan", plain)
    made.add_alternative(page, subtype="html")
    found = convert_document("a.eml", bytes(made), LIMIT)
    assert found is not None
    return found.text


def test_a_page_is_read_if_the_plain_text_only_says_that_there_is_one() -> None:
    page = "<p>The boiler was serviced on the 3rd of May, and costs 120 € a year.</p>"

    assert "serviced on the 3rd" in alternative("Your program cannot show this mail: https://example.org/5", page)
    assert "serviced on the 3rd" in alternative("The boiler", page)


def test_the_plain_text_of_a_mail_is_read_if_it_has_the_words_of_the_page() -> None:
    page = '<p>The <b>boiler</b> was <a href="https://example.org/of/the/last/service?x=1">serviced</a>.</p>'

    assert alternative("👍", "<p>👍</p>").endswith("\n\n👍\n")
    assert alternative("> The boiler was serviced.", page).endswith("> The boiler was serviced.\n")


def test_a_page_is_read_if_it_has_a_table_that_the_plain_text_lacks() -> None:
    thanks = "Thank you for your order. We will send it to you as soon as we can."
    table = "<table><tr><th>Order</th><td>AX-77812</td></tr><tr><th>Total</th><td>412.50 EUR</td></tr></table>"

    assert "AX-77812" in alternative(thanks, f"<p>{thanks}</p>{table}")


def test_words_of_a_page_are_counted_if_the_plain_text_has_more() -> None:
    made = mail("Plan", "The boiler was serviced on the 3rd of May.")
    made.add_alternative("<p>Boiler news</p>", subtype="html")
    found = convert_document("a.eml", bytes(made), LIMIT)

    assert found is not None
    assert found.text.endswith("on the 3rd of May.\n")
    assert [str(note) for note in found.notes] == ["words that only the HTML of a mail has, not read: 2"]


INVITATION = """BEGIN:VCALENDAR
METHOD:REQUEST
BEGIN:VEVENT
SUMMARY:Budget
DTSTART:20260318T140000Z
LOCATION:Room Kepler
END:VEVENT
END:VCALENDAR
"""


@pytest.mark.parametrize("kind", ["alternative", "mixed"])
def test_the_time_and_place_of_an_invitation_are_read(kind: str) -> None:
    made = f"Content-Type: multipart/{kind}; boundary=q\n\n"
    for subtype, text in (("plain", "Bring figures."), ("html", "<p>Bring figures.</p>"), ("calendar", INVITATION)):
        made += f"--q\nContent-Type: text/{subtype}; charset=utf-8\n\n{text}\n"
    found = convert_document("a.eml", f"From: a@example.org\n{made}--q--\n".encode(), LIMIT)

    assert found is not None
    assert found.text.endswith("Bring figures.\n\n## Budget\n\n- Start: 2026-03-18 14:00 UTC\n- Location: Room Kepler")
    assert not found.notes


def test_a_mail_whose_text_is_in_no_form_that_is_read_says_so() -> None:
    made = b"Content-Type: multipart/alternative; boundary=q\n\n--q\nContent-Type: text/troff\n\nBEGIN\n--q--\n"
    found = convert_document("a.eml", b"From: a@example.org\nSubject: Plan\n" + made, LIMIT)

    assert found is not None
    assert [str(note) for note in found.notes] == ["forwarded mails and other parts without a file name, not read"]


@pytest.mark.parametrize("subtype", ["markdown", "csv", "x-patch"])
def test_a_text_of_a_mail_that_programs_show_as_it_is_is_read(subtype: str) -> None:
    mail = f"From: a@b.c\nSubject: S\nContent-Type: text/{subtype}; charset=utf-8\n\nThe **heron**, grey\n"

    found = convert_document("a.eml", mail.encode(), LIMIT)

    assert found is not None
    assert found.text.endswith("\n\nThe **heron**, grey\n")
    assert not found.notes


def test_a_mail_that_says_latin_1_may_have_the_signs_of_windows() -> None:
    body = "Content-Type: text/plain; charset=iso-8859-1\n\nGröße … 5 €".encode("cp1252")
    found = convert_document("a.eml", b"From: a@example.org\nSubject: Plan\n" + body, LIMIT)

    assert found is not None
    assert found.text.endswith("Größe … 5 €")


def flowed(text: str, parameters: str = "") -> str:
    made = f"Content-Type: text/plain; charset=utf-8; format=flowed{parameters}\n\n{text}".encode()
    found = convert_document("a.eml", b"From: a@example.org\nSubject: Plan\n" + made, LIMIT)
    assert found is not None
    return found.text.partition("Subject: Plan\n\n")[2]


def test_the_wrapped_lines_of_a_flowed_mail_are_joined() -> None:
    wrapped = "The boiler was \nserviced in May.\nIt runs.\n\n  kept\n-- \nAda\n> asked \n> before\n>> at \n> first\n"

    assert flowed(wrapped) == (
        "The boiler was serviced in May.\nIt runs.\n\n kept\n-- \nAda\n> asked before\n>> at \n> first"
    )


def test_a_word_of_a_flowed_mail_that_goes_on_in_the_next_line_is_one_word() -> None:
    wrapped = "See https://example.org/boi \nler/2026 on  \nthe page, and \n\nthe next.\n"

    assert flowed(wrapped, "; delsp=yes") == "See https://example.org/boiler/2026 on the page, and\n\nthe next."


@pytest.mark.parametrize(
    "head", ["-----Original Message-----", "From: Carl <c@example.org>\nSent: Monday\nTo: Ada", "> older"]
)
def test_a_quoted_mail_is_marked(head: str) -> None:
    found = convert_document("a.eml", f"From: a@example.org\n\nThe answer.\n\n{head}\nThe question.\n".encode(), LIMIT)

    assert found is not None
    answer = found.text.split("\n\n", 1)[1]
    assert answer.startswith("The answer.\n\n> ")
    assert head.startswith(">") or "\n> The question." in answer


def test_attached_files_are_artifacts_with_their_mail_as_parent(tmp_path: Path) -> None:
    message = mail("Plan", report__pdf=pdf("Of the ledger"), notes__txt=b"Of the vector")
    message.add_attachment(b"again", maintype="text", subtype="plain", filename="notes.txt")
    message.add_attachment(b"x", maintype="application", subtype="pdf", filename="../../etc/p|an.pdf")
    message.add_attachment(mail("Inner", "Forwarded."))
    (tmp_path / "a.eml").write_bytes(bytes(message))
    source = Files(tmp_path)

    assert ids(source) == [
        "a.eml", "a.eml/attachment.eml", "a.eml/notes-2.txt", "a.eml/notes.txt", "a.eml/p_an.pdf", "a.eml/report.pdf",
    ]  # fmt: skip
    assert source.read("a.eml").notes == ()
    assert "parent" not in source.read("a.eml").metadata
    report = source.read("a.eml/report.pdf")
    assert (report.raw, report.metadata["parent"], report.metadata["n_pages"]) == ("Of the ledger", "a.eml", 1)
    assert source.read("a.eml/notes-2.txt").raw == "again"
    assert "Forwarded." in str(source.read("a.eml/attachment.eml").raw)
    assert source.place("a.eml/report.pdf") == str(tmp_path / "a.eml")


def part(body: str, kind: str = "text/plain", name: str = "") -> bytes:
    attached = f'Content-Disposition: attachment; filename="{name}"\n' if name else ""
    return f"--q\nContent-Type: {kind}\n{attached}\n{body}\n".encode()


def test_attached_files_with_like_names_are_all_kept(tmp_path: Path) -> None:
    names = ("a.txt", "a.txt", "a-2.txt", "a.txt")
    parts = [part(f"content {i}", name=name) for i, name in enumerate(names)]
    (tmp_path / "a.eml").write_bytes(MIXED + part("body") + b"".join(parts) + b"--q--\n")
    source = Files(tmp_path)

    texts = {source.read(each).raw for each in ids(source) if each != "a.eml"}

    assert texts == {"content 0", "content 1", "content 2", "content 3"}


def test_the_text_behind_an_attached_file_is_read_and_other_parts_are_counted(tmp_path: Path) -> None:
    parts = [
        part("before"),
        part("attached", name="a.txt"),
        part("behind"),
        part("<p>in HTML</p>", "text/html"),
        part("From: c@example.org\n\nforwarded", "message/rfc822"),
        part("BEGIN", "text/troff"),
    ]
    (tmp_path / "a.eml").write_bytes(MIXED + b"".join(parts) + b"--q--\n")

    found = Files(tmp_path).read("a.eml")

    assert isinstance(found.raw, str)
    assert [line for line in found.raw.splitlines() if line] == ["From: a", "before", "behind", "in HTML"]
    assert [str(note) for note in found.notes] == ["forwarded mails and other parts without a file name, not read: 2"]


def test_a_mail_without_its_end_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(MIXED + part("half"))

    assert [str(note) for note in Files(tmp_path).read("a.eml").notes] == [
        "no end, as of a document that was cut short"
    ]


def test_a_sentence_that_begins_with_from_ends_no_mail(tmp_path: Path) -> None:
    (tmp_path / "a.mbox").write_bytes(
        b"From a Thu Jan  1 00:00:00 2026\nFrom: a\nMessage-ID: <1@x>\n\nText.\n\nFrom 10:30 on: nobody came.\n"
    )
    source = Files(tmp_path)

    assert ids(source) == ["a.mbox/1@x.eml"]
    assert "nobody came" in str(source.read("a.mbox/1@x.eml").raw)


def test_a_picture_within_the_text_is_no_attached_file(tmp_path: Path) -> None:
    message = mail("Plan")
    message.add_attachment(b"GIF89a", maintype="image", subtype="gif", disposition="inline", filename="logo.gif")
    message.add_attachment(b"GIF89a", maintype="image", subtype="gif", filename="photo.gif")
    (tmp_path / "a.eml").write_bytes(bytes(message))

    assert ids(Files(tmp_path)) == ["a.eml", "a.eml/photo.gif"]


def test_each_mail_of_a_mailbox_is_an_artifact(tmp_path: Path) -> None:
    quoted = mail("Two", "From the start\nFrom here", plan__txt=b"Of the plan")
    write_mailbox(tmp_path / "all.mbox", [mail("One", message_id="+1@example.org"), quoted, quoted])
    source = Files(tmp_path)

    first, second, attached = ids(source)

    assert first == "all.mbox/+1@example.org.eml"
    assert source.read(first).metadata["title"] == "One"
    assert str(source.read(second).raw).endswith("From the start\nFrom here\n")
    assert attached == f"{second}/plan.txt"
    assert source.read(attached).metadata["parent"] == second
    assert source.place(second) == str(tmp_path / "all.mbox")


def test_a_mail_of_a_maildir_is_read_as_a_mail_wherever_its_flags_move_it(tmp_path: Path) -> None:
    made = mailbox.Maildir(tmp_path / "box")
    made.add(bytes(mail("Pläne", "Größe: 5 €", report__txt=b"Of storks.")))
    (new,) = ids(Files(tmp_path))[:1]
    (tmp_path / "box/cur/notes.txt").write_text("From: me to you")

    seen = f"{new.replace('/new/', '/cur/')}:2,S"
    (tmp_path / new).rename(tmp_path / seen)
    source = Files(tmp_path)

    assert ids(source) == [seen, f"{seen}/report.txt", "box/cur/notes.txt"]
    assert source.read(seen).raw.endswith("Subject: Pläne\n\nGröße: 5 €\n")
    assert source.read(seen).metadata["media_type"] == "message/rfc822"
    assert source.read(f"{seen}/report.txt").raw == "Of storks."
    assert source.read("box/cur/notes.txt").raw == "From: me to you"


@pytest.mark.parametrize(
    "begin", [b"", b"From - Mon Mar  2 10:00:00 2026\n", b"1234      \n"], ids=["MH", "Inbox", "emlx"]
)
def test_a_mail_under_any_other_name_is_noted_as_read_as_it_is_stored(tmp_path: Path, begin: bytes) -> None:
    """Its words may be in base64."""
    (tmp_path / "1").write_bytes(begin + bytes(mail("Pläne", "Größe: 5 €")))
    (tmp_path / "about.txt").write_text("A mail has a line such as\nMIME-Version: 1.0\n")
    source = Files(tmp_path)

    assert [note.words for note in source.read("1").notes] == [AS_STORED]
    assert not source.read("about.txt").notes


def test_two_mails_with_one_message_id_are_two_artifacts(tmp_path: Path) -> None:
    write_mailbox(tmp_path / "all.mbox", [mail("One", "a", "x@y"), mail("Two", "b", "x@y")])

    first, second = ids(Files(tmp_path))

    assert {Files(tmp_path).read(each).metadata["title"] for each in (first, second)} == {"One", "Two"}


def test_a_mailbox_that_loses_a_mail_loses_that_artifact_alone(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs"}
    cli.settings["corpora"]["docs"]["edges"] = True
    mails = [mail(f"Number {n}", f"Of the heron {n}.", f"{n}@x", plan__txt=b"Of plan %d." % n) for n in range(4)]
    path = cli.folder / "docs" / "all.mbox"
    path.parent.mkdir(exist_ok=True)
    write_mailbox(path, mails)
    first = cli.json("index")["corpora"]["docs"]
    write_mailbox(path, [mails[0], *mails[2:], mail("Number 9", "Of the heron 9.", "9@x")])
    second = cli.json("index")["corpora"]["docs"]
    third = cli.json("index")["corpora"]["docs"]

    def counts(report: dict[str, Any]) -> list[int]:
        return [report[name] for name in ("new", "changed", "deleted", "unchanged")]

    assert counts(first) == [8, 0, 0, 0]
    assert counts(second) == [1, 0, 2, 6]
    assert counts(third) == [0, 0, 0, 7]
    known = {hit["artifact_id"] for hit in cli.json("search", "heron plan", "-k", "50")}
    assert known == {f"all.mbox/{n}@x.eml{end}" for n in (0, 2, 3) for end in ("", "/plan.txt")} | {"all.mbox/9@x.eml"}
    printed = cli.run("search", "Of plan 3", "-k", "1").stdout
    assert "docs/all.mbox/3@x.eml/plan.txt  " in printed.splitlines()[0]
    (neighbour,) = cli.json("neighbours", "all.mbox/2@x.eml/plan.txt")
    assert (neighbour["kind"], neighbour["artifact_id"]) == ("PARENT", "all.mbox/2@x.eml")


def test_a_mailbox_that_is_rewritten_mail_by_mail_loses_none(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs"}
    file = cli.folder / "docs" / "all.mbox"
    file.parent.mkdir(exist_ok=True)
    write_mailbox(file, [mail(f"Nr. {i}", f"Of the heron {i}.", f"{i}@x") for i in range(4)])
    cli.run("index")
    content = file.read_bytes()
    at = content.index(b"From ", len(content) // 2)
    file.write_bytes(content[:at])

    def go_on() -> None:
        with file.open("ab") as rest:
            rest.write(content[at:])

    writer = threading.Timer(0.5, go_on)
    writer.start()
    second = cli.json("index")["corpora"]["docs"]
    writer.join()

    assert second["deleted"] == 0


def test_a_mailbox_that_cannot_be_read_keeps_its_mails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mailbox(tmp_path / "all.mbox", [mail("One")])

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("findingaid.sources.files.open_below", refuse)
    found = Files(tmp_path).discover()

    assert found.listings == []
    assert [failure.artifact_id for failure in found.failures] == ["all.mbox"]
    assert "all.mbox/" in found.unknown


def test_a_mail_that_left_its_mailbox_after_the_listing_fails_alone(tmp_path: Path) -> None:
    write_mailbox(tmp_path / "all.mbox", [mail("One", message_id="1@x"), mail("Two", message_id="2@x")])
    source = Files(tmp_path)
    source.discover()
    write_mailbox(tmp_path / "all.mbox", [mail("Two", message_id="2@x")])

    with pytest.raises(ReadError, match=r"no longer in all\.mbox"):
        source.read("all.mbox/1@x.eml")
    assert source.read("all.mbox/2@x.eml").metadata["title"] == "Two"
    assert source.listing("all.mbox/1@x.eml") is None
    listed = source.listing("all.mbox/2@x.eml")
    assert listed is not None
    assert listed.stamp == source.discover().listings[0].stamp


def test_a_folder_that_is_called_as_a_mailbox_holds_ordinary_files(tmp_path: Path) -> None:
    for name in ("INBOX.mbox/notes.md", "old.eml/INBOX.MBOX/notes.md"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("# Notes")
    source = Files(tmp_path)

    for listing in source.discover().listings:
        assert source.listing(listing.artifact_id) == listing
        assert source.read(listing.artifact_id).raw == "# Notes"
    assert source.listing("INBOX.mbox/gone.md") is None


def test_a_mailbox_that_is_out_of_reach_is_not_taken_for_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "all.mbox").write_bytes(b"")
    stat = os.stat

    def refused(path: Any, *given: Any, **named: Any) -> os.stat_result:
        if str(path).endswith("all.mbox"):
            raise PermissionError(13, "Permission denied")
        return stat(path, *given, **named)

    source = Files(tmp_path)
    source.discover()
    monkeypatch.setattr(os, "stat", refused)

    with pytest.raises(SourceError, match="Permission denied"):
        source.listing("all.mbox/one.eml")


def test_what_is_no_mailbox_despite_its_name_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.mbox").write_text("Plain words.")
    (tmp_path / "empty.mbox").write_text("")
    (tmp_path / "folder.mbox").mkdir()
    (tmp_path / "folder.mbox" / "a.md").write_text("Text.")
    source = Files(tmp_path)

    assert ids(source) == ["a.mbox", "folder.mbox/a.md"]
    assert source.read("a.mbox").raw == "Plain words."
    assert source.read("folder.mbox/a.md").raw == "Text."


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"no header",
        MIXED + b"--q\nContent-Disposition: attachment; filename=a.txt\n\ncut",
        b"From: a\nContent-Type: multipart/mixed; boundary=\n\n--\n\n--\n",
        MIXED + b"--q\nContent-Type: multipart/mixed; boundary=q\n\n" * 999,
        b"From: <<>>@\nTo: ,,;:\nDate: never\nMessage-ID: <\nSubject: =?utf-8?q?=\xff?=\n\ntext",
        bytes(range(256)) * 9,
    ],
)  # fmt: skip
def test_a_damaged_mail_is_listed_and_fails_or_is_read(tmp_path: Path, payload: bytes) -> None:
    (tmp_path / "a.eml").write_bytes(payload)
    (tmp_path / "b.md").write_text("Text.")
    (tmp_path / "c.mbox").write_bytes(b"From a@b Mon Mar  2 10:00:00 2026\n" + payload)
    source = Files(tmp_path)

    found = ids(source)

    assert {"a.eml", "b.md"} <= set(found)
    for each in found:
        try:
            assert source.read(each).artifact_id == each
        except ReadError as error:
            assert "\n" not in str(error)  # noqa: PT017  # which of the two it is depends on the bytes


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-3], lambda text: text.replace(b"Z", b"!"), lambda text: text + b"Q"]
)
def test_an_attached_file_with_damaged_base64_fails_by_name(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    content = damage(b64encode(b"The zebra, of which there are three: Zeb and Zoe."))
    headers = b'\n--q\nContent-Type: text/plain; name="a.txt"\nContent-Disposition: attachment; filename="a.txt"\n'
    encoded = b"Content-Transfer-Encoding: base64\n\n" + content + b"\n--q--\n"
    (tmp_path / "m.eml").write_bytes(MIXED + headers + encoded)
    source = Files(tmp_path)

    assert ids(source) == ["m.eml", "m.eml/a.txt"]
    with pytest.raises(ReadError, match="base64 in the mail is damaged or cut short"):
        source.read("m.eml/a.txt")


def test_attached_files_outside_local_folders_stay_a_note() -> None:
    found = convert_document("a.eml", bytes(mail("Plan", a__txt=b"text")), LIMIT)

    assert found is not None
    assert [str(note) for note in found.notes] == [ATTACHED]


def test_more_parts_than_a_listing_may_have_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mailbox(tmp_path / "all.mbox", [mail(str(n)) for n in range(5)])
    monkeypatch.setattr("findingaid.sources.limits.ENTRIES", 3)

    with pytest.raises(SourceError, match="more than 3 files"):
        Files(tmp_path).discover()
