"""Hashes of the code that a component runs: its module, and every module of the user's that it imports.

Imports are read from the source, never executed, so that computing an id runs no code. Formatting and comments do not
change a hash.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, lru_cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import resolve_name
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from findingaid.identity.hashes import bytes_hash, content_hash, text_hash

INSTALLED_FOLDERS = {"site-packages", "dist-packages"}
DATA_LIBRARIES = {"numpy", "pandas", "pyarrow"}
"""Libraries of data types: their objects count as values, so that a new release does not change an id."""

CODE_SUFFIXES = {".py", ".so", ".pyd"}

PLAIN = {bool, int, float, complex, str, bytes}


class Origin(Enum):
    """Origin of the code of a module, which decides how the module is identified."""

    SHIPPED = "findingaid"
    STANDARD = "Python or a library of data types"
    INSTALLED = "an installed distribution"
    OWN = "a file of the user's"
    UNKNOWN = "no file, such as a notebook or a REPL"


def origin(module: str) -> Origin:
    """Return the origin of the code of a module."""
    root = module.partition(".")[0]
    if root in {"findingaid", "findingaid_dagster"}:
        return Origin.SHIPPED
    path = _path(module)
    if path is None:
        return Origin.STANDARD if root in sys.stdlib_module_names and module != "__main__" else Origin.UNKNOWN
    if INSTALLED_FOLDERS.intersection(path.parts):
        return Origin.STANDARD if root in DATA_LIBRARIES else Origin.INSTALLED
    return Origin.STANDARD if any(map(path.is_relative_to, _standard_folders())) else Origin.OWN


def source_hash(module: str) -> str:
    """Hash the source of a module of the user's, and of every such module that it imports, directly or indirectly."""
    found: dict[str, str] = {}
    names = [module]
    while names:
        if (name := names.pop()) not in found and (source := _source(name)):
            found[name] = source.digest
            names.extend(_followed(name, source))
    return content_hash(sorted(found.items()))


@cache
def package_hash(root: str) -> str:
    """Hash the files of an installed top-level package or module."""
    spec = _spec(root)
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    files = [(folder, path) for folder in folders for path in folder.rglob("*") if path.suffix in CODE_SUFFIXES]
    if not files and spec and spec.origin:
        files = [(Path(spec.origin).parent, Path(spec.origin))]
    return content_hash(sorted((p.relative_to(folder).as_posix(), bytes_hash(p.read_bytes())) for folder, p in files))


def is_file_of(filename: str, module: str) -> bool:
    """Check whether `filename`, from which code was compiled, is the module's file, not a prompt or `exec`."""
    path = _path(module)
    return path is not None and _resolved(filename) == path


# -- finding modules -----------------------------------------------------------------------------------


@cache
def _standard_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple({Path(paths[name]).resolve() for name in ("stdlib", "platstdlib")})


def _spec(module: str) -> ModuleSpec | None:
    """Find the spec of a module, loaded or not, without executing its packages."""
    with suppress(AttributeError, KeyError):
        if loaded := sys.modules[module].__spec__:
            return loaded
    parent = module.rpartition(".")[0]
    up = _spec(parent) if parent else None
    where = up.submodule_search_locations if up else None
    if parent and where is None:
        return None
    for finder in sys.meta_path:
        with suppress(Exception):  # third-party finders may raise anything; try the next one
            if found := finder.find_spec(module, where):
                return found
    return None


def _path(module: str) -> Path | None:
    """Return the file of a module; None for a built-in or interactive module, and a package without a file."""
    spec = _spec(module)
    place = spec.origin if spec else getattr(sys.modules.get(module), "__file__", None)
    if place is None or place in {"built-in", "frozen"}:
        return None
    return _resolved(place)


@lru_cache(maxsize=4096)
def _resolved(place: str) -> Path:
    return Path(place).resolve()


