"""`findingaid init` writes a configuration whose first run fails for no file; `config` explains the configuration."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from click.testing import CliRunner, Result

import findingaid
from findingaid.cli import main
from findingaid.config.loading import load
from findingaid.config.settings import Settings
from findingaid.errors import StoreError
from findingaid.reports import Report
from findingaid.sources.documents import OCR
from tests.conftest import Cli, error_of, text_about
from tests.support.documents import scanned_pdf

PICTURE = bytes(range(256)) * 20
SESSION = '{"type":"user","sessionId":"s","message":{"role":"user","content":"Where is the ledger?"}}\n'


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as people have it: texts, code, pictures, a skill, transcripts, and a folder that a program writes."""
    folder = tmp_path / "My notes"
    files: dict[str, str | bytes] = {
        "ledger.md": text_about("ledger"),
        "deep/vector.rst": text_about("vector"),
        "tool.py": "def tool():\n    return 1\n",
        "LICENSE": "Do as you like.",
        "a.gif": PICTURE,
        "deep/b.gif": PICTURE,
        "Blob [1]": PICTURE,
        "skills/forms/SKILL.md": "---\nname: forms\ndescription: Fill in a form.\n---\nOpen the form.\n",
        "logs/one.jsonl": SESSION,
        "node_modules/x/index.js": "x",
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    monkeypatch.chdir(tmp_path)
    return folder


def test_init_leaves_out_every_file_that_would_fail_and_says_so(mixed: Path) -> None:
    done = run("init", str(mixed))

    assert done.exit_code == 0, done.output
    assert "Wrote findingaid.yaml: 1 without suffix, 1 .md, 1 .py, 1 .rst" in done.stdout
    assert "skipped, not text: 2 .gif, 1 without suffix" in done.stdout
    assert "left out: node_modules/ (written by programs)" in done.stdout
    said = yaml.safe_load(Path("findingaid.yaml").read_text())
    assert list(said["corpora"]) == ["my_notes", "skills", "sessions"]
    assert said["corpora"]["my_notes"]["source"]["exclude"] == ["node_modules/", "/skills/", "/logs/"]


def test_the_first_run_after_init_indexes_everything_without_a_failure(mixed: Path) -> None:
    run("init", str(mixed))
    config = load(overrides={"embedder": {"kind": "hash"}})

    listed = {name: {x.artifact_id for x in c.source.discover().listings} for name, c in config.corpora.items()}
    texts, others = {"LICENSE", "deep/vector.rst", "ledger.md", "tool.py"}, {"a.gif", "deep/b.gif", "Blob [1]"}
    assert listed["my_notes"] == texts | others
    assert len(listed["skills"]) == len(listed["sessions"]) == 1
    done = run("index", "--set", "embedder={kind: hash}")
    assert done.exit_code == 0, done.output
    assert "my_notes: skipped 2 .gif, 1 without suffix: not text" in done.stdout


def test_init_offers_to_read_scans_and_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# A note\n\ntext")
    assert run("init", "notes").exit_code == 0
    assert "ocr" not in Path("findingaid.yaml").read_text()

    (tmp_path / "notes" / "scan.pdf").write_bytes(scanned_pdf())
    (tmp_path / "notes" / "photo.jpg").write_bytes(PICTURE)
    done = run("init", "notes", "--force")
    written = Path("findingaid.yaml").read_text()

    assert f"left out: /scan.pdf (no text on its pages (1), only images or nothing: {OCR})" in done.stdout
    assert "      # ocr: true  # reads the text of scans and pictures" in written
    assert yaml.safe_load(written.replace("# ocr", "ocr"))["corpora"]["notes"]["source"]["ocr"] is True


def test_init_leaves_out_links_to_nowhere_and_pipes(mixed: Path) -> None:
    (mixed / "self").symlink_to(mixed / "self")
    os.mkfifo(mixed / "pipe")

    done = run("init", str(mixed))

    assert "left out: /pipe (not a regular file)" in done.stdout
    assert run("index", "--set", "embedder={kind: hash}").exit_code == 0


def test_init_tries_every_file_and_tells_the_work_of_the_first_run(mixed: Path) -> None:
    (mixed / "cut.pdf").write_bytes(b"%PDF-1.4 cut")
    (mixed / "long.ipynb").write_text("{")

    done = run("init", str(mixed))
    first = json.loads(run("init", str(mixed), "--json", "--force").stdout)

    assert "left out: /cut.pdf (a PDF that was cut short, without an end (%%EOF): get it again)" in done.stdout
    assert "left out: /long.ipynb (" in done.stdout
    assert "1 .pdf" not in done.stdout
    plan = json.loads(run("plan", "--json").stdout)["corpora"]
    planned = {name: corpus["calls"]["embed"] for name, corpus in plan.items()}
    assert {name: corpus["calls"]["embed"] for name, corpus in first["plan"]["corpora"].items()} == planned
    assert f"The first run embeds {sum(planned.values())} texts, which takes a few seconds." in done.stdout
    assert not any(corpus["failed"] for corpus in plan.values())


def test_add_puts_a_second_folder_behind_the_corpora_that_are_there(mixed: Path, tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers/one.md").write_text(text_about("ledger"))
    (tmp_path / "papers/cut.pdf").write_bytes(b"%PDF-1.4 cut")
    run("init", str(mixed))
    file = Path("findingaid.yaml")
    before = file.read_text() + "\n# mine\nretain: 3\n"
    file.write_text(before)

    done = run("add", "papers")

    assert done.exit_code == 0, done.output
    assert "The first run embeds 2 texts" in done.stdout
    said = yaml.safe_load(file.read_text())
    assert list(said["corpora"]) == ["my_notes", "skills", "sessions", "papers"]
    assert said["corpora"]["papers"]["source"] == {"kind": "files", "root": "papers", "exclude": ["/cut.pdf"]}
    assert said["retain"] == 3
    assert set(before.splitlines()) <= set(file.read_text().splitlines())
    assert error_of(run("add", "papers")) == "corpora: there is a corpus 'papers' already"


def test_add_refuses_a_layout_that_it_cannot_extend_and_says_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers/one.md").write_text(text_about("ledger"))
    given = "store: index\ncorpora: {docs: {source: {kind: files, root: docs}}}\n"
    Path("findingaid.yaml").write_text(given)

    refused = run("add", "papers")

    assert refused.exit_code == 1
    said, _, by_hand = error_of(refused).partition(" by hand: ")
    assert said == "corpora: its layout leaves no place for more; add to it"
    assert Path("findingaid.yaml").read_text() == given
    assert list(load(text=given.replace("}}}", f"}}}}, {by_hand}}}")).corpora) == ["docs", "papers"]


def test_add_follows_the_indentation_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers/one.md").write_text(text_about("ledger"))
    Path("findingaid.yaml").write_text(
        "store: index\ncorpora:\n  # mine\n     docs: {source: {kind: files, root: papers}}\n"
    )

    done = run("add", "papers")

    assert done.exit_code == 0, done.output
    assert list(load().corpora) == ["docs", "papers"]


def test_what_another_program_writes_while_files_are_tried_stays(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path("findingaid.yaml")
    file.write_text("store: index\ncorpora:\n  docs: {source: {kind: files, root: .}}\n")
    plan = findingaid.FindingAid.plan

    def plan_beside_an_editor(aid: findingaid.FindingAid, corpora: list[str]) -> Report:
        file.write_text(file.read_text() + "retain: 3\n")
        return plan(aid, corpora)

    monkeypatch.setattr(findingaid.FindingAid, "plan", plan_beside_an_editor)
    done = run("add", "My notes")

    assert done.exit_code == 0, done.output
    assert "retain: 3" in file.read_text()
    assert list(load().corpora) == ["docs", "my_notes", "skills", "sessions"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, StoreError("gone")])
def test_nothing_is_written_unless_every_file_was_tried(
    mixed: Path, failure: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findingaid.FindingAid, "plan", Mock(side_effect=failure))

    assert run("init", str(mixed)).exit_code == 1
    assert not Path("findingaid.yaml").exists()


@pytest.mark.parametrize(
    "name",
    [
        b"x\xff.pdf",
        b"a\\b.pdf",
        b"a\nb.pdf",
        b"{a,b}.pdf",
        b"[a]*.pdf",
        b" !#.pdf",
        "é\u0301.pdf".encode(),
        b"\\xff.pdf",
    ],
)
def test_init_leaves_out_a_file_that_fails_whatever_its_name_is(mixed: Path, name: bytes) -> None:
    with open(bytes(mixed) + b"/" + name, "wb") as file:
        file.write(b"%PDF-1.4 cut")

    done = run("init", str(mixed))
    planned = json.loads(run("plan", "--json").stdout)["corpora"]["my_notes"]

    assert done.exit_code == 0, done.output
    assert [line for line in done.stdout.splitlines() if "left out: /" in line and ".pdf (" in line]
    assert (planned["failed"], [note for note in planned["noted"] if "matched nothing" in str(note)]) == ([], [])


def test_a_folder_whose_name_no_configuration_can_hold_is_one_line(mixed: Path) -> None:
    folder = Path(os.fsdecode(b"p\xff"))
    mixed.rename(folder)

    assert error_of(run("init", str(folder))) == "p\\xff: its name is not valid UTF-8: rename it"


def test_a_wrong_command_names_the_nearest_one() -> None:
    assert "No such command 'serch'. Did you mean search?" in run("serch").output
    assert "No such command 'aprove'. Did you mean approve?" in run("claims", "aprove").output
    assert "Did you mean" not in run("xyzzy").output


def test_init_takes_transcripts_and_skills_at_the_top_without_the_files_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.jsonl").write_text(SESSION)
    (tmp_path / "notes.md").write_text(text_about("ledger"))
    (tmp_path / "forms").mkdir()
    (tmp_path / "forms/SKILL.md").write_text("---\nname: forms\ndescription: Fill in.\n---\n")

    run("init")

    said = yaml.safe_load(Path("findingaid.yaml").read_text())["corpora"]
    (files,) = (of for of in said.values() if of["source"]["kind"] == "files")
    assert files["source"]["exclude"] == ["/findingaid.yaml", "/forms/", "*.jsonl"]
    assert {of["source"]["kind"] for of in said.values()} == {"files", "skills", "sessions"}
    assert all(of.source.discover().listings for of in load(overrides={"embedder": {"kind": "hash"}}).corpora.values())


@pytest.mark.parametrize(
    ("folder", "name"), [("2024", "2024"), ("no", "no"), ("skills", "files"), ("sessions2", "files"), ("日本", "files")]
)
def test_init_names_a_corpus_after_any_folder(
    folder: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / folder / "a.md", tmp_path / folder / "deep/forms/SKILL.md"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("---\nname: forms\ndescription: Fill in.\n---\n")

    run("init", folder)

    assert list(load(overrides={"embedder": {"kind": "hash"}}).corpora) == [name, "skills"]


def test_in_a_folder_that_was_deleted_a_command_fails_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert "no configuration at findingaid.yaml" in error_of(run("status"))


def test_init_keeps_a_configuration_that_exists_unless_forced(mixed: Path) -> None:
    Path("findingaid.yaml").write_text("mine: 1\n")

    refused = run("init", str(mixed))

    assert refused.exit_code == 1
    assert error_of(refused) == (
        "findingaid.yaml exists: add a folder to it by `findingaid add`, or use --force to replace it"
    )
    assert Path("findingaid.yaml").read_text() == "mine: 1\n"
    assert run("init", str(mixed), "--force").exit_code == 0


@pytest.mark.parametrize(
    ("folder", "message"), [("nowhere", "nowhere: no such folder"), ("empty", "empty: holds no file to index")]
)
def test_init_refuses_a_folder_without_files_in_one_line_and_writes_nothing(
    folder: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()

    refused = run("init", folder)

    assert refused.exit_code == 1
    assert error_of(refused).startswith(message)
    assert not (tmp_path / "findingaid.yaml").exists()


def test_a_command_in_a_subfolder_uses_the_configuration_above_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.write("deep/a.md", text_about("ledger"))
    assert cli.run("index").exit_code == 0
    monkeypatch.chdir(cli.docs / "deep")

    done = run("search", "ledger", "--json")

    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)[0]["artifact_id"] == "deep/a.md"


def test_without_any_configuration_the_error_names_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert "create one with `findingaid init`" in error_of(run("status"))


def test_config_check_builds_everything_that_the_configuration_names(cli: Cli) -> None:
    good = cli.run("config", "check")
    cli.settings["corpora"]["docs"]["strategy"] = {"name": "Chunked", "chunk_size": -1}
    bad = cli.run("config", "check")

    assert good.exit_code == 0
    assert "is valid. Corpora: docs. Store: " in good.stdout
    assert "chunk_size" in error_of(bad)


def test_config_show_names_the_place_of_every_setting(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINDINGAID__RETAIN", "3")
    cli.settings["corpora"]["docs"]["synopsis"] = True
    cli.settings["storage_options"] = {"secret": "hunter2"}

    done = cli.run("config", "show", "--json", "--set", "search.rerank_depth=7", "--set", "serve={port: 1}")

    shown = {row["key"]: (row["value"], row["origin"]) for row in json.loads(done.stdout)}
    line = next(n for n, text in enumerate(cli.config.read_text().splitlines(), start=1) if "synopsis" in text)
    assert shown["retain"] == (3, "$FINDINGAID__RETAIN")
    assert shown["search.rerank_depth"] == (7, "--set")
    assert shown["serve.port"] == (1, "--set")
    assert shown["serve.host"] == ("127.0.0.1", "default")
    assert shown["corpora.docs.synopsis.when"] == ("always", f"findingaid.yaml:{line}")
    assert shown["corpora.docs.max_loss"] == (0.5, "default")
    assert "hunter2" not in done.stdout
    assert {key.split(".")[0] for key in shown} == set(Settings.model_fields)


def test_config_show_follows_merge_keys_to_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "findingaid.yaml"
    file.write_text(
        "corpora:\n  one: &one\n    source: {kind: files, root: .}\n    max_loss: 0.2\n  two:\n    <<: *one\n"
    )

    shown = json.loads(run("config", "show", "--json", "--config", str(file)).stdout)

    assert next(row for row in shown if row["key"] == "corpora.two.max_loss")["origin"] == "findingaid.yaml:4"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str) -> None:
    done = run("completion", shell)

    assert done.exit_code == 0
    assert "_FINDINGAID_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("words", "completed"), [("findingaid sea", "plain,search"), ("findingaid search --json --mod", "plain,--mode")]
)
def test_the_completion_of_bash_offers_commands_and_options(words: str, completed: str) -> None:
    asked = {"_FINDINGAID_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}

    assert CliRunner().invoke(main, prog_name="findingaid", env=asked).stdout.splitlines() == [completed]
