"""Access files: small YAML files in folders that name the readers of the files there and below."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from findingaid.access import is_principal
from findingaid.errors import ReadError, brief
from findingaid.sources.local import open_below
from findingaid.text.strict_yaml import parse_yaml

MOST_BYTES = 65_536
KEYS = {"readers", "deny"}


@dataclass(frozen=True)
class LocalAccess:
    """The principals that may read local files, and those that may not.

    By access files, `readers` are those of the nearest one that names any, or None. If something cannot be understood,
    `wrong` says why, and nobody may read the files. `allowing` and `denying` explain this in lines that name the files.
    """

    readers: Sequence[str] | None = None
    deny: Sequence[str] = ()
    wrong: str = ""
    allowing: Sequence[str] = ()
    denying: Sequence[str] = ()

    @classmethod
    def read(cls, root: str, folder: str, name: str, known: dict[str, Self]) -> Self:
        """Read the access files called `name` of a folder and of those above it. `known` keeps the results by folder.

        `root` is a real path, and `folder` a real path relative to it, "" for the root itself.
        """
        if folder not in known:
            above = cls.read(root, os.path.dirname(folder), name, known) if folder else cls()
            known[folder] = above._with_file(root, os.path.join(folder, name))
        return known[folder]

    def _with_file(self, root: str, path: str) -> Self:
        """Return this, which is that of the folder above, as an access file changes it; unchanged if there is none."""
        try:
            os.lstat(os.path.join(root, path))
        except FileNotFoundError:
            return self
        except OSError as error:
            return replace(self, wrong=f"{path}: {error.strerror or error}")
        try:
            with open(open_below(root, path), "rb") as file:
                readers, deny = _parsed(file.read(MOST_BYTES + 1))
        except (OSError, ReadError) as error:
            return replace(self, wrong=f"{path}: {getattr(error, 'strerror', None) or error}")
        except ValueError as error:
            return replace(self, wrong=f"{path}{error}")
        found = self
        if readers is not None:
            found = replace(found, readers=readers, allowing=[f"{path}: {', '.join(readers) or 'nobody'} may read it"])
        if deny:
            denying = (*self.denying, f"{path}: {', '.join(deny)} may not")
            found = replace(found, deny=(*self.deny, *deny), denying=denying)
        return found

    @property
    def of_artifact(self) -> list[str] | None:
        """The readers of each artifact in the folder, in the form of `Artifact.readers`; None if no file names any."""
        if self.wrong:
            return []
        denied = [f"-{principal}" for principal in self.deny]
        return [*(self.readers or ()), *denied] if self.readers is not None or denied else None


def _parsed(content: bytes) -> tuple[list[str] | None, list[str]]:
    """Return the readers in an access file, None if it names none, and who may not read. Raises ValueError."""
    if len(content) > MOST_BYTES:
        raise ValueError(f": longer than {MOST_BYTES:,} bytes")
    try:
        said = parse_yaml(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError(": not UTF-8") from None
    if not isinstance(said, dict) or not said or not said.keys() <= KEYS:
        raise ValueError(": expected the keys readers, deny, or both")
    for key, principals in said.items():
        wrong = (
            [each for each in principals if not is_principal(each)] if isinstance(principals, list) else [principals]
        )
        if wrong:
            found = brief(wrong[0]) if isinstance(wrong[0], str) else f"a {type(wrong[0]).__name__}"
            raise ValueError(f": {key}: {found} is not public, user:NAME or group:NAME")
    return said.get("readers"), said.get("deny", [])
