"""Lists the cases, rules, targets and toolchains that a user can choose from, and diagnoses toolchains.

A toolchain is a pinned set of JAX and Triton versions in an environment of its own. A diagnosis takes four steps, and
stops at the first that does not succeed: `environment` (the folder and the interpreter of the environment exist; the
default toolchain is the packages beside ligerdiag), `packages` (each has its pinned version), `compile` (a small program
with a Triton kernel that overwrites its operand compiles for a GPU) and `kernel` (the Triton that wrote the kernel's IR
reads it, and ligerdiag finds the hidden write).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from ligerdiag.artifacts.cache import Cache, hold_key
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.errors import LigerdiagError, describe_error
from ligerdiag.inspection.compilation import inspect_artifact, open_readers
from ligerdiag.model.findings import Verdict
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.rules.registry import RULES
from ligerdiag.rules.rule import Rule
from ligerdiag.toolchains import toolchain as toolchain_module
from ligerdiag.toolchains.environments import (
    describe_toolchain,
    find_differences,
    has_environment,
    locate_environment,
    provide_toolchain,
)
from ligerdiag.toolchains.gpu_targets import Target, list_targets, load_target
from ligerdiag.toolchains.toolchain import Platform, Toolchain, current_toolchain
from ligerdiag.toolchains.toolchain_table import DEFAULT, ToolchainSpec, find_spec, known_releases, known_toolchains
from ligerdiag.workers.pool import Pool
from ligerdiag.workers.templates import Templates

PROBE = Path(toolchain_module.__file__).parent / "probes" / "overwriting_kernel.py"
PROBE_TIMEOUT = 300.0
MAXIMUM_DETAIL = 300
SHOWN_VERSIONS = ("jax", "jax-triton", "triton")


class StepState(StrEnum):
    """Whether a step of a diagnosis works, or whether a toolchain as a whole works."""

    WORKS = "works"
    MISSING = "missing"
    """The environment has not been created yet. This is not a fault."""
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolchainStep:
    """One step of the diagnosis of a toolchain, and its result."""

    name: str
    """`environment`, `packages`, `compile` or `kernel`; the module explains the four steps."""
    state: StepState
    detail: str
    """One line: a place or versions if the step works, else the fault and its remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolchainStatus:
    """One toolchain with the results of the steps that were tried."""

    name: str
    about: str
    python: str
    versions: dict[str, str]
    """Maps each package name to the pinned version; for the default toolchain, to the installed version."""
    directory: str
    """Folder of the toolchain's environment, which need not exist; "" for the default toolchain."""
    steps: tuple[ToolchainStep, ...]

    @property
    def state(self) -> StepState:
        """Returns the state of the first step that does not work; `WORKS` if all steps work."""
        return next((step.state for step in self.steps if step.state is not StepState.WORKS), StepState.WORKS)


def list_statuses(cache: Cache) -> tuple[ToolchainStatus, ...]:
    """Returns the status of each toolchain.

    The default toolchain comes first, then those in the table `toolchains.toml`. Toolchains for single releases of JAX,
    such as `jax-0.7.2`, come last; only those whose environment exists are listed.
    """
    made = [spec for spec in known_releases() if locate_environment(spec, cache).is_dir()]
    return tuple(_look(name, cache)[0] for name in (DEFAULT, *(spec.name for spec in (*known_toolchains(), *made))))


def diagnose(name: str, cache: Cache, target: Target) -> ToolchainStatus:
    """Compiles a small program with the toolchain, if its environment is complete, and returns the toolchain's status.

    Raises InputError for an unknown name.
    """
    status, toolchain = _look(name, cache)
    if toolchain is None:
        return status
    return replace(status, steps=(*status.steps, *_try_out(toolchain, cache, target)))


def _look(name: str, cache: Cache) -> tuple[ToolchainStatus, Toolchain | None]:
    """Returns the status of the toolchain as far as the disk shows it, and the toolchain itself; the latter is None if
    its environment or packages are not complete.
    """
    return _look_at_own() if name == DEFAULT else _look_at_environment(find_spec(name), cache)