# -- reading modules -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Import:
    """An import statement: `from ..base import names`, where `level` counts the dots; or `import base`."""

    base: str
    level: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Source:
    """A module as read from its file; `constants` are the names and plain values that it assigns at its top level."""

    content: bytes
    digest: str
    imports: tuple[_Import, ...] = ()
    constants: tuple[tuple[str, str], ...] = ()


_LOADED: dict[str, tuple[object, _Source, str]] = {}
"""Name of a loaded module -> its spec, which a reload replaces; its source; a hash of its replaced functions."""


def _source(module: str) -> _Source | None:
    """Return the source of a module of the user's; None for any other module, and for a folder without a file.

    A loaded module is read once each time it is loaded, since a later edit of its file does not run. Functions and
    constants in memory may differ from the file, because the file was edited or another module replaced them. They
    then count as they are in memory.
    """
    if origin(module) is not Origin.OWN:
        return None
    loaded = sys.modules.get(module)
    token = getattr(loaded, "__spec__", None) or loaded
    if loaded is None or module not in _LOADED or _LOADED[module][0] is not token:
        content = _content(module)
        if content is None:
            return None
        source = _parsed(content)
        if loaded is None:
            return source
        _LOADED[module] = (token, source, content_hash(_replaced_functions(loaded, content)))
    _, source, functions = _LOADED[module]
    running = content_hash(source.digest, functions, _replaced_constants(loaded, source))
    return replace(source, digest=running)


def _content(module: str) -> bytes | None:
    spec, path = _spec(module), _path(module)
    with suppress(Exception):  # third-party loaders may raise anything; there may be no loader
        content: bytes = spec.loader.get_data(spec.origin)  # type: ignore[union-attr]
        return content
    return path.read_bytes() if path and path.is_file() else None


@lru_cache(maxsize=4096)
def _parsed(content: bytes) -> _Source:
    """Parse a source. Files that are not Python source, such as compiled code, are hashed by their bytes."""
    try:
        tree = ast.parse(content)
        return _Source(content, text_hash(repr(_dumped(tree))), tuple(_imports(tree)), tuple(_constants(tree)))
    except (SyntaxError, ValueError, RecursionError):
        return _Source(content, bytes_hash(content))


def _dumped(node: Any) -> Any:
    """Return a tree as lists, without empty fields: every release of Python adds some."""
    if isinstance(node, ast.AST):
        fields = ((name, _dumped(value)) for name, value in ast.iter_fields(node) if value not in (None, []))
        return [type(node).__name__, *([name, value] for name, value in fields)]
    if isinstance(node, list):
        return [_dumped(item) for item in node]
    return _plain(node)


def _plain(value: Any) -> str:
    return f"{type(value).__name__} {hex(value) if isinstance(value, int) else ascii(value)}"


