"""Finds the kernel call that a finding names in the user's source: the call, its kernel, and the arguments that the kernel
overwrites.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import libcst as cst

from ligerdiag.fix.forwarded_calls import Forwarding, find_forwarding
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name
from ligerdiag.model.findings import CallPlace, SourceLine
from ligerdiag.source_text import compute_near, is_below

OUTPUT_KEYWORDS = ("out_shape", "out_type", "outputs")
ALIASES = "input_output_aliases"
TRITON_CALL, PALLAS_CALL, CURED_CALL = "triton_call", "pallas_call", "call_in_place"
_MOST_FILES = 3000
"""Greatest number of files of a project that are searched for callers."""
_MOST_PACKAGES = 4
"""Number of modules by which a name may be passed on, from `__init__.py` to `__init__.py`."""
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCaller:
    """A call that a cure changes, because the called function returns more values than before."""

    path: Path
    lines: tuple[int, int]
    """The first and the last line of the call."""
    place: str
    """The function that calls, and its place: `step` (mine.py:40)."""
    unseen_write: str = ""
    """A clause that names the argument which the caller no longer has overwritten, although others may hold the array;
    empty if there is none.
    """


@dataclass(slots=True, kw_only=True)
class Project:
    """The files of the user's project that a cure reads and changes."""

    root: Path
    """The folder from which the case's imports start."""
    roots: tuple[str, ...]
    """Real paths of the folders whose files may be changed."""
    originals: dict[Path, bytes] = field(default_factory=dict[Path, bytes])
    """The text of each file as it was first read; every cure of a search changes these texts."""
    texts: list[tuple[Path, str]] = field(default_factory=list[tuple[Path, str]])
    """The real path and the text of each file below the root; empty until the users of a function are searched."""
    unread: list[str] = field(default_factory=list[str])
    """The files that could not be searched for users of a function, each with the reason."""
    unseen: dict[str, None] = field(default_factory=dict[str, None])
    """Places that may call a changed function. The function returns more values after the change, and the change leaves
    these places as they are.
    """
    also_changed: dict[str, None] = field(default_factory=dict[str, None])
    """The kernel calls that are changed although no finding of the case names them."""
    not_changed: dict[str, None] = field(default_factory=dict[str, None])
    """The kernel calls that are not changed, and that may overwrite an array whose new contents a function now returns."""
    changed_callers: list[ChangedCaller] = field(default_factory=list[ChangedCaller])
    kept_uses: dict[str, None] = field(default_factory=dict[str, None])
    """Places in `unseen` that use a function which keeps its results, beside a new function that returns more."""
    remarks: dict[str, None] = field(default_factory=dict[str, None])
    """Sentences about the change that the reader of its diff needs."""
    changed_calls: set[cst.CSTNode] = field(default_factory=set[cst.CSTNode])
    reached: set[str] = field(default_factory=set[str])
    """The calls that get the new results after the change. `unseen` may name the same places, because two methods of one
    name may both return more.
    """
    files: dict[Path, SourceFile] = field(default_factory=dict[Path, SourceFile])
    _users: dict[tuple[str, Path], list[SourceFile]] = field(default_factory=dict[tuple[str, Path], list[SourceFile]])
    _modules: dict[tuple[str, Path], frozenset[str]] = field(default_factory=dict[tuple[str, Path], frozenset[str]])

    def list_unseen(self) -> tuple[str, ...]:
        """Returns the places that the cure does not change although they may call a function with more results now."""
        return tuple(one for one in self.unseen if one not in self.reached)

    def load(self, name: str) -> SourceFile:
        """Returns the file at this path.

        Raises CannotFixError for a file that is not the user's to change. The message says what to change instead.
        """
        if name.startswith("<"):
            raise CannotFixError(f"the code of `{name}` is in no file: change the program that makes it")
        path = Path(os.path.realpath(name))
        if SourceLine(file=str(path), line=0).is_installed:
            raise CannotFixError(
                f"`{path}` belongs to an installed package: change that package, or call the kernel in another way"
            )
        if path.suffix != ".py" or not is_below(str(path), self.roots):
            raise CannotFixError(f"`{compute_near(str(path))}` is not a Python file of this project")
        if path not in self.files:
            loaded = SourceFile(path, self.originals.get(path))
            self.originals[path] = loaded.original
            if re.search(rb"(?i)@generated|\bdo not edit\b", loaded.original[:2000]):
                raise CannotFixError(f"`{compute_near(str(path))}` is generated: change the program that writes it")
            self.files[path] = loaded
        return self.files[path]

    def list_files(self) -> Iterator[Path]:
        """Yields the Python files below the project's root, except those in hidden folders and in Python environments."""

        def walk() -> Iterator[Path]:
            for folder, folders, names in os.walk(self.root):
                folders[:] = sorted(
                    one
                    for one in folders
                    if one not in _SKIPPED and not one.startswith(".") and not Path(folder, one, "pyvenv.cfg").exists()
                )
                yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))

        yield from islice(walk(), _MOST_FILES)

    def find_users(self, name: str, home: SourceFile) -> list[SourceFile]:
        """Returns the files that may use the function or class `name`, which is defined in the file `home`.

        These are `home` itself and each file that imports the name, from `home` or from a package that re-exports it.
        """
        key = (name, home.path)
        if key not in self._users:
            self._users[key] = [home, *(self.load(str(one)) for one in self._list_importing(name, home))]
        return self._users[key]

    def find_modules(self, name: str, home: SourceFile) -> frozenset[str]:
        """Returns the modules from which `name`, which is defined in the file `home`, can be imported.

        Each is given by the last part of its dotted name.
        """
        self.find_users(name, home)
        return self._modules[name, home.path]

    def _list_importing(self, name: str, home: SourceFile) -> Iterator[Path]:
        module = home.path.stem if home.path.stem != "__init__" else home.path.parent.name
        modules, found = {module}, set[Path]()
        for _ in range(_MOST_PACKAGES):
            before = len(modules)
            for path, text in self.read_texts():
                if path == home.path or not re.search(rf"\b{re.escape(name)}\b|\bimport\s*\(?\s*\*", text):
                    continue
                if not any(re.search(rf"\b{re.escape(one)}\b", text) for one in modules):
                    continue
                file = self.load(str(path))
                if any(_imports(file, name, one) for one in modules):
                    found.add(path)
                    modules.add(path.parent.name if path.stem == "__init__" else path.stem)
            if len(modules) == before:
                break
        self._modules[name, home.path] = frozenset(modules)
        return iter(sorted(found))

    def read_texts(self) -> list[tuple[Path, str]]:
        """Returns a (real path, text) pair for each Python file below the project's root.

        A file that cannot be read has no pair; its path is added to `unread`.
        """
        if not self.texts:
            for path in self.list_files():
                try:
                    self.texts.append((Path(os.path.realpath(path)), path.read_text(encoding="utf-8")))
                except (OSError, UnicodeDecodeError):
                    self.unread.append(f"{compute_near(str(path))}, which cannot be read as UTF-8 text")
            if len(self.texts) + len(self.unread) >= _MOST_FILES:
                self.unread.append(f"the files after the first {_MOST_FILES}")
        return self.texts