def _look_at_own() -> tuple[ToolchainStatus, Toolchain | None]:
    toolchain: Toolchain | None = None
    try:
        toolchain = current_toolchain()
        step = ToolchainStep(name="environment", state=StepState.WORKS, detail=toolchain.python)
    except LigerdiagError as error:
        step = ToolchainStep(name="environment", state=StepState.BROKEN, detail=str(error))
    versions = {} if toolchain is None else dict(toolchain.versions)
    status = ToolchainStatus(
        name=DEFAULT,
        about="what ligerdiag is installed with",
        python=versions.pop("python", ""),
        versions=versions,
        directory="",
        steps=(step,),
    )
    return status, toolchain


def _look_at_environment(spec: ToolchainSpec, cache: Cache) -> tuple[ToolchainStatus, Toolchain | None]:
    directory = locate_environment(spec, cache)
    steps = tuple(_check_environment(spec, directory))
    works = all(step.state is StepState.WORKS for step in steps)
    status = ToolchainStatus(
        name=spec.name,
        about=spec.about,
        python=spec.python,
        versions=dict(spec.packages),
        directory=str(directory),
        steps=steps,
    )
    return status, describe_toolchain(spec, directory) if works else None


def _check_environment(spec: ToolchainSpec, directory: Path) -> Iterator[ToolchainStep]:
    if not directory.is_dir():
        detail = f"not created yet: `ligerdiag toolchains create {spec.name}`"
        yield ToolchainStep(name="environment", state=StepState.MISSING, detail=detail)
        return
    if not has_environment(directory):
        detail = (
            f"the environment has no interpreter: `ligerdiag toolchains create {spec.name}` makes `{directory}` anew"
        )
        yield ToolchainStep(name="environment", state=StepState.BROKEN, detail=detail)
        return
    yield ToolchainStep(name="environment", state=StepState.WORKS, detail=str(directory))
    differences = find_differences(spec, directory)
    if differences:
        detail = f"{', '.join(differences)}: remove `{directory}` and create it again"
        yield ToolchainStep(name="packages", state=StepState.BROKEN, detail=detail)
    else:
        yield ToolchainStep(name="packages", state=StepState.WORKS, detail=f"{len(spec.packages)} as pinned")


def _try_out(toolchain: Toolchain, cache: Cache, target: Target) -> Iterator[ToolchainStep]:
    with (
        Templates() as templates,
        Pool(cache=cache, toolchain=toolchain, jobs=1, timeout=PROBE_TIMEOUT, templates=templates) as pool,
        open_readers(toolchain, cache, templates) as readers,
    ):
        try:
            cases: tuple[CaseSpec, ...] = discover_cases([str(PROBE)], pool=pool, directory=PROBE.parent)
            (result,) = compile_cases(cases, [target], pool=pool)
            if result.error is not None:
                raise result.error
            assert result.artifact is not None
        except LigerdiagError as error:
            detail = f"for `{target.name}`: {describe_error(error)}"[:MAXIMUM_DETAIL]
            yield ToolchainStep(name="compile", state=StepState.BROKEN, detail=detail)
            return
        yield ToolchainStep(name="compile", state=StepState.WORKS, detail=f"for `{target.name}`, without a GPU")
        try:
            inspection = inspect_artifact(result.artifact, effects_cache=cache.root / "effects", readers=readers)
        except LigerdiagError as error:
            yield ToolchainStep(name="kernel", state=StepState.BROKEN, detail=describe_error(error))
            return
    unknown = [name for name, verdict in inspection.outputs.items() if verdict is Verdict.UNKNOWN]
    if unknown or inspection.coverage.hidden_writes != 1:
        reasons = [finding.message for finding in inspection.findings] or ["the kernel's write was not found"]
        detail = f"the effects of the kernel are not known: {'; '.join(reasons)}"[:MAXIMUM_DETAIL]
        yield ToolchainStep(name="kernel", state=StepState.BROKEN, detail=detail)
        return
    triton = toolchain.versions["triton"]
    yield ToolchainStep(
        name="kernel",
        state=StepState.WORKS,
        detail=f"triton {triton} reads the kernel's IR, and the hidden write is found",
    )


