"""Entry point of `python -m findingaid`, which runs the `findingaid` command."""

from findingaid.cli import main

if __name__ == "__main__":
    main(prog_name="findingaid")
