"""Imports the file or module that defines cases, or unpickles a live function, and lists the project's files that it
read.

A loader holds the cases of one source at a time. Before it loads another source (a file, a module, or a live function), or
after any file changed, it drops the project's modules and imports them anew. So an answer depends on the current files only.
In a compile worker this never happens: it loads one source, once (see `CaseLoader`).

The source's root is the working directory and the first entry of sys.path; the user's PYTHONPATH follows, and the
source's own folder is the last entry. None of the three is in sys.path before the loader is used (see
`toolchains.toolchain`). jax, jax_triton and triton are imported earlier, so a `triton.py` in the project does not hide
them. No bytecode is written into the project.
"""

import importlib
import importlib.util
import io
import json
import linecache
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

from ligerdiag.artifacts.dependencies import compute_digest, drop_unseen
from ligerdiag.compile.cases.device_queries import PLATFORMS_VARIABLE, give_platforms
from ligerdiag.compile.cases.live_functions import forget_kernels, read_function_file, register_pytree_class
from ligerdiag.compile.cases.module_state.late_imports import LATE_IMPORTS
from ligerdiag.compile.cases.normalize import normalize_case
from ligerdiag.compile.cases.patched_files import PATCHED_FILES
from ligerdiag.errors import (
    CaseError,
    InputError,
    LigerdiagError,
    UsedWorkerError,
    describe_fault,
    find_place,
    is_project_file,
    list_case_path,
)
from ligerdiag.model.case import ASKED_SIZES, Arg, Case, Draw, Values
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.workers.outside_reads import OUTSIDE_READS

_PLAIN = (str, int, float, bool, bytes, type(None))


def compute_draws(case: Case, source: str, *, is_live: bool = False) -> str:
    """Returns a sha256 that identifies the arguments of a case and its reference. The rules by which random arguments
    are drawn are part of it. A reference is a function in plain jnp that computes the right outputs.

    Two cases have the same sha256 only if their arguments and references are known to be equal. If a reference cannot
    be identified (a closure, a method), the sha256 also covers the case's source and id, so no other case has it.
    is_live: whether the case is a live function; its reference is never identified, because its file need not contain
    the reference.
    """
    own = f"of {source}::{case.id}"
    reference = "none" if case.reference is None else ("" if is_live else _describe_function(case.reference)) or own
    arguments = _describe_value(case.args) or own
    return sha256(f"{arguments}\n{reference}".encode()).hexdigest()


def _describe_function(function: Callable[..., Any]) -> str:
    """Returns a text that identifies a function by its place and name and the values bound to it; empty if these do not
    suffice, as for a closure.
    """
    if isinstance(function, partial):
        bound = cast("partial[Any]", function)
        parts = (_describe_function(bound.func), _describe_value(bound.args), _describe_value(bound.keywords))
        return f"partial({', '.join(parts)})" if all(parts) else ""
    if not isinstance(function, FunctionType) or function.__closure__ or "<" in function.__qualname__:
        return ""
    defaults = _describe_value((function.__defaults__, function.__kwdefaults__))
    place = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
    return f"{place}:{function.__qualname__}{defaults}" if defaults else ""


def _describe_value(value: object) -> str:
    """Returns the value as text that is the same in each process; empty if the value has no such text."""
    match value:
        case Arg(draw=Draw() | Values()):
            return repr(value)
        case Arg(draw=function):
            drawn = _describe_function(cast("Callable[..., Any]", function))
            return f"{replace(value, draw=Draw())!r} by {drawn}" if drawn else ""
        case tuple() | list():
            items = [_describe_value(item) for item in cast("list[object]", value)]
            return f"{'tuple' if isinstance(value, tuple) else 'list'}({', '.join(items)})" if all(items) else ""
        case dict():
            entries = cast("dict[object, object]", value)
            items = [(repr(name), _describe_value(item)) for name, item in entries.items()]
            return f"{{{', '.join(f'{name}: {item}' for name, item in items)}}}" if all(i for _, i in items) else ""
        case _:
            return repr(value) if isinstance(value, _PLAIN) else ""


