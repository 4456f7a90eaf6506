"""Finds pointers to files, modules and headings that do not exist: `python -m tools.pointers`.

A pointer is, in a page, docstring or comment: a relative link, a path with a folder (`hlo/dataflow.py`), a dotted name that
begins with a package (`ligerdiag.hlo.module`, `analysis.writes`), or a name after "see". Code is parsed, never imported.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

from tools.texts import ROOT, Kind, Text, iterate_texts, list_files

_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_EXTENSIONS = "py|pyi|md|toml|proto|ya?ml|svg|png|csv|css|js|html|json|jinja|txt"
_PATH = re.compile(rf"(?<![\w/.:$~<*{{-])(?P<path>(?:[\w.-]+/)+[\w.-]+\.(?:{_EXTENSIONS}))(?![\w/*({{-])")
_FILE = re.compile(r"`(?P<path>[a-z_]\w*\.py)`")
_DOTTED = re.compile(r"(?<![\w./`-])`?(?P<name>ligerdiag(?:\.\w+)+)|`(?P<short>[a-z_]+(?:\.\w+)+)`")
_SEE = re.compile(r"\b[Ss]ee `(?P<name>[A-Za-z_]\w*)`")
_DEFINITION = re.compile(r"^\s*(?:async def|def|class) (\w+)", re.MULTILINE)
_HEADING = re.compile(r"^#+ (.+?)\s*$", re.MULTILINE)

_OF_READERS = re.compile(
    r"(^|/)(mine|small|page|file|model|mymodel|train|train_step|step|test_model|test_step|test_run|my_\w+|name)\.\w+$"
    r"|NNN|NAME"
)
"""Files of the reader, or of an example."""
_ELSEWHERE = re.compile(
    r"^(jax|jaxlib|xla|triton|jax_triton|third_party|python|openxla|stablehlo|returnn|src|report|pages|sweep|FOLDER)/"
)
"""Paths in other projects, and files that commands write."""
_RECORDS = ("docs/measurements/", "docs/reports/", "docs/adr/0011-one-table-of-opcodes.md")
"""Pages that name files of their date, or of other projects."""
_SUFFIXES = frozenset({"py", "toml", "txt", "json", "jsonl", "xml", "csv", "parquet", "sarif"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dangling:
    """A pointer to something that does not exist."""

    path: str
    line: int
    """1-based."""
    pointer: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: `{self.pointer}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """The names that a module defines."""

    top: frozenset[str]
    """Functions, classes, variables and imports."""
    inner: frozenset[str]
    """Attributes and methods of its classes, and arguments and local functions."""


def find_dangling() -> Iterator[Dangling]:
    """Yields every dangling pointer in pages, docstrings and comments."""
    for text in iterate_texts(archive=True):
        if text.kind is not Kind.MESSAGE:
            yield from check_text(text)


def check_text(text: Text) -> Iterator[Dangling]:
    """Yields the text's dangling pointers."""
    found: list[tuple[int, str]] = []
    if text.kind is Kind.PAGE:
        found += [
            (match.start(), match["target"]) for match in _LINK.finditer(text.text) if not _has_target(text, match)
        ]
    if not text.path.startswith(_RECORDS):
        for regex in (_PATH, _FILE):
            found += [(m.start(), m["path"]) for m in regex.finditer(text.text) if not _has_file(text, m["path"])]
        for match in _DOTTED.finditer(text.text):
            name = match["name"] or match["short"]
            if (match["name"] or not text.path.startswith("kernels/")) and not _has_name(name):
                found.append((match.start(), name))
        if text.kind is not Kind.PAGE:
            found += [(m.start(), m["name"]) for m in _SEE.finditer(text.text) if not _is_defined(text.path, m["name"])]
    for start, pointer in sorted(set(found)):
        yield Dangling(path=text.path, line=text.line + text.text.count("\n", 0, start), pointer=pointer)


def _has_target(text: Text, match: re.Match[str]) -> bool:
    """Returns whether a link leads to an existing file and heading; a link to the web counts as existing."""
    target, _, anchor = match["target"].partition("#")
    if re.match(r"[a-z]+:", target):
        return True
    file = (ROOT / text.path).parent / target if target else ROOT / text.path
    if not file.exists():
        return False
    return not anchor or file.suffix != ".md" or anchor in _list_anchors(file.read_text(encoding="utf-8"))


