"""Reads the grid of a sweep from a TOML file, and makes the tasks of the sweep, each with a key.

    selectors = ["cases/saved_residual.py"]    as for `ligerdiag check`, from the grid's folder; default: all cases
    targets = ["a100", "h100"]                 default: h100
    toolchains = ["default", "seed"]           default: default
    replay = true                              whether each schedule is replayed on concrete inputs
    timeout = 300.0                            seconds to compile a case, and again to replay it
    pages = true                               whether each cell of the matrix has a page of its own

    [flags]                                    named sets of XLA's flags; default: one set, `none`, without any
    none = []
    no-remat = ["--xla_disable_hlo_passes=rematerialization"]

    [sizes]                                    named sets of sizes; default: one set, `default`, without any
    small = {}
    large = { tokens = 8192 }                  what `ligerdiag.size("tokens", 512)` returns in the files of cases

A task is one case for one target, by one toolchain, with one set of flags and one of sizes. Its key is the sha256 of
everything that decides its result and is known before it runs: ligerdiag's source, the project's `[tool.ligerdiag]`,
the files that the import of the case reads, the case's id, the description of the target, the versions of the
toolchain, the flags, the sizes that the case's file asks for, the variables that XLA and JAX read, and the options of
the check. The names of the sets are not part of the key. The files that a case imports only while it is traced are
known afterwards: a result names them, too, and is valid as long as they do not change (`result_store`). The cases are
found once for each set of sizes, on which they may depend.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache as remember
from hashlib import sha256
from pathlib import Path

from ligerdiag.artifacts.cache import Cache, hold_key
from ligerdiag.artifacts.dependencies import move_path
from ligerdiag.codec import FieldError, Json, as_int, encode_record, read_bool, read_float, read_object, read_strs
from ligerdiag.compile.compile_service import compute_sources_sha256, discover_cases, find_import_dependencies
from ligerdiag.config import load_config, require_known
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.model.case import SIZES, read_sizes
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.model.report import Progress
from ligerdiag.toolchains.gpu_targets import AUTO, load_target
from ligerdiag.toolchains.toolchain import compute_important_environment, current_toolchain
from ligerdiag.toolchains.toolchain_table import DEFAULT, find_spec
from ligerdiag.workers.pool import Pool

FORMAT = 3
"""Version of the file format of stored results, which is part of each key."""
MAXIMUM_BYTES = 1 << 20
_KEYS = ("selectors", "targets", "toolchains", "replay", "timeout", "pages", "flags", "sizes")
_FLAG = re.compile(r"--xla_\w+(=\S+)?")
_NO_FLAGS: Mapping[str, tuple[str, ...]] = {"none": ()}
_NO_SIZES: Mapping[str, Mapping[str, int]] = {DEFAULT: {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepGrid:
    """The settings in the grid file of a sweep."""

    folder: Path
    """Absolute path of the folder in which the tasks run."""
    selectors: tuple[str, ...] = ()
    targets: tuple[str, ...] = ("h100",)
    toolchains: tuple[str, ...] = (DEFAULT,)
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict(_NO_FLAGS))
    """Maps the name of each set of flags to the flags, written as in XLA_FLAGS."""
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: dict(_NO_SIZES))
    """Maps the name of each set of sizes to the sizes."""
    replay: bool = True
    timeout: float = 300.0
    """Seconds that a case may take to compile, and again to be replayed."""
    pages: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SweepColumn:
    """One way to compile a case: target, toolchain, flags and sizes, by their names in the grid."""

    toolchain: str
    target: str
    flags: str
    sizes: str = DEFAULT

    @property
    def name(self) -> str:
        """Returns the column's name, such as `default h100 none`: toolchain, target, flags, and sizes unless they are the
        default.
        """
        names = (self.toolchain, self.target, self.flags, *([] if self.sizes == DEFAULT else [self.sizes]))
        return " ".join(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTask:
    """One case to be checked in one column of the grid, with everything that a worker needs, as plain data."""

    key: str
    case_id: str
    source: Source
    folder: str
    target: str
    """Name of a target, or absolute path of a target description."""
    toolchain: str
    environment: Mapping[str, str]
    """The environment variables that can change a compile, including those for flags and sizes; no others are set."""
    dependencies: Mapping[str, str]
    """Maps the path of each file that the case imports, relative to the source's root, to the file's sha256. A worker with
    other files must not answer.
    """
    fingerprint: str
    """sha256 of ligerdiag's sources and of the toolchain's versions on the client, the machine that plans the sweep."""
    replay: bool
    timeout: float
    pages: bool = False

    @property
    def selector(self) -> str:
        """Returns a selector of the case: `FILE::ID`, or `module:name`. The latter may select more cases than this one."""
        return f"{self.source.file}::{self.case_id}" if self.source.file else self.source.module


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """The tasks of a sweep, one for each cell of the matrix. Cells that differ only in names share a task."""

    columns: tuple[SweepColumn, ...]
    cases: tuple[CaseSpec, ...]
    cells: Mapping[tuple[Source, str, SweepColumn], SweepTask]
    """The task of each cell, by source, case id and column, in the order of the matrix. A cell is missing if the file of
    cases, read with the column's sizes, does not define a case with this id.
    """
    broken: tuple[tuple[Source, LigerdiagError], ...]
    """Sources whose cases cannot be found, each with the reason."""


def load_grid(path: Path) -> SweepGrid:
    """Returns the settings in a grid file. Raises InputError if a key or value is wrong; the message names the file and
    the key.
    """
    try:
        if path.stat().st_size > MAXIMUM_BYTES:
            raise InputError(f"`{path}` is too large for a grid (more than {MAXIMUM_BYTES} bytes)")
        fields: Json = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the grid `{path}`: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"the grid `{path}` is not TOML: {error}") from error
    try:
        require_known(fields, _KEYS, "the grid")
        return _parse_grid(fields, path.absolute().parent)
    except (InputError, FieldError) as error:
        raise InputError(f"`{path}`: {error}") from None


def _parse_grid(fields: Json, folder: Path) -> SweepGrid:
    usual = SweepGrid(folder=folder)
    targets = _read_names(fields, "targets", usual.targets)
    flags: Json = read_object(fields, "flags") if "flags" in fields else {}
    sets: Mapping[str, tuple[str, ...]] = {name: read_strs(flags, name) for name in flags} or _NO_FLAGS
    for one in (flag for chosen in sets.values() for flag in chosen):
        if not _FLAG.fullmatch(one):
            raise InputError(f"expected a flag of XLA such as `--xla_name=value` in `flags` but got `{one:.80}`")
    timeout = read_float(fields, "timeout") if "timeout" in fields else usual.timeout
    if not timeout > 0:
        raise InputError(f"expected seconds above 0 for `timeout` but got {timeout}")
    named: Json = read_object(fields, "sizes") if "sizes" in fields else {}
    sizes = {name: _read_set(read_object(named, name), name) for name in named} or _NO_SIZES
    return SweepGrid(
        folder=folder,
        selectors=_read_names(fields, "selectors", ()),
        targets=tuple(str(folder / name) if (folder / name).is_file() else name for name in targets),
        toolchains=_read_names(fields, "toolchains", usual.toolchains),
        flags=sets,
        sizes=sizes,
        pages=read_bool(fields, "pages") if "pages" in fields else usual.pages,
        replay=read_bool(fields, "replay") if "replay" in fields else usual.replay,
        timeout=timeout,
    )


def _read_names(fields: Json, name: str, usual: tuple[str, ...]) -> tuple[str, ...]:
    if name not in fields:
        return usual
    names = tuple(dict.fromkeys(read_strs(fields, name)))
    if not names:
        raise InputError(
            f"expected at least one entry for `{name}` but got an empty list: leave `{name}` out for its default"
        )
    return names


def _read_set(fields: Json, name: str) -> dict[str, int]:
    sizes = {key: as_int(value, key) for key, value in fields.items()}
    wrong = next((key for key, value in sizes.items() if value < 1), None)
    if wrong is not None:
        raise InputError(f"expected a whole number above 0 for `{wrong}` of the sizes `{name}` but got {sizes[wrong]}")
    return sizes


def plan_sweep(grid: SweepGrid, cache: Cache, report_progress: Callable[[Progress], None]) -> SweepPlan:
    """Finds the cases of a sweep with the default toolchain, and returns its tasks.

    Raises InputError as `check` does, for example for a selector that matches nothing, or an unknown target or
    toolchain.
    """
    if AUTO in grid.targets:
        raise InputError(
            f"expected targets by name, because the machines of a sweep may have different GPUs, but got `{AUTO}`: write its"
            f" description to a file with `ligerdiag targets {AUTO}`, and name the file"
        )
    columns = tuple(
        SweepColumn(toolchain=toolchain, target=load_target(target).name, flags=flags, sizes=sizes)
        for toolchain in grid.toolchains
        for target in grid.targets
        for flags in grid.flags
        for sizes in grid.sizes
    )
    if len(set(columns)) < len(columns):
        raise InputError(f"two targets of the sweep have the same name: {', '.join(grid.targets)}")
    fingerprints = {name: compute_fingerprint(name) for name in grid.toolchains}
    settings = compute_settings_sha256(grid.folder)
    broken: dict[Source, LigerdiagError] = {}
    found = {name: _find_cases(grid, sizes, cache, report_progress, broken) for name, sizes in grid.sizes.items()}
    cases = {place: case for one in found.values() for place, case in one.cases.items()}
    paths = {load_target(target).name: target for target in grid.targets}
    cells = {
        (source, case_id, column): _make_task(
            grid,
            case,
            column,
            target=paths[column.target],
            environment=make_environment(grid.flags[column.flags], grid.sizes[column.sizes], case.sizes),
            dependencies=found[column.sizes].dependencies[source],
            fingerprint=fingerprints[column.toolchain],
            settings=settings,
        )
        for source, case_id in cases
        for column in columns
        if (case := found[column.sizes].cases.get((source, case_id))) is not None
    }
    return SweepPlan(columns=columns, cases=tuple(cases.values()), cells=cells, broken=tuple(broken.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoundCases:
    """The cases with one set of sizes, and the files that their imports read."""

    cases: Mapping[tuple[Source, str], CaseSpec]
    dependencies: Mapping[Source, Mapping[str, str]]


def _find_cases(
    grid: SweepGrid,
    sizes: Mapping[str, int],
    cache: Cache,
    report_progress: Callable[[Progress], None],
    broken: dict[Source, LigerdiagError],
) -> _FoundCases:
    with _ask_for(sizes), hold_key(cache.artifacts, "cases"), Pool(cache=cache) as pool:
        cases = discover_cases(
            grid.selectors,
            pool=pool,
            directory=grid.folder,
            report_progress=report_progress,
            on_broken=lambda source, error: broken.update({source: error}),
        )
        cache.forget_hashes()
        dependencies = {
            source: find_import_dependencies(cache, pool.toolchain, source)
            for source in dict.fromkeys(case.source for case in cases)
        }
    unknown = next((source for source, files in dependencies.items() if not files), None)
    if unknown is not None:
        raise InputError(
            f"the imports of `{unknown}` are unknown, and a sweep needs them to find its stored results again: name a file"
            f" of your own project, and make the cache at `{cache.root}` writable"
        )
    return _FoundCases(cases={(case.source, case.id): case for case in cases}, dependencies=dependencies)


@contextmanager
def _ask_for(sizes: Mapping[str, int]) -> Generator[None]:
    """Adds the sizes, inside its block, to the environment variable that `ligerdiag.size` reads."""
    before = os.environ.get(SIZES)
    if sizes:
        os.environ[SIZES] = _write_sizes({**read_sizes(), **sizes})
    try:
        yield
    finally:
        if sizes:
            os.environ.pop(SIZES)
        if before is not None:
            os.environ[SIZES] = before


def _write_sizes(sizes: Mapping[str, int]) -> str:
    return json.dumps(dict(sorted(sizes.items())))


def make_environment(
    flags: Sequence[str], sizes: Mapping[str, int] = _NO_SIZES[DEFAULT], asked: Sequence[str] = ()
) -> dict[str, str]:
    """Returns the environment variables of a task. They are those of this process that can change a compile, and those
    for the task's flags and sizes.

    flags: appended to XLA_FLAGS. asked: names of the sizes that the case's file reads; all other sizes are left out.
    """
    ours = compute_important_environment()
    joined = " ".join((*ours.pop("XLA_FLAGS", "").split(), *flags))
    ours.pop(SIZES, None)
    wanted = {name: value for name, value in {**read_sizes(), **sizes}.items() if name in asked}
    return ours | ({"XLA_FLAGS": joined} if joined else {}) | ({SIZES: _write_sizes(wanted)} if wanted else {})


def compute_settings_sha256(folder: Path) -> str:
    """Returns the sha256 of the project's configuration, and of the files that it names if they can change a result."""
    config = load_config(None, folder)
    parts = [json.dumps(encode_record(config)).encode()]
    for path in (config.baseline, config.autotune_results):
        if path is not None and path.is_file():
            parts.append(path.read_bytes())
    return sha256(b"\n".join(parts)).hexdigest()


