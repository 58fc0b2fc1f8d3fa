"""`python -m findingaid` is the `findingaid` command."""

from findingaid.cli import main

if __name__ == "__main__":
    main(prog_name="findingaid")