class CaseLoader:
    """Loads the cases of a source, and keeps the cases of the last source."""

    def __init__(self, *, once: bool = False) -> None:
        """once: whether the loader serves one source only. If so, `load` raises UsedWorkerError for any other source, and
        for the same source if its files have changed since.

        The reason for `once`: dropping an imported module does not undo its changes to other modules, such as a replaced
        function or a setting of JAX.
        """
        self._once = once
        self._is_used = False
        self._path: list[str] = []
        self._source: Source | None = None
        self._cases: dict[str, Case] = {}
        self._hashes: dict[str, str] = {}
        self._loaded: dict[str, str] = {}
        """The dependencies of the import, with their digests at its end: an import may write what it has read."""

    def load(self, source: Source) -> dict[str, Case]:
        """Returns the source's cases by id. Raises InputError if the source has none, and CaseError if it cannot be
        imported. A loader for one source only also raises UsedWorkerError, see `__init__`.
        """
        if source == self._source and self._is_current():
            return self._cases
        if self._once and self._is_used:
            raise UsedWorkerError(f"this worker has already loaded `{self._source}`: `{source}` needs a new worker")
        self._is_used = True
        self._forget()
        OUTSIDE_READS.install()
        give_platforms(lambda: OUTSIDE_READS.read_given(PLATFORMS_VARIABLE))
        OUTSIDE_READS.give_arguments(None if source.pickled else [source.file or source.module])
        ASKED_SIZES.clear()
        os.chdir(source.root)
        self._path = self._path or _compute_path()
        sys.path[:] = [source.root, *self._path]
        if source.file:
            sys.path.append(str(Path(source.file).parent))
        sys.dont_write_bytecode = True
        importlib.invalidate_caches()
        linecache.checkcache()
        PATCHED_FILES.use(source)
        cases = _index_cases(_read_cases(source), source)
        self._source, self._cases = source, cases
        self._loaded = {name: compute_digest(name) for name in drop_unseen(OUTSIDE_READS.get_digests())}
        return cases

    def find_case(self, source: Source, case_id: str) -> Case:
        """Returns the source's case with this id, normalized. Raises InputError if the source no longer has the case,
        and the errors of `load`.
        """
        case = self.load(source).get(case_id)
        if case is None:
            raise InputError(f"`{source}` has no case `{case_id}` any more")
        return normalize_case(case)

    def compute_dependencies(self) -> dict[str, str]:
        """Returns the files and environment variables on which the source's cases depend, each with its digest. They
        are the project's imported files, and all that the user's code has read since the source was loaded. A digest is
        that of the content that this loader saw first.
        """
        modules = [_find_archive(Path(file)) for file in list_project_modules().values()]
        files = {
            path for file in modules for path in (str(file.resolve()), os.path.abspath(file))
        }  # also through links
        if self._source is not None and self._source.file:
            files.add(self._source.file)
        if self._source is not None:
            files.update(text for _, text in self._source.patches)
        if self._source is not None and self._source.stablehlo:
            files.add(self._source.stablehlo)
        if self._source is not None and self._source.pickled:
            files.update(list_live_files(self._source))
        for file in sorted(files - self._hashes.keys()):
            self._hashes[file] = compute_digest(file)
        return OUTSIDE_READS.get_digests() | self._hashes

    def _is_current(self) -> bool:
        known = drop_unseen(OUTSIDE_READS.get_digests()) | self._loaded | self._hashes
        return all(compute_digest(name) == digest for name, digest in known.items() if not OUTSIDE_READS.is_given(name))

    def _forget(self) -> None:
        namespaces = _project_namespaces()  # first: a namespace's path cannot be read once its parent is gone
        for name, file in list_project_modules().items():
            if file.endswith(".py"):
                del sys.modules[name]
        for name in namespaces:
            del sys.modules[name]
        forget_live_case()
        OUTSIDE_READS.forget()
        self._source, self._cases, self._hashes, self._loaded = None, {}, {}, {}


def _find_archive(file: Path) -> Path:
    """Returns the file of a module; the archive, if the module is in one, such as `lib.zip/model.py`."""
    if file.exists():
        return file
    return next((folder for folder in file.parents if folder.is_file()), file)


def _compute_path() -> list[str]:
    """Returns the entries of sys.path that follow the source's root. Also restores the environment variable PYTHONPATH,
    for programs that a case starts.
    """
    added = list_case_path()
    if added:
        os.environ["PYTHONPATH"] = os.pathsep.join(added)
    return [*added, *(entry for entry in sys.path if entry not in added)]