def list_toolchains(cache_directory: Path | None = None) -> tuple[ToolchainStatus, ...]:
    """Returns the status of each toolchain, as `list_statuses` does. cache_directory: folder of the cache; None means
    its usual place.
    """
    return list_statuses(Cache(cache_directory))


def create_toolchain(name: str, log: Callable[[str], None], cache_directory: Path | None = None) -> ToolchainStatus:
    """Makes the environment of the toolchain unless it exists, and returns the status of the toolchain.

    log: gets a line about each step. Raises as `provide_toolchain` does.
    """
    cache = Cache(cache_directory)
    provide_toolchain(name, cache, log)
    return next(status for status in list_statuses(cache) if status.name == name)


def diagnose_toolchain(name: str, target: str = "", cache_directory: Path | None = None) -> ToolchainStatus:
    """Diagnoses a toolchain as `diagnose` does, and returns its status.

    target: the GPU to compile for; empty means h100, or mi300 if the toolchain compiles for AMD GPUs. cache_directory:
    folder of the cache; None means its usual place. Raises InputError for an unknown toolchain or target.
    """
    is_amd = name != DEFAULT and find_spec(name).platform is Platform.ROCM
    return diagnose(name, Cache(cache_directory), load_target(target or ("mi300" if is_amd else "h100")))


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStatus:
    """One target and the toolchains that can compile for it."""

    target: Target
    here: tuple[str, ...]
    """Names of the toolchains that can compile for the target and whose environments are complete on this machine."""
    elsewhere: tuple[str, ...]
    """Names of the toolchains that can compile for the target but whose environments are missing or incomplete;
    `toolchains create` makes them.
    """


def list_target_statuses(
    targets: Sequence[Target] = (), cache_directory: Path | None = None
) -> tuple[TargetStatus, ...]:
    """Returns the status of each of the given targets, or of all targets that come with ligerdiag if `targets` is empty."""
    statuses = list_statuses(Cache(cache_directory))
    works = {status.name for status in statuses if status.state is StepState.WORKS}
    specs = {spec.name: spec for spec in (*known_toolchains(), *known_releases())}
    found: list[TargetStatus] = []
    for target in targets or list_targets():
        names = [status.name for status in statuses if _compiles_for(specs.get(status.name), target)]
        here = tuple(name for name in names if name in works)
        elsewhere = tuple(name for name in names if name not in works and name != DEFAULT)
        found.append(TargetStatus(target=target, here=here, elsewhere=elsewhere))
    return tuple(found)


def _compiles_for(spec: ToolchainSpec | None, target: Target) -> bool:
    """Returns whether a toolchain can compile for the target, as far as its entry in `toolchains.toml` says. spec: None
    for the default toolchain.
    """
    if spec is None:
        return target.platform is Platform.CUDA
    return target.platform is spec.platform and target.generation not in spec.fails_for


def list_cases(
    selectors: Sequence[str],
    *,
    directory: Path | None = None,
    cache_directory: Path | None = None,
    jobs: int | None = None,
) -> tuple[CaseSpec, ...]:
    """Returns the cases that the selectors choose, such as those of a file. Raises as `check` does.

    directory: the folder from which paths in selectors start. If several processes do this at the same time, one does the
    work, and the others find the answer in the cache.
    """
    cache = Cache(cache_directory)
    with hold_key(cache.artifacts, "cases"), Pool(cache=cache, jobs=jobs) as pool:
        return discover_cases(selectors, pool=pool, directory=directory)


def list_rules() -> tuple[Rule, ...]:
    """Returns all rules, in the order of their ids."""
    return RULES