def _imports(file: SourceFile, name: str, module: str) -> bool:
    for statement in file.find(cst.ImportFrom):
        if statement.module is None:
            continue
        if get_name(statement.module) != module:
            continue
        if isinstance(statement.names, cst.ImportStar) or any(one.evaluated_name == name for one in statement.names):
            return True
    modules = {module}
    for kind in (cst.Import, cst.ImportFrom):
        for statement in file.find(kind):
            if not isinstance(statement.names, cst.ImportStar):
                modules |= {one.evaluated_alias or module for one in statement.names if get_name(one.name) == module}
    return any(get_name(one.value) in modules and one.attr.value == name for one in file.find(cst.Attribute))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Written:
    """An argument of a kernel call that the kernel overwrites."""

    argument: cst.Arg
    number: int
    """Position of this argument among the operands of the custom call, counted from 0."""
    parameter: str
    """Name of the kernel's parameter; empty if unknown."""

    @property
    def name(self) -> str:
        """Returns the name of the variable that is passed. Empty if the argument is another kind of expression."""
        value = self.argument.value
        return value.value if isinstance(value, cst.Name) else ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallSite:
    """A kernel call in the source that does not declare some of the operands that its kernel overwrites."""

    file: SourceFile
    call: cst.Call
    """The call that gets the operands: for `pallas_call(...)(operands)`, the outer call."""
    statement: cst.SimpleStatementLine
    kernel: str
    """Name of the kernel's function."""
    kernel_file: SourceFile
    """The file that defines the kernel; `file` if it is not found."""
    kernel_function: cst.FunctionDef | None
    written: tuple[Written, ...]
    outputs: int
    """Number of outputs of the custom call."""
    forwarding: Forwarding | None = None
    """The function that passes its arguments on to `triton_call`, if the source calls such a function; None for a call of
    `triton_call` itself.
    """

    @property
    def options(self) -> cst.Call:
        """Returns the call with the kernel's keywords. In `pallas_call(...)(operands)` this is the inner call."""
        return self.call.func if isinstance(self.call.func, cst.Call) else self.call

    @property
    def is_unpacked(self) -> bool:
        """Returns whether the operands are unpacked from a sequence, as in `call(*operands)`.

        If so, `written` has the whole sequence.
        """
        return any(one.star == "*" for one in self.call.args)

    def require_arguments(self) -> None:
        """Raises CannotFixError if the operands are unpacked from a sequence, as in `call(*operands)`.

        The source then does not show the single arguments.
        """
        if self.is_unpacked:
            raise CannotFixError(
                f"the source does not show the arguments that `*` unpacks{self.file.render_place(self.call)}"
            )

    @property
    def is_pallas(self) -> bool:
        return self.options is not self.call

    def find_keyword(self, *names: str) -> cst.Arg | None:
        """Returns the first keyword argument that has one of these names, or None if there is none."""
        found = (one for one in self.options.args if one.keyword is not None and one.keyword.value in names)
        return next(found, None)

    @property
    def callee(self) -> str:
        """Returns the name of the called function. It is `triton_call` for a call of Pallas, too."""
        if self.forwarding is not None:
            return self.forwarding.name
        return TRITON_CALL if self.is_pallas else get_name(self.call.func)

    def list_operands(self, call: cst.Call | None = None) -> list[cst.Arg]:
        """Returns the operands that are passed by position.

        call: the call whose operands are wanted, by default the call of this site.
        """
        given = [one for one in (call or self.call).args if one.keyword is None and one.star != "**"]
        return given if self.forwarding is None else given[self.forwarding.skipped :]

    def find_outputs_argument(self, call: cst.Call | None = None) -> int | None:
        """Returns the index, among the arguments of `call`, of the argument that declares the outputs.

        None if there is no such argument. call: the call `options`, or a changed copy of it.
        """
        args = (call or self.options).args
        names = OUTPUT_KEYWORDS
        if self.forwarding is not None and self.forwarding.outputs:
            place = self.forwarding.outputs_place
            names = (self.forwarding.outputs,)
            if place is not None and place < len(args) and args[place].keyword is None:
                return place
        found = (n for n, one in enumerate(args) if one.keyword is not None and one.keyword.value in names)
        return next(found, None)

    def compute_position(self, written: Written) -> int | None:
        """Returns the position of an overwritten argument among the operands, or None if it is passed by keyword."""
        given = self.list_operands()
        return next((number for number, one in enumerate(given) if one is written.argument), None)