@remember
def describe_versions(toolchain: str) -> str:
    """Returns the versions and options of a toolchain as text, also if its environment does not exist yet. Raises InputError
    if the toolchain is unknown.
    """
    if toolchain == DEFAULT:
        return json.dumps(sorted(current_toolchain().versions.items()))
    spec = find_spec(toolchain)
    options = sorted(spec.options.items())
    return json.dumps([spec.python, sorted(spec.packages.items()), options])


def compute_fingerprint(toolchain: str) -> str:
    """Returns the sha256 of ligerdiag's sources, and of the toolchain's versions on this machine."""
    return sha256(f"{_compute_own_sha256()}\n{describe_versions(toolchain)}".encode()).hexdigest()


@remember
def _compute_own_sha256() -> str:
    return compute_sources_sha256((".",))


def _make_task(
    grid: SweepGrid,
    case: CaseSpec,
    column: SweepColumn,
    *,
    target: str,
    environment: Mapping[str, str],
    dependencies: Mapping[str, str],
    fingerprint: str,
    settings: str,
) -> SweepTask:
    named = name_files(case.source, dependencies)
    parts = (
        FORMAT,
        fingerprint,
        settings,
        column.toolchain,
        sorted(named.items()),
        case.source.module or os.path.relpath(case.source.file, case.source.root),
        case.id,
        case.draws,
        column.target,
        load_target(target).sha256,
        sorted(environment.items()),
        grid.replay,
        grid.timeout,
        grid.pages,
    )
    return SweepTask(
        key=sha256(json.dumps(parts).encode()).hexdigest(),
        case_id=case.id,
        source=case.source,
        folder=str(grid.folder),
        target=target,
        toolchain=column.toolchain,
        environment=environment,
        dependencies=named,
        fingerprint=fingerprint,
        replay=grid.replay,
        timeout=grid.timeout,
        pages=grid.pages,
    )


def describe_task(task: SweepTask) -> dict[str, str]:
    """Returns a description of a task, which becomes part of its stored result. Equal tasks in two clones of a project have
    equal descriptions.
    """
    module = task.source.module or os.path.relpath(task.source.file, task.source.root)
    return {
        "case": task.case_id,
        "source": module,
        "target": os.path.basename(task.target),
        "toolchain": task.toolchain,
        "environment": json.dumps(sorted(task.environment.items())),
        "fingerprint": task.fingerprint,
        "replay": json.dumps(task.replay),
    }


def name_files(source: Source, dependencies: Mapping[str, str]) -> dict[str, str]:
    """Returns the dependencies with paths relative to the project's folder. So two clones of a project give the same
    keys.
    """
    return {
        move_path(name, lambda path: os.path.relpath(path, source.root)): digest
        for name, digest in dependencies.items()
    }


def locate_files(source: Source, dependencies: Mapping[str, str]) -> dict[str, str]:
    """Returns the dependencies with absolute paths on this machine. The given paths are relative to the project's folder."""
    return {
        move_path(name, lambda path: os.path.normpath(os.path.join(source.root, path))): digest
        for name, digest in dependencies.items()
    }