def _list_anchors(page: str) -> set[str]:
    """Returns the anchors that GitHub makes of the page's headings."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(page)}


def _has_file(text: Text, path: str) -> bool:
    """Returns whether the path leads to a file from here, from a folder above, or from a package of that name."""
    if _OF_READERS.search(path) or _ELSEWHERE.search(path):
        return True
    name = path.removeprefix("./").removeprefix("../")
    is_library = "/" not in path and path.removesuffix(".py") in sys.stdlib_module_names
    return is_library or name in _list_endings() or ((ROOT / text.path).parent / path).exists()


@cache
def _list_endings() -> frozenset[str]:
    """Returns every file's path, and each ending of it that is a path."""
    return frozenset(
        "/".join(parts[start:])
        for path in list_files()
        for parts in [PurePosixPath(path).parts]
        for start in range(len(parts))
    )


def _has_name(name: str) -> bool:
    """Returns whether a dotted name is a module, or is defined in one; a name outside of the packages counts as
    defined.
    """
    parts = name.split(".")
    if parts[0] != "ligerdiag" and parts[0] not in _list_packages():
        return True
    if parts[-1] in _SUFFIXES or parts[1].isdigit():
        return True
    for length in range(len(parts), 0, -1):
        for module in _find_modules(".".join(parts[:length])):
            rest = parts[length:]
            if not rest or rest[0] in module.top or (len(rest) == 1 and rest[0] in module.inner):
                return True
    return False


@cache
def _list_packages() -> frozenset[str]:
    """Returns the names of the folders below ligerdiag/."""
    return frozenset(
        part for path in list_files() if path.startswith("ligerdiag/") for part in PurePosixPath(path).parts[1:-1]
    ) - {"examples", "__pycache__"}


@cache
def _index_modules() -> dict[str, tuple[str, ...]]:
    """Maps dotted endings to the files of the modules and packages with that name."""
    index: dict[str, tuple[str, ...]] = {}
    for path in list_files():
        if path.endswith((".py", ".pyi")):
            parts = PurePosixPath(path).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            for start in range(len(parts)):
                name = ".".join(parts[start:])
                index[name] = (*index.get(name, ()), path)
    return index


def _find_modules(name: str) -> list[Module]:
    return [_read_module(path) for path in _index_modules().get(name, ())]


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@cache
def _read_module(path: str) -> Module:
    top: set[str] = set()
    inner: set[str] = set()
    pending: list[tuple[ast.AST, bool]] = [(ast.parse((ROOT / path).read_text(encoding="utf-8")), False)]
    while pending:
        node, is_local = pending.pop()
        names = _list_names(node)
        inner |= names
        if not is_local:
            top |= names
        is_local = is_local or isinstance(node, _SCOPES)
        pending += [(child, is_local) for child in ast.iter_child_nodes(node)]
    return Module(top=frozenset(top), inner=frozenset(inner))


def _list_names(node: ast.AST) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name) | ast.Name(id=name):
            return {name}
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.TypeAlias(name=ast.Name(id=name)):
            return {name}
        case ast.Attribute(attr=name):
            return {name}
        case ast.Assign(targets=targets):
            return {one.id for one in targets if isinstance(one, ast.Name)}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {(one.asname or one.name).partition(".")[0] for one in names}
        case _:
            return set()


def _is_defined(path: str, name: str) -> bool:
    """Returns whether a name after "see" is defined in the file, in ligerdiag or the kernels, or is a module."""
    return name in _read_module(path).inner or name in _index_modules() or name in _list_definitions()


@cache
def _list_definitions() -> frozenset[str]:
    files = [path for path in list_files() if path.startswith(("ligerdiag/", "kernels/")) and path.endswith(".py")]
    texts = [(ROOT / path).read_text(encoding="utf-8") for path in files]
    return frozenset(name for text in texts for name in _DEFINITION.findall(text))


def main() -> int:
    """Returns the exit code."""
    found = list(find_dangling())
    sys.stdout.writelines(f"{one}\n" for one in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