# -- code in memory that differs from the file ---------------------------------------------------------


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names and plain values that a module assigns once, at its top level, and no function reassigns."""
    anew = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    found: dict[str, str | None] = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        constant = value.value if isinstance(value, ast.Constant) else None
        for target in targets:
            if isinstance(target, ast.Name):  # a second assignment may depend on the run
                found[target.id] = None if target.id in found or constant is None else _plain(constant)
    yield from ((name, value) for name, value in found.items() if value is not None and name not in anew)


def _replaced_constants(loaded: ModuleType, source: _Source) -> list[tuple[str, str]]:
    """Return the constants whose value in memory differs from the file: set by another module, or edited since."""
    values = vars(loaded)
    now = ((name, values[name], value) for name, value in source.constants if name in values)
    shown = ((name, _plain(live) if type(live) in PLAIN else type(live).__name__, value) for name, live, value in now)
    return [(name, live) for name, live, value in shown if live != value]


def _replaced_functions(loaded: ModuleType, content: bytes) -> list[tuple[str, str]]:
    """Return the functions and methods of a loaded module whose code differs from its file."""
    if type(getattr(loaded, "__loader__", None)) is not SourceFileLoader:
        return []  # another loader may change what it compiles, as pytest's does
    try:
        compiled = compile(content, "", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return []
    of_file = {code_hash(code) for code in _codes(compiled)}
    found = ((name, code_hash(code)) for name, code in _running(loaded))
    return sorted((name, digest) for name, digest in found if digest not in of_file)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _running(loaded: ModuleType) -> Iterator[tuple[str, CodeType]]:
    """Yield the code of the functions of a module and of its classes.

    Left out is code compiled from another file, and code that a decorator of another module compiled in the name of
    this file, as hypothesis does: the function around it is not one of this module.
    """
    members = list(vars(loaded).values())
    classes = [member for member in members if isinstance(member, type) and member.__module__ == loaded.__name__]
    members += [member for of in classes for member in vars(of).values()]
    for member in members:
        if not isinstance(member, FunctionType) or not is_file_of(member.__code__.co_filename, loaded.__name__):
            continue
        if member.__qualname__.partition(".")[0] in vars(loaded):
            yield member.__qualname__, member.__code__


def code_hash(code: CodeType) -> str:
    """Hash compiled code and its constants, regardless of its position in the file."""
    return content_hash(
        code.co_qualname,
        code.co_code.hex(),
        code.co_exceptiontable.hex(),
        [code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount],
        [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars],
        [_constant_hash(constant) for constant in code.co_consts],
    )


def _constant_hash(constant: Any) -> str:
    if isinstance(constant, CodeType):
        return code_hash(constant)
    if isinstance(constant, tuple | frozenset):
        hashes = [_constant_hash(item) for item in constant]
        return content_hash(type(constant).__name__, sorted(hashes) if isinstance(constant, frozenset) else hashes)
    return content_hash(_plain(constant))


# -- following imports ---------------------------------------------------------------------------------


def _imports(tree: ast.AST) -> Iterator[_Import]:
    """Yield the imports of a source, including those within functions and `import_module` with a literal name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (_Import(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield _Import(node.module or "", node.level, tuple(alias.name for alias in node.names))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            for name in (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)):
                text = str(name)
                yield _Import(text.lstrip("."), len(text) - len(text.lstrip(".")))


def _followed(module: str, source: _Source) -> list[str]:
    """Return the names of the modules that a module imports; cached for as long as it stays loaded."""
    if module not in _LOADED or _LOADED[module][1].content is not source.content:
        return list(_imported(module, source))
    token = _LOADED[module][0]
    if module not in _FOLLOWED or _FOLLOWED[module][0] is not token:
        _FOLLOWED[module] = (token, sorted({name for name in _imported(module, source) if origin(name) is Origin.OWN}))
    return _FOLLOWED[module][1]


_FOLLOWED: dict[str, tuple[object, list[str]]] = {}


def _imported(module: str, source: _Source) -> Iterator[str]:
    """Yield the names of the modules that a module imports, which may include some that are not the user's."""
    package = _package(module)
    for statement in source.imports:
        with suppress(ImportError, ValueError):  # beyond the top-level package: the import fails anyway
            base = resolve_name("." * statement.level + statement.base, package)
            yield from _of_from(base, statement.names) if statement.names else _prefixes(base)


def _package(module: str) -> str:
    spec = _spec(module)
    package = spec.parent if spec else getattr(sys.modules.get(module), "__package__", None)
    return package or ""


def _prefixes(module: str) -> Iterator[str]:
    parts = module.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def _of_from(base: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the modules behind `from base import names`: submodules, and `base` itself if it may define a name."""
    if origin(base) not in {Origin.OWN, Origin.UNKNOWN}:  # a folder without a file has unknown origin
        return
    package = _source(base)
    for name in names:
        submodule = f"{base}.{name}"
        is_module = _spec(submodule) is not None
        if is_module:
            yield submodule
        if not is_module or (package and name.encode() in package.content):
            yield base
            owner = getattr(vars(sys.modules.get(base, object)).get(name), "__module__", None)
            yield from [owner] if isinstance(owner, str) else []  # a package may load names lazily