def find_call_site(project: Project, place: CallPlace, *, needs_writes: bool = True) -> CallSite:
    """Returns the kernel call in the source that a finding names.

    needs_writes: whether to find the overwritten arguments as well. Raises CannotFixError with the reason if the call is
    not found, cannot be changed, or declares its writes already.
    """
    if place.line is None or place.line.line < 1:
        raise CannotFixError("the line of the call is unknown")
    file = project.load(place.line.file)
    call = _find_call(file, place.line.line)
    kernel_file, function = _find_kernel(project, file, place)
    site = CallSite(
        file=file,
        call=call,
        statement=file.find_statement(call),
        kernel=place.kernel,
        kernel_file=kernel_file,
        kernel_function=function,
        written=(),
        outputs=place.outputs,
    )
    if site.is_unpacked and place.callers:
        site = _find_forwarded(project, site, place.callers[0]) or site
    return replace(site, written=_find_written(site, place)) if needs_writes else site


def _find_forwarded(project: Project, site: CallSite, caller: SourceLine) -> CallSite | None:
    """Returns the call of the function around the site, if that only hands its arguments on. caller: its line."""
    forwarding = find_forwarding(site.file, site.call, OUTPUT_KEYWORDS)
    if forwarding is None:
        return None
    file = project.load(caller.file)
    found = [
        one
        for one in file.find(cst.Call)
        if get_name(one.func) == forwarding.name and file.get_lines(one)[0] <= caller.line <= file.get_lines(one)[1]
    ]
    if len(found) != 1 or any(one.star == "*" for one in found[0].args):
        return None
    return replace(site, file=file, call=found[0], statement=file.find_statement(found[0]), forwarding=forwarding)


