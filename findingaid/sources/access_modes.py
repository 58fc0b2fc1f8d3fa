"""Who may read local files by their owners, groups and modes."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from findingaid.access import PUBLIC, is_principal
from findingaid.sources.access_files import LocalAccess

try:
    from grp import getgrgid
    from pwd import getpwuid
except ModuleNotFoundError:  # as on Windows
    getgrgid = getpwuid = None  # type: ignore[assignment]

HAS_OWNERS = getpwuid is not None
"""Whether files have owners and groups on this system."""

ACL = "system.posix_acl_access"
"""Extended attribute with an access control list, which says more than the mode."""


def access_by_mode(root: str, path: str, known: dict[str, LocalAccess]) -> LocalAccess:
    """Return the principals that may read a file and pass through the folders from the root to it, by their modes.

    These are the owner, the group and everybody (`public`). As in POSIX, the owner's bits alone count for the owner,
    and the group's for its other members, also where everybody is let in. A principal has to be admitted by each folder
    and by the file, under its own name or as everybody. `root` is a real path, and `path` a real path relative to it;
    `known` keeps the results by path.
    """
    if path not in known:
        above = access_by_mode(root, os.path.dirname(path), known) if path else LocalAccess([PUBLIC])
        known[path] = above if above.wrong else _below(above, os.path.join(root, path), path or "the root")
    return known[path]


def _below(above: LocalAccess, place: str, shown: str) -> LocalAccess:
    try:
        info = os.lstat(place)
        if hasattr(os, "listxattr") and ACL in os.listxattr(place):
            return LocalAccess(wrong=f"{shown}: its access control list is not read: write rules")
        named = [f"user:{getpwuid(info.st_uid).pw_name}", f"group:{getgrgid(info.st_gid).gr_name}"]
    except KeyError:
        return LocalAccess(wrong=f"{shown}: its owner {info.st_uid} or group {info.st_gid} has no name on this machine")
    except OSError as error:
        return LocalAccess(wrong=f"{shown}: {error.strerror or error}")
    if wrong := [each for each in named if not is_principal(each)]:
        return LocalAccess(wrong=f"{shown}: {wrong[0]} is no principal")
    admits, verb = (stat.S_IXUSR, "pass") if stat.S_ISDIR(info.st_mode) else (stat.S_IRUSR, "read")
    bits = {each: info.st_mode & (admits >> shift) for each, shift in zip([*named, PUBLIC], (0, 3, 6), strict=True)}
    allowed = [each for each, bit in bits.items() if bit]
    denied = [each for i, each in enumerate(named) if not bits[each] and any([*bits.values()][i + 1 :])]
    line = f"{shown} ({stat.filemode(info.st_mode)})"
    return LocalAccess(
        _both(above.readers or [], allowed),
        [*above.deny, *denied],
        allowing=[*above.allowing, f"{line}: {', '.join(allowed) or 'nobody'} may {verb} it"],
        denying=[*above.denying, *(f"{line}: {each} may not" for each in denied)],
    )


def _both(some: Sequence[str], others: Sequence[str]) -> Sequence[str]:
    """Return the principals that are admitted twice."""
    if PUBLIC in some:
        return others
    return some if PUBLIC in others else [each for each in some if each in others]
