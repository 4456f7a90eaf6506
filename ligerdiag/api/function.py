"""`ligerdiag.check`: sends a live function (one of the running program) to a worker, which treats it like a case file,
and returns the report.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypedDict, Unpack, cast, overload

from ligerdiag.api.checking import check as check_cases
from ligerdiag.api.jax_stages import check_compiled, is_compiled, is_lowered, take_lowered
from ligerdiag.api.judging import split_targets
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.cases.array_records import choose_mesh
from ligerdiag.compile.cases.cell_texts import write_cell_texts
from ligerdiag.compile.cases.device_queries import PLATFORMS_VARIABLE
from ligerdiag.compile.cases.exported_program import is_exported, take_exported
from ligerdiag.compile.cases.function_pickler import (
    ArgumentPickler,
    FunctionPickler,
    Pickled,
    list_pytree_classes,
    pickle_live,
    settle_class_names,
)
from ligerdiag.compile.cases.library_modules import list_passed
from ligerdiag.compile.cases.live_functions import (
    ProcessState,
    list_own_folders,
    list_unimportable,
    unwrap_jitted,
    write_function_file,
)
from ligerdiag.compile.cases.module_state.state_reader import read_state
from ligerdiag.compile.cases.module_state.state_records import render_state
from ligerdiag.compile.cases.shared_arrays import number_shared_arrays
from ligerdiag.config import Config, load_config
from ligerdiag.errors import InputError
from ligerdiag.model.case import Case
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.model.report import CaseReport, CheckReport, OnProgress
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.report.status import parse_expectation, parse_expected_rules
from ligerdiag.run_options import CheckOptions, InspectOptions
from ligerdiag.toolchains.toolchain import link_package

_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_softmax_custom_jvp",
)
"""Names of the settings of JAX that can change what a program computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFunction:
    """A function of the running program, with its arguments and the expectation about its outputs."""

    function: Callable[..., Any]
    specs: tuple[Any, ...]
    kwargs: Mapping[str, Any] | None = None
    mesh: Mapping[str, int] | Sequence[int] | None = None
    name: str = ""
    expected: str | Mapping[str, str] | None = None
    expected_rules: tuple[str, ...] | None = None
    effects: Mapping[str, Mapping[str, Sequence[int]]] | None = None
    reference: Callable[..., Any] | None = None
    keep_unused: bool = False


def write_live_function(live: LiveFunction, cache: Cache, root: Path) -> Source:
    """Pickles a function of the caller's process into a file below the cache, and returns the file as a source of cases.

    root: the folder from which a worker's imports start. Raises InputError if the function or an argument cannot be
    pickled.
    """
    name = live.name or name_function(live.function)
    if not callable(cast("object", live.function)):
        raise InputError(f"expected a function but got {live.function!r:.60} (type={type(live.function).__name__})")
    if not isinstance(cast("object", live.kwargs or {}), Mapping):
        raise InputError(f"expected kwargs to be a mapping of name to argument but got {live.kwargs!r:.60}")
    unwrapped = unwrap_jitted(live.function, live.specs, live.kwargs)
    unimportable = list_unimportable(str(root))
    shared = number_shared_arrays(list_passed(unwrapped.function, unwrapped.arguments))
    arguments, pickler = _pickle_arguments(unwrapped.arguments, name, unimportable, shared)
    case = Case(
        name=name,
        function=unwrapped.function,
        args=(),
        keep_unused=unwrapped.keeps_unused or bool(live.keep_unused),
        mesh=choose_mesh(live.mesh, pickler.meshes),
        explicit_axes=tuple(sorted(pickler.explicit)),
        expected=live.expected,
        expected_rules=live.expected_rules,
        effects=live.effects or {},
        reference=live.reference,
        made_at=None if shared else "",  # a line would only make the file of the function another one
    )
    pickled = pickle_live(case, unimportable)
    classes = (*arguments.classes, *pickled.classes)
    registered = pickle_live(list_pytree_classes(classes), unimportable)
    record, state_classes = read_state(
        (case.function, live.reference, unwrapped.arguments), frozenset(module.__name__ for module in unimportable)
    )
    offered = _offer_cloudpickle(cache)
    surroundings = ProcessState(
        python="{}.{}".format(*sys.version_info),
        path=(*(folder for folder in list_own_folders() if folder not in (str(root), offered)), offered),
        files=tuple(sorted(os.path.abspath(file) for file in arguments.files | pickled.files)),
        settings=_read_settings(),
        donated=tuple(sorted(unwrapped.donated)),
        platforms=_read_platforms(),
        folder="" if os.getcwd() == str(root) else os.getcwd(),
    )
    data = render_state(record) + arguments.data + pickled.data + registered.data
    path = write_function_file(cache.root, surroundings, settle_class_names(data, (*classes, *state_classes)))
    write_cell_texts(path, {**arguments.texts, **pickled.texts})
    return Source(module=_describe_place(live.function), root=str(root), pickled=str(path))


