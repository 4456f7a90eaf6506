"""Parses selectors, by which a user names cases.

| selector | cases |
|---|---|
| none | all of the folder `cases` in the working directory, or in the nearest folder above it in the same project |
| `file.py`, `folder` | all of that file, or of the folder's files that define CASE or CASES |
| `file.py::ID`, `folder::ID` | the cases of that file or folder with that id |
| `module:name` | the Case, or the Cases, of that name in an importable module |
| `ID` | the cases of the folder `cases` with that id |

ID is an id or a glob in which only `*` and `?` are special: brackets match only brackets, because most ids contain brackets.
"""

import ast
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ligerdiag.errors import InputError
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.text import count_of

FOLDER = "cases"
NAMES = ("CASE", "CASES")
_NAMED = 4
"""At most this many files without a case are named in a note."""

type Selector = str | Source | CaseSpec
"""A selector as the user writes it, a source, which selects all of its cases, or a case that was found before."""

_MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A parsed selector: the sources to read, and which of their cases are selected."""

    text: str
    sources: tuple[Source, ...]
    pattern: str
    """Glob that the ids of the selected cases match; `*` for all."""
    place: str
    """The file, folder or module in which cases are selected, as error messages name it."""
    left_out: tuple[str, ...] = ()
    """The names of the folder's files that define neither CASE nor CASES."""


def parse_selectors(selectors: Sequence[Selector], directory: Path) -> tuple[Selection, ...]:
    """Returns the selection for each selector. Without selectors, selects all cases of the folder `cases`. Raises
    InputError if a file or folder does not exist.

    directory: the folder to which paths and modules are relative.
    """
    if not selectors:
        return (_select_folder("", "*", directory),)
    return tuple(_parse_selector(text, directory) for text in selectors)


def choose_cases(selection: Selection, cases: Mapping[Source, tuple[CaseSpec, ...]]) -> tuple[CaseSpec, ...]:
    """Returns the cases that the selection matches, in the order of its sources. Raises InputError if no case matches."""
    known = [case for source in selection.sources for case in cases[source]]
    pattern = compile_glob(selection.pattern)
    chosen = tuple(case for case in known if pattern.fullmatch(case.id))
    if chosen:
        return chosen
    if not known:
        raise InputError(f"`{selection.place}` defines no case: define CASE or CASES there")
    ids = list(dict.fromkeys(case.id for case in known))
    near = difflib.get_close_matches(selection.pattern, ids, n=3, cutoff=0.4)
    near = near or [case_id for case_id in ids if selection.pattern.strip("*?") in case_id][:3] or ids[:3]
    hint = ", ".join(f"`{case_id}`" for case_id in near)
    raise InputError(f"no case of `{selection.place}` matches `{selection.pattern}`; the nearest are {hint}")


def compile_glob(pattern: str) -> re.Pattern[str]:
    """Returns the regular expression for a glob in which only `*` and `?` are special."""
    special = {"*": ".*", "?": "."}
    return re.compile("".join(special.get(character, re.escape(character)) for character in pattern), re.DOTALL)


def find_root(file: Path) -> Path:
    """Returns the folder from which a case file's imports start. It is the nearest folder above the file with a
    pyproject.toml, otherwise the root of the git repository, otherwise the file's own folder.
    """
    for mark in ("pyproject.toml", ".git"):
        for folder in file.parents:
            if (folder / mark).exists():
                return folder
    return file.parent


def _parse_selector(selector: Selector, directory: Path) -> Selection:
    match selector:
        case Source():
            return Selection(text=str(selector), sources=(selector,), pattern="*", place=str(selector))
        case CaseSpec(source=source, id=pattern):
            return Selection(text=str(source), sources=(source,), pattern=pattern, place=str(source))
        case str(text):
            return _parse_text(text, directory)


def _parse_text(text: str, directory: Path) -> Selection:
    place, separator, pattern = text.partition("::")
    if separator:
        return _select_path(text, place, pattern or "*", directory)
    if text.endswith(".py") or _is_there(directory / text) or ("/" in text and not re.search(r"[*?\[]", text)):
        return _select_path(text, text, "*", directory)
    if _MODULE.fullmatch(text):
        source = Source(module=text, root=str(directory.resolve()))
        return Selection(text=text, sources=(source,), pattern="*", place=text)
    return _select_folder(text, text, directory)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _select_folder(text: str, pattern: str, directory: Path) -> Selection:
    looked = _list_project_folders(directory)
    home = next((folder for folder in looked if (folder / FOLDER).is_dir()), None)
    if home is None:
        above = f" or above it up to `{looked[-1]}`" if len(looked) > 1 else ""
        raise InputError(
            f"cannot find {f'`{text}`' if text else 'cases'}: there is no folder `{FOLDER}` in `{directory}`{above}:"
            f" give a file such as `mine.py`, or `module:name`; `ligerdiag init` writes a first case"
        )
    return _select_path(text, FOLDER, pattern, home)


def _list_project_folders(directory: Path) -> tuple[Path, ...]:
    """Returns the folder and those above it, innermost first, up to the nearest with a pyproject.toml; only the folder
    itself if there is no pyproject.toml.
    """
    folders = (directory.resolve(), *directory.resolve().parents)
    last = next((number for number, folder in enumerate(folders) if (folder / "pyproject.toml").is_file()), 0)
    return folders[: last + 1]


def _select_path(text: str, place: str, pattern: str, directory: Path) -> Selection:
    path = (directory / place).resolve()
    if path.is_dir():
        every = [file for file in sorted(path.glob("*.py")) if not file.name.startswith("_")]
        files = [file for file in every if _defines_cases(file)]
        left_out = tuple(file.name for file in every if file not in files)
        if not files:
            raise InputError(
                f"no file in the folder `{path}` defines CASE or CASES; `ligerdiag init` writes a first case"
            )
    elif path.is_file() and path.suffix == ".py":
        files, left_out = [path], ()
    elif path.exists():
        raise InputError(f"expected a Python file or a folder but got `{place}`")
    else:
        raise InputError(f"no file or folder `{place}`")
    sources = tuple(Source(file=str(file), root=str(find_root(file))) for file in files)
    return Selection(text=text, sources=sources, pattern=pattern, place=place, left_out=left_out)


def describe_files_left_out(selectors: Sequence[Selector], directory: Path) -> tuple[str, ...]:
    """Returns a note for each folder that is selected as a whole but has files without CASE and CASES."""
    return tuple(
        dict.fromkeys(
            f"{count_of(len(one.left_out), 'file')} of the folder `{one.place}` left out, without CASE or CASES: "
            + (", ".join(one.left_out[:_NAMED]) + (", …" if len(one.left_out) > _NAMED else ""))
            for one in parse_selectors(selectors, directory)
            if one.left_out and one.pattern == "*"
        )
    )


def _defines_cases(file: Path) -> bool:
    """Whether the file binds CASE or CASES at its top level. Also true for a file that cannot be parsed, so that its
    import reports the reason.
    """
    try:
        return _binds_cases(file.read_bytes())
    except OSError:
        return True


@lru_cache(maxsize=1024)
def _binds_cases(text: bytes) -> bool:
    """Whether this source text binds CASE or CASES at its top level, or cannot be parsed; cached, because each selector
    asks about all files of its folder.
    """
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return True
    for statement in body:
        match statement:
            case ast.Assign(targets=targets):
                names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case ast.ImportFrom(names=aliases):
                names = [alias.asname or alias.name for alias in aliases]
            case _:
                names = []
        if any(name in NAMES for name in names):
            return True
    return False