def list_call_names(file: SourceFile) -> set[str]:
    """Returns the names by which a file calls `triton_call`.

    Examples are `triton_call` itself, and `call` after `from jax_triton import triton_call as call` or after `call =
    partial(jt.triton_call, grid=(8,))`.
    """
    names = {TRITON_CALL}
    for statement in file.find(cst.ImportFrom):
        if not isinstance(statement.names, cst.ImportStar):
            names |= {
                one.evaluated_alias or TRITON_CALL for one in statement.names if one.evaluated_name == TRITON_CALL
            }
    for one in file.find(cst.Assign):
        value = one.value
        if isinstance(value, cst.Call) and get_name(value.func) == "partial":
            given = [argument for argument in value.args if argument.keyword is None]
            value = given[0].value if len(given) == 1 else value
        if get_name(value) in names:
            names |= {get_name(target.target) for target in one.targets} - {""}
    return names


def _find_call(file: SourceFile, line: int) -> cst.Call:
    """Returns the innermost call of a kernel around the line."""
    found: list[cst.Call] = []
    names = list_call_names(file)
    for call in file.find(cst.Call):
        inner = get_name(call.func.func) if isinstance(call.func, cst.Call) else ""
        if get_name(call.func) not in names and inner != PALLAS_CALL:
            continue
        first, last = file.get_lines(call)
        if first <= line <= last:
            found.append(call)
    if not found:
        where = f"{compute_near(str(file.path))}:{line}"
        raise CannotFixError(
            f"no `{TRITON_CALL}` or `{PALLAS_CALL}(...)(...)` is written out at {where}: change the call there"
        )
    latest = max(file.get_lines(one)[0] for one in found)
    innermost = [one for one in found if file.get_lines(one)[0] == latest]
    if len(innermost) > 1:
        raise CannotFixError(f"several kernels are called in one line{file.render_place(innermost[0])}")
    return innermost[0]


def _find_kernel(project: Project, file: SourceFile, place: CallPlace) -> tuple[SourceFile, cst.FunctionDef | None]:
    """Returns the file and the `def` of the kernel; the calling file and None if it is not found."""
    names = dict.fromkeys(line.file for line in place.stores)
    files = [file]
    for name in names:
        if os.path.realpath(name) != str(file.path):
            try:
                files.append(project.load(name))
            except CannotFixError:
                continue
    for one in files:
        found = [function for function in one.find(cst.FunctionDef) if function.name.value == place.kernel]
        if len(found) == 1:
            return one, found[0]
    return file, None


def list_parameters(function: cst.FunctionDef | None) -> list[str]:
    """Returns the names of a kernel's parameters, in order. Empty if the kernel is None."""
    if function is None:
        return []
    return [one.name.value for one in (*function.params.posonly_params, *function.params.params)]


def _find_written(site: CallSite, place: CallPlace) -> tuple[Written, ...]:
    """Returns the overwritten arguments. The number of an operand is its position only if every argument is an array."""
    if site.is_unpacked:
        return tuple(Written(argument=one, number=0, parameter="") for one in site.call.args if one.star == "*")
    by_name = {one.keyword.value: one for one in site.call.args if one.keyword is not None}
    given = site.list_operands()
    parameters = list_parameters(site.kernel_function)
    found: list[Written] = []
    for number, name in zip(place.written, place.parameters or ("",) * len(place.written), strict=True):
        if name and name in by_name:
            argument = by_name[name]
        elif name in parameters and parameters.index(name) < len(given):
            argument = given[parameters.index(name)]
        elif len(given) == place.operands and number < len(given):
            argument = given[number]
        else:
            raise CannotFixError(
                f"operand {number} is not found among the arguments{site.file.render_place(site.call)}"
            )
        found.append(Written(argument=argument, number=number, parameter=name))
    if not found:
        raise CannotFixError(f"it is unknown what `{place.kernel}` overwrites{site.file.render_place(site.call)}")
    return tuple(found)