def name_function(function: Callable[..., Any]) -> str:
    """Returns the name of the function. For a `functools.partial`, returns the name of the function inside it."""
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    function = getattr(function, "__func__", function)
    name = str(getattr(function, "__name__", type(function).__name__))
    return name.strip("<>")


def _offer_cloudpickle(cache: Cache) -> str:
    """Returns a folder with the package cloudpickle alone, for workers of a toolchain that lacks it."""
    spec = find_spec("cloudpickle")
    assert spec is not None
    assert spec.origin is not None
    return str(link_package(Path(spec.origin).parent, cache.root))


def _describe_place(function: Any) -> str:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    kind = cast("type[Any]", type(function))
    qualname = getattr(function, "__qualname__", kind.__qualname__)
    return f"{getattr(function, '__module__', None) or kind.__module__}:{qualname}"


def _pickle_arguments(
    specs: tuple[Any, ...], name: str, unimportable: tuple[ModuleType, ...], shared: Mapping[int, int]
) -> tuple[Pickled, ArgumentPickler]:
    picklers: list[ArgumentPickler] = []

    def make(stream: Any, by_value: frozenset[str]) -> FunctionPickler:
        picklers.append(ArgumentPickler(stream, by_value, shared))
        return picklers[-1]

    try:
        pickled = pickle_live(specs, unimportable, make)
    except InputError as error:
        raise InputError(f"cannot use the arguments of `{name}`: {error}") from error
    return pickled, picklers[0]


def _read_settings() -> dict[str, object]:
    library: Any = sys.modules.get("jax")
    if library is None:
        return {}
    settings = {name: getattr(library.config, name, None) for name in _SETTINGS}
    return {name: value for name, value in settings.items() if isinstance(value, str | bool)}


def _read_platforms() -> str | None:
    config: Any = getattr(sys.modules.get("jax"), "config", None)
    value = os.environ.get(PLATFORMS_VARIABLE) if config is None else getattr(config, "jax_platforms", None)
    return value if isinstance(value, str) else None


class CaseKeywords(TypedDict, total=False):
    """The keywords of `ligerdiag.check` that are fields of `Case`, with the same names and meanings."""

    kwargs: Mapping[str, Any] | None
    mesh: Mapping[str, int] | Sequence[int] | None
    name: str
    expected: str | Mapping[str, str] | None
    expected_rules: tuple[str, ...] | None
    effects: Mapping[str, Mapping[str, Sequence[int]]] | None
    reference: Callable[..., Any] | None
    keep_unused: bool


class RunKeywords(TypedDict, total=False):
    """The keywords of `ligerdiag.check` that are fields of `CheckOptions`, with the same defaults.

    The keyword `full` is a field of `CheckOptions.bounds`.
    """

    toolchain: str
    replay: bool
    full: bool
    device: bool
    refresh: bool
    timeout: float