def describe_case(case: Case, source: Source) -> CaseSpec:
    """Returns a record of the case for the parent process. It lacks only the case's function and arguments."""
    return CaseSpec(
        id=case.id,
        name=case.name,
        params=tuple(str(param) for param in case.params),
        source=source,
        mesh={str(axis): int(size) for axis, size in case.mesh.items()},
        expected=None if case.expected is None else _describe_expected(case.expected),
        expected_elsewhere={str(name): _describe_expected(value) for name, value in case.expected_elsewhere.items()},
        expected_rules=None if case.expected_rules is None else tuple(str(rule) for rule in case.expected_rules),
        effects=json.loads(json.dumps(case.effects, default=repr)),
        about=case.about,
        has_reference=case.reference is not None,
        draws=compute_draws(case, source.pickled or str(source), is_live=bool(source.pickled)),
        mitigation=str(case.mitigation),
        sizes=tuple(sorted(ASKED_SIZES)),
        xla_flags=case.xla_flags,
    )


def _describe_expected(expected: str | Mapping[str, str]) -> str | dict[str, str]:
    if isinstance(expected, str):
        return str(expected)
    return {str(name): str(verdict) for name, verdict in expected.items()}


def _read_cases(source: Source) -> object:
    if source.pickled:
        return _read_live_case(source)
    if source.stablehlo:
        return _read_stablehlo_case(source)
    if source.module:
        module_name, name = source.module.split(":")
        module = _import(source, module_name)
        if not hasattr(module, name):
            raise InputError(f"module `{module_name}` has no `{name}`")
        return getattr(module, name)
    module = _import_file(source)
    found = [name for name in ("CASE", "CASES") if hasattr(module, name)]
    if not found:
        raise InputError(f"`{source.file}` defines neither CASE nor CASES")
    if len(found) == 2:
        raise InputError(f"`{source.file}` defines both CASE and CASES: expected one of them")
    return getattr(module, found[0])


def _read_live_case(source: Source) -> Case:
    try:
        return load_live_case(source)
    except LigerdiagError:
        raise
    except Exception as fault:
        raise _explain(source, fault) from fault


def _read_stablehlo_case(source: Source) -> Case:
    from ligerdiag.compile.cases.stablehlo_file import load_stablehlo_case  # most workers do not need MLIR for this

    case, settings = load_stablehlo_case(Path(source.stablehlo), source.module)
    _apply_settings(settings)
    return case


def _index_cases(value: object, source: Source) -> dict[str, Case]:
    items = list(cast("Iterable[object]", value)) if isinstance(value, tuple | list) else [value]
    cases: dict[str, Case] = {}
    for item in items:
        if not isinstance(item, Case):
            raise InputError(f"expected a Case in `{source}` but got a {type(item).__name__}")
        if item.id in cases:
            raise InputError(f"`{source}` defines the case `{item.id}` twice: give them different params")
        cases[item.id] = item if source.pickled else _try_normalize(item)
    return cases


def _try_normalize(case: Case) -> Case:
    """Returns the case normalized; unchanged if that fails, because `find_case` reports the reason later."""
    try:
        return normalize_case(case)
    except LigerdiagError:
        return case


def _import_file(source: Source) -> ModuleType:
    file = Path(source.file)
    if not file.is_file():
        raise InputError(f"no file `{file}`")
    parts = file.relative_to(source.root).with_suffix("").parts
    name = ".".join(parts)
    is_name = all(part.isidentifier() for part in parts) and name not in sys.modules
    if is_name and _is_found(source, name, file):
        return _import(source, name)
    return _import_under_own_name(source, file)


def _is_found(source: Source, name: str, file: Path) -> bool:
    """Whether importing the module `name` would read this file. It would not if the file's folder has no `__init__.py`
    and a package with the folder's name elsewhere hides the folder.
    """
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return False
    except Exception as fault:
        raise _explain(source, fault) from fault
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == file


