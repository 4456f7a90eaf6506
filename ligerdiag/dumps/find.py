"""Finds the compilations under a path: groups files by module, from the names that XLA gives its dump files.

The names (xla/service/dump.cc, FilenameFor):

    [timestamp.]module_0003[.jit_step][.cl_123].before_optimizations.hlo.pb
    [timestamp.]module_0003[.jit_step].sm_9.0a_gpu_after_optimizations[-buffer-assignment].txt
    module_0003.jit_step.thunk_sequence[_after_thunk_passes].txt
    [timestamp.]module_0003.jit_step.0042.fusion.after_x.before_y.hlo.pb.gz
    [timestamp.]module_0003.jit_step.execution_0000.hlo[_unoptimized]_snapshot.pb
    module_0003.jit_step.snapshot.-1044628018.pb

The module's name may contain dots and is omitted if the file's name would be longer than 255 characters. The target is
`sm_8.0`, `sm_9.0a`, `gfx90a` on GPUs, otherwise `cpu` or `tpu`; older versions omit it. Some files have no timestamp
although other files of the same module have one, such as the snapshots of a run (the last two lines). Such a file belongs
to the only module whose name fits.

- A directory is searched recursively; symbolic links out of it are not followed.
- Runs on different GPUs may have written into one folder: each target of a module is a module of its own.
- The module after optimizations is read from its protobuf, which has the buffer assignment; if there is none, from its
  text. Its other files are alternatives, in case the first one is truncated.
- A file that the user names is read whatever its name. If its name is one of XLA's, the other files of its module are
  found beside it.
- Modules without custom calls contain no kernel: they are counted, not read (`load`).
- A text with any other name may contain several modules, one after another: each is inspected, as `name#1`. The caller
  decides who counts them, because counting unpacks and reads the whole file.
- Of several such files that are hard links to one file, only the first is inspected.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from ligerdiag.dumps.content import read_content, split_modules
from ligerdiag.errors import ArtifactError, InputError
from ligerdiag.untrusted_files import (
    MAXIMUM_COUNTED_BYTES,
    MAXIMUM_FOLDER_DEPTH,
    MAXIMUM_FOLDER_FILES,
    MAXIMUM_MODULES_IN_TEXTS,
    MAXIMUM_UNCOUNTED,
    count_stored_bytes,
)


class Role(StrEnum):
    """The content of a file in a dump, for example the module after optimizations with its schedule."""

    PROGRAM = "program"
    """The module before optimizations."""
    OPTIMIZED = "optimized"
    """The module after optimizations, with its schedule."""
    BUFFERS = "buffers"
    """The buffer assignment as text."""
    SNAPSHOT = "snapshot"
    """The module between two passes."""
    ARGUMENTS = "arguments"
    """The arguments of one run."""
    OTHER = "other"
    """A file of a module that ligerdiag does not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpName:
    """The parts of the name of one of XLA's dump files."""

    stamp: str
    """The timestamp in microseconds since the epoch; empty if the name has none."""
    number: str
    """The module's number, such as `module_0003`."""
    module: str
    """The module's name, such as `jit_step`; empty if the file's name omits it."""
    role: Role
    target: str = ""
    """The target, such as `sm_9.0a`; empty if the name omits it."""
    is_proto: bool = False
    """Whether the name's ending is that of a protobuf."""


_HEAD = re.compile(r"(?:(?P<stamp>\d+)\.)?(?P<number>module_\d+)\.(?P<rest>.+)", re.DOTALL)
_FORM = re.compile(r"(?P<stem>.+?)\.(?P<form>hlo\.pb|pb|txt|hlo)(?:\.gz)?")
_SNAPSHOT = re.compile(r"(?:(?P<module>.*?)\.)?\d{4}\..+\.(?:after|before)_.*", re.DOTALL)
"""Matches the name of a snapshot, in which a pipeline's name precedes the passes; without that, digits belong to the
module's name: `IrToHlo.3979.before_optimizations`.
"""
_ARGUMENTS = re.compile(
    r"(?:(?P<module>.*)\.)?(?:execution_\d+\.hlo_(?:unoptimized_)?snapshot|snapshot\.-?\d+)", re.DOTALL
)
_AFTER = re.compile(
    r"(?:(?P<module>.*?)\.)??(?:(?P<target>sm_\d+\.\d+\w*|[^.]+?)_)?after_optimizations(?P<tail>-[\w-]+)?", re.DOTALL
)
_BEFORE = re.compile(r"(?:(?P<module>.*)\.)?before_optimizations", re.DOTALL)