class CheckKeywords(CaseKeywords, RunKeywords, total=False):
    """All keywords of `ligerdiag.check` except `target`."""

    cache_directory: Path | str | None
    jobs: int | None
    config: Path | None
    on_progress: OnProgress | None


def make_live_function(function: Callable[..., Any], specs: tuple[Any, ...], words: Mapping[str, Any]) -> LiveFunction:
    """Returns a `LiveFunction`: the function of the caller's process, with its expectation and other properties.

    words: the keywords of `ligerdiag.check`. Those in `CaseKeywords` set the properties; the others are ignored.
    """
    return LiveFunction(function=function, specs=specs, **_choose(words, CaseKeywords))


def make_check_options(words: Mapping[str, Any], **others: Any) -> CheckOptions:
    """Returns the options of a run.

    words: the keywords of `ligerdiag.check`. Those in `RunKeywords` set options; the others are ignored.
    others: further fields of `CheckOptions`.
    """
    given = _choose(words, RunKeywords)
    bounds = Bounds(full=given.pop("full", False))
    return CheckOptions(bounds=bounds, **given, **others)


def _choose(words: Mapping[str, Any], kind: type) -> dict[str, Any]:
    return {name: words[name] for name in kind.__annotations__ if name in words}


@overload
def check(fn: Callable[..., Any], *specs: Any, target: str = "h100", **words: Unpack[CheckKeywords]) -> CaseReport: ...


@overload
def check(
    fn: Callable[..., Any], *specs: Any, target: tuple[str, ...] | list[str], **words: Unpack[CheckKeywords]
) -> tuple[CaseReport, ...]: ...


