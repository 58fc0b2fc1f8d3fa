"""Commands of a group, also of one that imports them when they are used."""

import click


def subcommands(command: click.Command) -> dict[str, click.Command]:
    """Map the names of the commands of a group to the commands."""
    assert isinstance(command, click.Group)
    context = click.Context(command)
    found = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: each for name, each in found.items() if each}