def parse_dump_name(name: str) -> DumpName | None:
    """Parses the name of one file, without its directory. Returns None if XLA gives no file such a name."""
    head = _HEAD.fullmatch(name)
    if head is None:
        return None
    stamp, number = head["stamp"] or "", head["number"]
    form = _FORM.fullmatch(head["rest"])
    if form is None:
        return DumpName(stamp=stamp, number=number, module="", role=Role.OTHER)
    stem, is_proto = form["stem"], form["form"] in ("hlo.pb", "pb")

    def make(role: Role, module: str | None, target: str | None = None) -> DumpName:
        return DumpName(
            stamp=stamp, number=number, module=module or "", role=role, target=target or "", is_proto=is_proto
        )

    run = _ARGUMENTS.fullmatch(stem)
    if run is not None and is_proto:
        return make(Role.ARGUMENTS, run["module"])
    before = _BEFORE.fullmatch(stem)
    if before is not None and not _SNAPSHOT.fullmatch(stem):
        return make(Role.PROGRAM, before["module"])
    after = _AFTER.fullmatch(stem)
    if after is not None and not _SNAPSHOT.fullmatch(stem):
        role = _AFTER_ROLES.get(after["tail"] or "", Role.OTHER)
        target = (after["target"] or "").removesuffix("_gpu")
        return make(Role.OTHER if role is Role.BUFFERS and is_proto else role, after["module"], target)
    if _SNAPSHOT.fullmatch(stem):
        return make(Role.SNAPSHOT, "")
    return make(Role.OTHER, "")


_AFTER_ROLES = {"": Role.OPTIMIZED, "-buffer-assignment": Role.BUFFERS}


ARTIFACT_MANIFEST = "manifest.json"
ARTIFACT_MODULE = "optimized.hlo.pb"
_ENDINGS = (".hlo.pb", ".hlo.pb.gz", ".hlo", ".hlo.gz")
"""Endings of the files in a directory that count as modules, whatever the rest of the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFiles:
    """The files of one compilation. Several files may have the same content, for example the optimized module as a
    protobuf and as text. Such files are in the order in which ligerdiag tries them.
    """

    id: str
    """Id of the module, such as `host0/module_0003.jit_step`. For a file that does not have a name as XLA gives it, this is
    the file's name.
    """
    target: str
    """The target in the names of the files, such as `sm_9.0a`; empty if the names do not give it."""
    optimized: tuple[Path, ...]
    """The files with the module after optimizations; never empty."""
    program: tuple[Path, ...] = ()
    buffers: tuple[Path, ...] = ()
    arguments: tuple[Path, ...] = ()
    """Files with arguments, one file for each run of the program. In the order of the runs if the files' names give it."""
    part: int = 0
    """Number of the module in a file with several modules, from 1; 0 for a file with one module."""
    is_guess: bool = False
    """Whether only the ending of the file's name suggests a module, so that the file may not hold an optimized module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """The modules and artifacts found under a path, and the numbers of those left out."""

    modules: tuple[ModuleFiles, ...] = ()
    artifacts: tuple[Path, ...] = ()
    """Artifact directories that ligerdiag wrote."""
    unscheduled: int = 0
    """Number of modules without a file from after the optimizations. Such modules have no schedule."""
    snapshots: int = 0
    """Number of snapshots between two passes, which are not read."""
    links: int = 0
    """Number of symbolic links that were not followed."""
    deep: int = 0
    """Number of folders that were too deep to be searched."""
    same: int = 0
    """Number of files that were left out because they are hard links to other files."""


def count_modules(path: Path) -> int:
    """Counts the modules in a file by reading all of it. Raises ArtifactError if the file cannot be read."""
    return len(split_modules(read_content(path)))


@dataclass(slots=True, eq=False)
class ModuleCounter:
    """Counts the modules in each file, within limits for all files together. A file that cannot be counted counts as
    one module.
    """

    count: Callable[[Path], int | None]
    """Returns the number of modules in one file; None if that took more than its budget."""
    unsplit: int = 0
    """Number of files that were not counted, because the limits for all files together were reached."""
    _bytes: int = 0
    _modules: int = 0
    _failures: int = 0
    _known: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])

    def find(self, path: Path) -> int:
        """Returns the number of modules in the file. Returns 1 if they cannot be counted."""
        key = _identify(path)
        if key is not None and key in self._known:
            return self._known[key]
        self._bytes += count_stored_bytes((path,))
        if self._failures >= MAXIMUM_UNCOUNTED or self._bytes > MAXIMUM_COUNTED_BYTES:
            self.unsplit += 1
            return 1
        number = self.count(path)
        self._failures += number is None
        number = number or 1
        if number > 1 and self._modules + number > MAXIMUM_MODULES_IN_TEXTS:
            self.unsplit += 1
            number = 1
        self._modules += number if number > 1 else 0
        if key is not None:
            self._known[key] = number
        return number


def count_here(path: Path) -> int | None:
    """Counts the modules in a file in this process, without limits on time and memory. This suits the user's own files.
    Returns None if the file cannot be read.
    """
    try:
        return count_modules(path)
    except (ArtifactError, OSError):
        return 1


def _identify(path: Path) -> tuple[int, int] | None:
    """Returns the file's device and inode; None if they are unavailable."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@dataclass(slots=True)