def check(
    fn: Callable[..., Any],
    *specs: Any,
    target: str | tuple[str, ...] | list[str] = "h100",
    **words: Unpack[CheckKeywords],
) -> CaseReport | tuple[CaseReport, ...]:
    """Checks whether the schedule that XLA makes of a function is right, and returns the report.

    Compiles the function in a process of its own, for a GPU that this machine need not have. Then judges the schedule,
    and replays it on the CPU, on numbers. Results are kept in a cache; a second call with the same arguments reads them
    there.

    fn: any function of arrays. This process does not call it. If `jax.jit` made it, its donated arguments, static
        arguments and `keep_unused` apply. A function that a worker can import is sent by name, any other (of
        `__main__`, a lambda, a closure) with cloudpickle. A `jax.export.Exported` or a `jax.stages.Lowered` for CUDA has
        its own arguments, and its StableHLO is the program as written. Of a `jax.stages.Compiled` only the optimized
        module is known: it is judged as `ligerdiag inspect` judges a dump that lacks the unoptimized module. Its GPU is
        the one for which it was compiled, and `target` is ignored.
    specs: the arguments of the function by position: an array of JAX or NumPy, a `jax.ShapeDtypeStruct`, an `Arg`, a
        number, or any pytree of these. An array gives shape, dtype and sharding. Replay uses its values if they are
        integers or booleans, or if all arrays of floats together have few bytes; else it draws numbers in the same range.
    kwargs: the arguments that the function gets by keyword, by name, such as `{"scale": y}`; of the same kinds.
    target: the GPU to compile for, see `ligerdiag targets`. For several, such as `("a100", "h100")` or "a100,h100",
        returns a tuple of reports, one for each target in their order.
    mesh: the size of each axis by its name, or the sizes alone, whose axes are then called x, y, z; by default the mesh
        of the arguments' shardings.
    name: name of the case in the report, by default the function's name.
    expected, expected_rules, effects, reference, keep_unused: as in `Case`.
    toolchain: the versions to compile with, see `ligerdiag toolchains`.
    replay: whether to replay program and schedule on numbers. full: whether to replay even if that takes long or
        much memory. device: whether to run the function on the GPUs of this machine as well.
    cache_directory: folder of the cache, by default LIGERDIAG_CACHE_DIR, else the user's cache.
    refresh: whether to compile and replay again even if the cache has the results. Use it for a function that depends on
        the time, on random numbers, or on files that a C library reads: the cache does not notice changes of these.
    timeout: the largest number of seconds for the compile, and again for the replay.
    jobs: largest number of processes, by default one for each core.
    config: a pyproject.toml whose [tool.ligerdiag] says which findings are allowed, what kernels do, how much memory
        a program may need and what XLA's autotuner chose; none by default.

    Raises InputError if the function or an argument cannot be sent to a worker, or if the arguments do not fit, and
    LigerdiagError if there is nothing to compile with. A function that raises or does not compile raises nothing here:
    the report has the status `could not analyse`.
    """
    for name in words:
        if name not in CheckKeywords.__annotations__:
            raise TypeError(
                f"check() got an unexpected keyword argument {name!r}; keywords of the function go into `kwargs`,"
                f" as in kwargs={{{name!r}: ...}}"
            )
    config, cache = words.get("config"), words.get("cache_directory")
    settings = Config() if config is None else load_config(config, Path.cwd())
    targets = split_targets(target)
    options = make_check_options(
        words,
        targets=targets,
        usual_targets=targets,
        cache_directory=None if cache is None else Path(cache),
        jobs=words.get("jobs"),
        suppress=settings.suppress,
        known=settings.known,
        autotune_results=settings.autotune_results,
        effects=settings.effects,
        budgets=settings.budgets,
    )
    if (is_compiled(fn) or is_lowered(fn)) and (specs or words.get("kwargs")):
        raise InputError("a lowered or compiled program has its own arguments: pass none to `check`")
    if is_compiled(fn):
        report = check_compiled(fn, words, _make_inspect_options(options))
        return report if isinstance(target, str) else (report,)
    live = make_live_function(fn, specs, words)
    if is_exported(fn):
        if specs or live.kwargs:
            raise InputError("an exported program has its own arguments: pass none to `check`")
        function, own, keywords = take_exported(fn, targets)
        live = replace(live, function=function, specs=own, kwargs=keywords)
    if is_lowered(fn):
        function, own, mesh = take_lowered(fn, targets, live.name)
        live = replace(live, function=function, specs=own, mesh=mesh)
    reports = check_live(live, options, Path.cwd(), words.get("on_progress")).cases
    return reports[0] if isinstance(target, str) and len(targets) == 1 else reports


def _make_inspect_options(options: CheckOptions) -> InspectOptions:
    """Returns those options of a check that apply to a module that is compiled already."""
    return InspectOptions(
        paths=(),
        cache_directory=options.cache_directory,
        replay=options.replay,
        bounds=options.bounds,
        budgets=options.budgets,
        suppress=options.suppress,
        effects=options.effects,
    )


def check_live(
    live: LiveFunction, options: CheckOptions, root: Path, on_progress: OnProgress | None = None
) -> CheckReport:
    """Checks a function of the caller's process and returns the report, with a case for each target.

    The selectors of `options` are ignored. root: the folder from which the worker's imports start. Raises the errors of
    `check`, and KeyboardInterrupt after Ctrl-C, once all workers are gone.
    """
    parse_expectation(live.expected)
    parse_expected_rules(live.expected_rules, beside=live.expected)
    source = write_live_function(live, Cache(options.cache_directory), root.absolute())
    return check_chosen(source, options, on_progress)


def check_chosen(
    choice: Source | CaseSpec, options: CheckOptions, on_progress: OnProgress | None = None
) -> CheckReport:
    """Returns the report of one case, or of all cases of a source. Raises the errors of `check_live`."""
    report = check_cases(replace(options, selectors=(choice,)), on_progress)
    if report.interrupted:
        raise KeyboardInterrupt
    run = replace(report, cases=())
    return replace(report, cases=tuple(replace(case, run=run) for case in report.cases))
