"""Commands that set findingaid up and explain it: `init`, `config`, `completion` and `help`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

import findingaid
from findingaid.cli.common import common, one_line_errors, replace_file
from findingaid.cli.doctor import examine_configuration
from findingaid.cli.options import HelpGroup, config_option, json_option, set_option
from findingaid.cli.printing import plain_table, say, say_json, say_line
from findingaid.config.loading import FILE_NAME, find_file, load, parse_override
from findingaid.errors import ConfigError
from findingaid.explain import explain, explanations
from findingaid.reports import duration, format_counts, note_lines

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--force", is_flag=True, help=f"Replace the {FILE_NAME} in the current folder.")
@json_option
@one_line_errors
def init(folder: Path, force: bool, as_json: bool) -> None:
    """Look at FOLDER, and write a findingaid.yaml for it.

    The file is written to the current folder. Every file is tried as `plan` does, and those that would fail are named
    and left out. Nothing is indexed.

    \b
    Examples:
      findingaid init
      findingaid init ~/notes
    """
    file = Path(FILE_NAME)
    if file.exists() and not force:
        raise ConfigError(f"{FILE_NAME} exists: add a folder to it by `findingaid add`, or use --force to replace it")
    _propose(folder, file, as_json)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
@config_option
@one_line_errors
def add(folder: Path, config: str | None, as_json: bool) -> None:
    """Add the corpora of FOLDER to the configuration, as `init` would write them. Nothing is indexed.

    \b
    Examples:
      findingaid add ~/papers
    """
    file = find_file(config)
    load(file)
    _propose(folder, file, as_json, extends=True)


def _propose(folder: Path, file: Path, as_json: bool, extends: bool = False) -> None:
    """Write the configuration proposed for a folder, or extend the file by it. Files that fail are left out.

    The file is written once, when all files were tried, and from its text at that time.
    """
    from findingaid.config.proposal import propose_config

    proposed = propose_config(folder, file.parent.resolve())

    def proposed_text() -> str:
        return proposed.added_to(file.read_text("utf-8")) if extends else proposed.yaml()

    report = findingaid.FindingAid.of(load(file, text=proposed_text())).plan(proposed.names)
    if tried := report.corpora.get(proposed.corpus):
        proposed = proposed.without(tried.failed)
    text = proposed_text()
    load(file, text=text)
    replace_file(file, text)
    if as_json:
        return say_json(asdict(proposed) | {"plan": report.to_dict()})
    say(escape(f"Wrote {file.name}: {format_counts(proposed.indexed)}"))
    if proposed.skipped:
        say(escape(f"  skipped, not text: {format_counts(proposed.skipped)}"))
    for pattern in proposed.excluded:
        if why := proposed.reasons.get(pattern):
            say_line(f"  left out: {pattern} ({why})")
    for line in (line for corpus in report.corpora.values() for line in note_lines(corpus.noted)):
        say_line(f"  {line}")
    texts = sum(corpus.calls.embed for corpus in report.corpora.values())
    takes = "a few seconds" if report.embed_seconds is None else f"about {duration(report.embed_seconds)}"
    say(f"The first run embeds {texts:,} texts, which takes {takes}.")
    say("It calls no language model, so it costs nothing. Next: findingaid index")
    return None


@click.group(name="config", cls=HelpGroup)
def config_group() -> None:
    """Check the configuration, or show every setting and the place that sets it."""


@config_group.command()
@common
def check(aid: findingaid.FindingAid, as_json: bool) -> None:
    """Load the configuration and everything it names. Lists no source, opens no table; `findingaid doctor` does.

    \b
    Examples:
      findingaid config check
      findingaid config check --config other.yaml --set embedder.kind=hash
    """
    found = examine_configuration(aid)
    if found.problem:
        raise ConfigError(found.problem)
    if as_json:
        return say_json({"file": str(aid.config), "store": aid.store.uri, "corpora": list(aid.corpora)})
    return say(escape(f"{aid.config} is valid. Corpora: {', '.join(aid.corpora) or 'none'}. Store: {aid.store.uri}"))


@config_group.command(name="show")
@json_option
@set_option
@config_option
@one_line_errors
def show_settings(config: str | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Show every setting with its value and the place that sets it. Secrets are masked.

    \b
    Examples:
      findingaid config show
      findingaid config show --set embedder.kind=hash --json
    """
    from findingaid.config.effective import effective_settings

    settings = effective_settings(config, dict(map(parse_override, overrides)))
    if as_json:
        return say_json([setting._asdict() for setting in settings])
    table = plain_table("setting", "value", "from")
    for setting in settings:
        table.add_row(escape(setting.key), escape(_value(setting.value)), escape(setting.origin))
    say(table)
    return None


def _value(value: Any) -> str:
    """Return a value as YAML, a text without its quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in SHELL.

    \b
    Examples:
      echo 'eval "$(findingaid completion bash)"' >> ~/.bashrc
      echo 'eval "$(findingaid completion zsh)"' >> ~/.zshrc
      findingaid completion fish > ~/.config/fish/completions/findingaid.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # noqa: S101  # click has all of SHELLS
    click.echo(found(context.find_root().command, {}, "findingaid", "_FINDINGAID_COMPLETE").source())


@click.command(name="help")
@click.argument("kinds", metavar="[KIND]...", nargs=-1)
@json_option
@one_line_errors
def explain_kinds(kinds: tuple[str, ...], as_json: bool) -> None:
    """Explain a KIND of error: its effect on the index, and its remedy. Without one, list all kinds in short.

    \b
    Examples:
      findingaid help
      findingaid help ConfigError
      findingaid help binary encoding
    """
    found = dict(map(explain, kinds or explanations()))
    if as_json:
        return say_json(found)
    if kinds:
        return click.echo("\n\n".join(f"{name}\n\n{text}" for name, text in found.items()))
    table = plain_table("kind", "meaning")
    for name, text in found.items():
        sentence = " ".join(text.split()).partition(". ")[0].rstrip(".")
        table.add_row(name, escape(sentence.partition(": ")[0] if name[0].isupper() else sentence))
    return say(table)