class _Group:
    """The files found so far of one module."""

    name: str = ""
    target: str = ""
    files: list[tuple[DumpName, Path]] = field(default_factory=list["tuple[DumpName, Path]"])

    def add(self, parsed: DumpName, path: Path) -> None:
        self.name = self.name or parsed.module
        if parsed.role is Role.OPTIMIZED:
            self.target = self.target or parsed.target
        self.files.append((parsed, path))

    def list_files(self, role: Role) -> tuple[Path, ...]:
        return tuple(
            path for _, path in sorted((not one.is_proto, path) for one, path in self.files if one.role is role)
        )

    def split_by_target(self) -> tuple["_Group", ...]:
        """Returns one group for each target for which the module was compiled, in the order of their names. A file whose
        name gives no target belongs to each.
        """
        targets = sorted({one.target for one, _ in self.files if one.role is Role.OPTIMIZED and one.target})
        if len(targets) < 2:
            return (self,)
        return tuple(
            _Group(
                name=self.name,
                target=target,
                files=[(one, path) for one, path in self.files if one.target in ("", target)],
            )
            for target in targets
        )


type _Key = tuple[Path, str, str]
"""Identifies a module in a dump: directory, timestamp and number."""


def find_modules(path: Path, counter: ModuleCounter | None = None) -> Dump:
    """Returns the modules under the path. Raises InputError if the path does not exist or is neither a file nor a
    directory.

    counter: counts the modules of a text that may contain several; by default, in this process.
    """
    counter = counter or ModuleCounter(count_here)
    try:
        if path.is_dir():
            return _find_in_directory(path, counter)
        if path.is_file():
            return _find_beside(path, counter)
        if not path.exists():
            raise InputError(f"no file or directory `{path}`")
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror or error}") from error
    raise InputError(f"expected a file or a directory, but `{path}` is neither")


def _find_in_directory(root: Path, counter: ModuleCounter) -> Dump:
    if (root / ARTIFACT_MANIFEST).is_file() and (root / ARTIFACT_MODULE).exists():
        return Dump(artifacts=(root,))
    artifacts: list[Path] = []
    named: list[tuple[Path, DumpName]] = []
    others: list[Path] = []
    links = deep = 0
    for directory, names, cut in _walk(root):
        if directory != root and ARTIFACT_MANIFEST in names and ARTIFACT_MODULE in names:
            artifacts.append(directory)
            continue
        links += cut.links
        deep += cut.deep
        for name in names:
            path = directory / name
            if path.is_symlink() and not _is_inside(path, root):
                links += 1
                continue
            parsed = parse_dump_name(name)
            if parsed is not None:
                named.append((path, parsed))
            elif name.endswith(_ENDINGS):
                others.append(path)
    groups = _group(named)
    modules = [_make_module(key, group, root) for key, group in groups if group.list_files(Role.OPTIMIZED)]
    seen: set[tuple[int, int]] = set()
    same = 0
    for path in others:
        key = _identify(path)
        if key is not None and key in seen:
            same += 1
            continue
        seen.update(() if key is None else (key,))
        modules += _list_in_file(path, path.relative_to(root).as_posix(), counter, is_guess=True)
    return Dump(
        modules=tuple(modules),
        artifacts=tuple(artifacts),
        unscheduled=sum(_is_unscheduled(group) for _, group in groups),
        snapshots=sum(parsed.role is Role.SNAPSHOT for _, parsed in named),
        links=links,
        deep=deep,
        same=same,
    )


def _find_beside(path: Path, counter: ModuleCounter) -> Dump:
    """Returns the module to which a file belongs, with this file first; a file from before the optimizations belongs to the
    module of each target.
    """
    parsed = parse_dump_name(path.name)
    if parsed is None or parsed.role in (Role.SNAPSHOT, Role.OTHER, Role.BUFFERS, Role.ARGUMENTS):
        return Dump(modules=_list_in_file(path, path.name, counter))
    siblings = [
        (sibling, other)
        for sibling in sorted(path.parent.iterdir())
        if sibling.is_file()
        and (other := parse_dump_name(sibling.name)) is not None
        and other.number == parsed.number
        and (other.stamp == parsed.stamp or other.role is Role.ARGUMENTS)
        and (other.role is not parsed.role or sibling.name == path.name)
        and (not other.module or not parsed.module or other.module == parsed.module)
    ]
    modules = [
        _make_module(key, group, path.parent)
        for key, group in _group(siblings)
        if path in group.list_files(parsed.role) and group.list_files(Role.OPTIMIZED)
    ]
    if modules:
        return Dump(modules=tuple(modules))
    return Dump(modules=(ModuleFiles(id=path.name, target="", optimized=(path,)),))