def _import_under_own_name(source: Source, file: Path) -> ModuleType:
    """Imports a case file under a name that ligerdiag makes up, because the file's own name is not an identifier or
    belongs to another module.
    """
    name = f"ligerdiag_case_{''.join(c if c.isalnum() else '_' for c in file.stem)}"
    spec = PATCHED_FILES.make_spec(name, file)
    if spec is None or spec.loader is None:
        raise InputError(f"`{file}` is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as fault:
        raise _explain(source, fault) from fault
    return module


def _import(source: Source, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as fault:
        if source.module and fault.name is not None and (name == fault.name or name.startswith(f"{fault.name}.")):
            raise InputError(f"cannot find the module `{name}` from the folder `{source.root}`") from fault
        raise _explain(source, fault) from fault
    except (Exception, SystemExit) as fault:
        raise _explain(source, fault) from fault


def _explain(source: Source, fault: BaseException) -> LigerdiagError:
    """Returns the error for an exception that an import raised. An error of ligerdiag's own, about a Case or an Arg,
    keeps its text and gets the user's line in front of it.
    """
    traceback.print_exception(fault)
    if isinstance(fault, LigerdiagError):
        return InputError(f"{find_place(fault) or source}: {fault}")
    return CaseError(f"`{source}` does not import: {describe_fault(fault)}")


def _project_namespaces() -> list[str]:
    """Returns the names of imported packages without `__init__.py` (namespace packages) all of whose folders are the
    project's, and of such packages whose parent is gone.

    A namespace that an installed package shares stays, because installed packages below it read their path from it;
    Python finds the project's part again by itself.
    """
    return [
        name
        for name, module in list(sys.modules.items())
        if _OWN.get(name) is not module
        and getattr(module, "__file__", None) is None
        and _is_of_project(getattr(module, "__path__", ()))
    ]


def _is_of_project(path: Iterable[str]) -> bool:
    try:
        folders = list(path)
    except KeyError:  # a namespace whose parent is gone
        return True
    return bool(folders) and all(is_project_file(str(Path(folder) / "__init__.py")) for folder in folders)


def list_project_modules() -> dict[str, str]:
    """Returns the imported modules of the project, as `{name: file}`."""
    files: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        if _OWN.get(name) is module:
            continue
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and name != "__main__" and is_project_file(file) and Path(file).is_absolute():
            files[name] = file  # not if the path is relative: a module that sets its own has no file there
    return files


_OWN: dict[str, object] = {}
"""The modules, by name, of which `note_own_modules` has found that they are not the project's."""


def note_own_modules() -> None:
    """Records which of the modules imported so far do not belong to the project. A process calls this once, before it
    imports a user's file, because checking a thousand modules for every file would take too long.
    """
    found = {*list_project_modules(), *_project_namespaces()}
    _OWN.update((name, module) for name, module in list(sys.modules.items()) if name not in found)


_settings: dict[str, object] = {}
"""The settings of `jax.config` that a live function's process has replaced: name to the worker's own value."""


def list_live_files(source: Source) -> tuple[str, ...]:
    """Returns the function file of a live function, and the files that define objects pickled by value. The case
    depends on them and on the files that it imports. A live function is a function of the running program, pickled by
    the caller's process.
    """
    state, _ = read_function_file(Path(source.pickled))
    return (source.pickled, *(file for file in state.files if Path(file).is_file()))


def load_live_case(source: Source) -> Case:
    """Unpickles the case of a live function, which the caller's process has pickled. First applies the import path and
    the settings of the caller's process. Raises InputError, and any exception of the user's modules.
    """
    state, pickled = read_function_file(Path(source.pickled))
    python = "{}.{}".format(*sys.version_info)
    if state.python != python:
        raise InputError(
            f"`{source}` was pickled by Python {state.python}, but the toolchain has Python {python}:"
            f" write it as a case in a file, see `ligerdiag init`"
        )
    sys.path += [folder for folder in state.path if folder not in sys.path]
    _apply_settings(state.settings)
    give_platforms(lambda: state.platforms)
    if state.folder and os.path.isdir(state.folder):
        os.chdir(state.folder)
    stream = io.BytesIO(pickled)
    LATE_IMPORTS.use(pickle.load(stream))
    arguments: Any = pickle.load(stream)
    case: Case = pickle.load(stream)
    for kind, fields, functions in pickle.load(stream):
        register_pytree_class(kind, fields, functions)
    return normalize_case(replace(case, args=arguments), frozenset(state.donated))


def forget_live_case() -> None:
    """Undoes what the last live function changed in this process. Drops its kernels, restores the settings of
    `jax.config`, and no longer gives imported modules the caller's state.
    """
    forget_kernels()
    LATE_IMPORTS.use(None)
    if _settings:
        _update_settings(_settings)
        _settings.clear()


def _apply_settings(settings: Mapping[str, object]) -> None:
    config: Any = importlib.import_module("jax").config
    changed = {name: value for name, value in settings.items() if getattr(config, name, value) != value}
    _settings.update({name: getattr(config, name) for name in changed})
    _update_settings(changed)


def _update_settings(settings: Mapping[str, object]) -> None:
    config: Any = importlib.import_module("jax").config
    for name, value in settings.items():
        config.update(name, value)