def _list_in_file(path: Path, name: str, counter: ModuleCounter, *, is_guess: bool = False) -> tuple[ModuleFiles, ...]:
    """Returns the modules of a file whose name is not one of XLA's. An unreadable file counts as one module, and is
    reported later.
    """
    number = counter.find(path)
    whole = ModuleFiles(id=name, target="", optimized=(path,), is_guess=is_guess)
    if number == 1:
        return (whole,)
    return tuple([replace(whole, id=f"{name}#{part}", part=part) for part in range(1, number + 1)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """Counts the folders of a directory that are not searched."""

    links: int
    deep: int


def _walk(root: Path) -> Iterator[tuple[Path, list[str], _Cut]]:
    """Yields each directory with the names of its files and the counts of omitted subdirectories, in the order of
    names.
    """
    count = 0
    for directory, folders, names in os.walk(root, onerror=_raise):
        here = Path(directory)
        folders.sort()
        is_link = [(here / folder).is_symlink() for folder in folders]
        deep = 0
        if len(here.relative_to(root).parts) >= MAXIMUM_FOLDER_DEPTH:
            deep = len(folders) - sum(is_link)
            folders.clear()
        count += len(names)
        if count > MAXIMUM_FOLDER_FILES:
            raise InputError(
                f"`{root}` holds more than {MAXIMUM_FOLDER_FILES} files: name the folder that has the dump"
            )
        yield here, sorted(names), _Cut(links=sum(is_link), deep=deep)


def _raise(error: OSError) -> None:
    raise error


def _is_inside(path: Path, root: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False


def _group(named: Sequence[tuple[Path, DumpName]]) -> list[tuple[_Key, _Group]]:
    """Returns the files by module, in the order of directories, timestamps and numbers."""
    names: dict[_Key, set[str]] = {}
    for path, parsed in named:
        if parsed.role is not Role.ARGUMENTS:
            names.setdefault((path.parent, parsed.stamp, parsed.number), set()).add(parsed.module)
    groups: dict[tuple[_Key, str], _Group] = {}
    for path, parsed in named:
        if parsed.role in (Role.SNAPSHOT, Role.OTHER, Role.ARGUMENTS):
            continue
        key = (path.parent, parsed.stamp, parsed.number)
        known = names[key] - {""}
        module = next(iter(known)) if not parsed.module and len(known) == 1 else parsed.module
        groups.setdefault((key, module), _Group()).add(parsed, path)
    for path, parsed in named:
        if parsed.role is Role.ARGUMENTS:
            of = [group for (key, module), group in groups.items() if _may_be_of(path, parsed, key, module)]
            if len(of) == 1:
                of[0].add(parsed, path)
    ordered = sorted(((key, group) for (key, _), group in groups.items()), key=lambda entry: (*entry[0], entry[1].name))
    return [(key, one) for key, group in ordered for one in group.split_by_target()]


def _may_be_of(path: Path, run: DumpName, key: _Key, module: str) -> bool:
    """Returns whether a file with the arguments of a run may belong to the module with this key and name. run: the parts
    of the file's name.
    """
    directory, stamp, number = key
    is_same_stamp = not run.stamp or not stamp or run.stamp == stamp
    is_same_module = not run.module or not module or run.module == module
    return (path.parent, run.number) == (directory, number) and is_same_stamp and is_same_module


def _is_unscheduled(group: _Group) -> bool:
    return bool(group.list_files(Role.PROGRAM)) and not group.list_files(Role.OPTIMIZED)


def _make_module(key: _Key, group: _Group, root: Path) -> ModuleFiles:
    directory, stamp, number = key
    folder = directory.relative_to(root).as_posix()
    parts = [stamp, number, group.name]
    name = ".".join(part for part in parts if part)
    return ModuleFiles(
        id=name if folder == "." else f"{folder}/{name}",
        target=group.target,
        optimized=group.list_files(Role.OPTIMIZED),
        program=group.list_files(Role.PROGRAM),
        buffers=group.list_files(Role.BUFFERS),
        arguments=group.list_files(Role.ARGUMENTS),
    )
