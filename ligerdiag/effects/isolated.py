"""Computes the effects of custom calls in worker processes, once for each distinct call, and caches them on disk.

The kernels' IR is untrusted, and Triton's parser is C++ code: it may crash, hang or exhaust memory. Each payload is
therefore a job of its own: if the worker dies or exceeds its time, only this call's effects are UNKNOWN (and not
cached). The workers run `EFFECTS_WORKER`: they import neither the caller's `__main__` nor anything from the current
directory.

No parser in C++ reads the text of Tile IR or the PTX of NVIDIA Warp, so both are followed in the calling process. The
length of such PTX and the steps to follow it are bounded (see `library_kernels`); beyond the bounds the effects are UNKNOWN.
"""

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ligerdiag.artifacts.call_records import LibraryKernel
from ligerdiag.codec import FieldError, encode_record, parse_object, read_str
from ligerdiag.effects.access import CallEffects, create_unknown_effects
from ligerdiag.effects.call import (
    CustomCall,
    carries_kernel,
    compute_call_effects,
    explain_untrusted,
    find_aliased,
    needs_parser,
)
from ligerdiag.effects.declared import Contradiction, DeclaredEffects, apply_declarations
from ligerdiag.effects.effects_worker import (
    EFFECTS_WORKER,
    make_effects_job,
    make_module_job,
    parse_effects,
    render_effects,
)
from ligerdiag.effects.library_kernels import compute_library_effects, find_library_kernel
from ligerdiag.errors import ArtifactError, LigerdiagError, describe_error
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import compute_byte_size, iterate_leaf_shapes
from ligerdiag.missing_packages import describe_missing, is_missing
from ligerdiag.toolchains.toolchain import describe_interpreter
from ligerdiag.untrusted_files import MAXIMUM_JSON_BYTES, read_untrusted
from ligerdiag.workers.pool import Pool, count_cores
from ligerdiag.workers.templates import WorkerDied, WorkerTimeout

ANALYSIS_VERSION = 21
"""Part of every key of the cache; increase it with every change that can change a result."""

LENT = "lent"
"""Name of a symbolic link in a cache directory. It points to another cache directory, whose entries are read but never
written.
"""

WORKER_MEMORY = 16 * 2**30
"""The most bytes of data that a worker may use."""

_CALLS_PER_WORKER = 16
"""Number of kernels that justify the start of one more worker: reading a kernel takes milliseconds, starting a worker
half a second.
"""


def compute_effects_isolated(
    calls: Sequence[CustomCall], *, cache_directory: Path | None, timeout: float, readers: Pool | None = None
) -> list[CallEffects]:
    """Computes the effects of calls in worker processes, each distinct call once. Returns them in the order of `calls`.

    A call that crashes a worker or exceeds its time gets unknown effects. No content of a call makes this function raise.
    timeout: seconds for one call. cache_directory: where results are cached, created if missing; None for no cache.
    readers: workers that run `EFFECTS_WORKER` with the Triton that made the kernels. None uses workers with the Triton of
    this environment.
    """
    triton = None if readers is None else readers.toolchain.versions["triton"]
    keys = [_compute_key(call, triton) for call in calls]
    known: dict[str, CallEffects] = {}
    missing: dict[str, CustomCall] = {}
    for key, call in zip(keys, calls, strict=True):
        if key in known or key in missing:
            continue
        if not needs_parser(call.target):
            known[key] = compute_call_effects(
                target=call.target,
                backend_config=call.backend_config,
                operands=call.operands,
                outputs=call.outputs,
                sizes=call.sizes,
            )
            continue
        lacking = _name_missing_parser(call.target) if readers is None else ""
        effects = _load_cached(cache_directory, key, call) if not lacking else None
        if lacking:
            known[key] = _create_unknown(call, describe_missing("reading the kernel", lacking))  # not cached
        elif effects is None:
            missing[key] = call
        else:
            known[key] = effects
    if missing and readers is not None:
        known |= _compute_elsewhere(missing, cache_directory, readers)
    elif missing:
        known |= _compute_in_workers(missing, cache_directory, timeout)
    return [known[key] for key in keys]


def _compute_in_workers(
    missing: dict[str, CustomCall], cache_directory: Path | None, timeout: float
) -> dict[str, CallEffects]:
    """Returns the effects of each call, computed in workers with the Triton of this environment, and caches those that
    the workers could compute. missing: the calls by their cache keys, which are also the keys of the result.
    """
    with _open_own_readers(len(missing), timeout) as readers:
        return _compute_elsewhere(missing, cache_directory, readers)


def _open_own_readers(count: int, timeout: float) -> Pool:
    """Returns workers with the Triton of this environment, as many as are worth starting for `count` kernels."""
    return Pool(
        toolchain=describe_interpreter(),
        jobs=min(count_cores(), -(-count // _CALLS_PER_WORKER)),
        timeout=timeout,
        memory_limit=WORKER_MEMORY,
        module=EFFECTS_WORKER,
    )


def _compute_elsewhere(
    missing: dict[str, CustomCall], cache_directory: Path | None, readers: Pool
) -> dict[str, CallEffects]:
    known: dict[str, CallEffects] = {}
    for number, future in readers.run_all([make_effects_job(call) for call in missing.values()]):
        if future is None:
            continue
        key, call = list(missing.items())[number]
        try:
            known[key] = future.result()
        except LigerdiagError as error:
            known[key] = _create_unknown(call, _explain(error, readers.timeout))
        else:
            _write_cached(cache_directory, key, known[key])
    return known


def _explain(error: LigerdiagError, timeout: float) -> str:
    match error.__cause__:
        case WorkerTimeout():
            return f"reading the kernel took longer than {timeout:g} s"
        case WorkerDied(status=int(status)):
            return f"the process that read the kernel died (exit code {status})"
        case _:
            return describe_error(error)


def _create_unknown(call: CustomCall, reason: str) -> CallEffects:
    return create_unknown_effects(kernel=call.target, operands=call.operands, outputs=call.outputs, reason=reason)


def _name_missing_parser(target: str) -> str:
    """Returns the package that would read the kernels of `target` and is not installed; empty if all are there."""
    packages = ("triton",) if carries_kernel(target) else ("jaxlib", "jax")
    return next((package for package in packages if is_missing(package)), "")


@cache
def _get_triton_version() -> str:
    """Returns the version of Triton, for keys of the cache. Without jaxlib, which converts the bytecode that Triton
    refuses, some effects are unknown; the version then says so, lest a later run with jaxlib finds these effects in the
    cache.
    """
    try:
        return version("triton") + (" without jaxlib" if is_missing("jaxlib") else "")
    except PackageNotFoundError:
        return "none"


def _compute_key(call: CustomCall, triton: str | None = None) -> str:
    version = triton or _get_triton_version()
    head = f"{ANALYSIS_VERSION}\0{version}\0{call.target}\0{call.operands}\0{call.outputs}\0{call.sizes}\0"
    return hashlib.sha256(head.encode("utf-8", "surrogatepass") + call.backend_config).hexdigest()


def _find_entry(directory: Path, key: str) -> Path:
    """Returns the path of a cache entry: in the other, read-only cache directory to which the link `LENT` leads, if only
    that one has the entry; otherwise in `directory`, where it may not exist yet.
    """
    own, lent = directory / f"{key}.json", directory / LENT / f"{key}.json"
    return lent if not own.exists() and lent.exists() else own


def _load_cached(directory: Path | None, key: str, call: CustomCall) -> CallEffects | None:
    if directory is None:
        return None
    try:
        fields = parse_object(read_untrusted(_find_entry(directory, key), MAXIMUM_JSON_BYTES))
        if read_str(fields, "key") != key:
            return None  # the file was renamed: it is the result of another call
        return parse_effects(read_str(fields, "effects"), operands=call.operands, outputs=call.outputs)
    except (ArtifactError, FieldError):
        return None


def _write_cached(directory: Path | None, key: str, effects: CallEffects) -> None:
    if directory is None:
        return
    _write(directory, key, json.dumps({"key": key, "effects": render_effects(effects)}))


def _write(directory: Path, key: str, text: str) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=directory, prefix=f".{key[:16]}-")
    except OSError:
        return  # Without a cache the run takes longer, and the result is the same.
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            with suppress(OSError):  # an unlocked file is a leftover of a dead process, see `Cache`
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(text)
            file.flush()
            os.replace(name, directory / f"{key}.json")
    except OSError:
        Path(name).unlink(missing_ok=True)


def read_modules_elsewhere(sources: Iterable[bytes], cache_directory: Path, readers: Pool) -> Mapping[str, Path]:
    """Has workers of a different environment read modules of Triton IR. Returns a JSON file with the operations of each
    module, by the module's sha256. Leaves out modules that cannot be read.

    readers: workers that run `EFFECTS_WORKER` with the Triton that made the modules.
    """
    found = {hashlib.sha256(source).hexdigest(): source for source in sources}
    files = _list_module_files(found, readers.toolchain.versions["triton"], cache_directory)
    return _read_modules(found, files, readers)


def read_modules_isolated(sources: Iterable[bytes], cache_directory: Path) -> Mapping[str, Path]:
    """Has workers of this environment read modules of Triton IR. Returns a JSON file with the operations of each module, by
    the module's sha256. Leaves out modules that cannot be read.

    A hostile module kills only a worker.
    """
    found = {hashlib.sha256(source).hexdigest(): source for source in sources}
    files = _list_module_files(found, _get_triton_version(), cache_directory)
    missing = sum(not path.exists() for path in files.values())
    if not missing:
        return files
    with _open_own_readers(missing, TIMEOUT) as readers:
        return _read_modules(found, files, readers)


def _list_module_files(names: Iterable[str], version: str, cache_directory: Path) -> dict[str, Path]:
    """Returns the path of the file, which may not exist yet, for the operations of each module.

    names: the sha256 of each module. version: the version of the Triton that reads the modules.
    """
    keys = {name: hashlib.sha256(f"{ANALYSIS_VERSION}\0{version}\0{name}".encode()).hexdigest() for name in names}
    return {name: _find_entry(cache_directory, key) for name, key in keys.items()}


def _read_modules(found: Mapping[str, bytes], files: Mapping[str, Path], readers: Pool) -> Mapping[str, Path]:
    missing = [name for name in found if not files[name].exists()]
    for number, future in readers.run_all([make_module_job(found[name]) for name in missing]):
        if future is not None:
            path = files[missing[number]]
            with suppress(LigerdiagError):
                _write(path.parent, path.stem, json.dumps(encode_record(future.result())))
    return {name: path for name, path in files.items() if path.exists()}


TIMEOUT = 60.0
"""Seconds that following one kernel's IR may take."""


type _Lookup = tuple[CustomCall, frozenset[int] | None, str]
"""A call, the operands that its outputs alias (None if its aliases are not trusted), and why they are not trusted."""


@dataclass(slots=True, kw_only=True, eq=False)
class CallEffectsReader:
    """Looks up the effects of custom calls, with the user's declarations applied. Remembers them, because many modules have
    the same calls.
    """

    cache: Path | None
    declared: Sequence[DeclaredEffects] = ()
    """The user's declarations, which apply to operands with unknown effects."""
    readers: Pool | None = None
    """Workers that read kernels with the Triton that made them; None if that is the Triton of this environment."""
    libraries: Sequence[LibraryKernel] = ()
    """Kernels of custom calls without a payload."""
    _found: dict[CustomCall, CallEffects] = field(default_factory=dict[CustomCall, CallEffects])
    _applied: dict[_Lookup, tuple[CallEffects, tuple[Contradiction, ...]]] = field(
        default_factory=dict[_Lookup, tuple[CallEffects, tuple[Contradiction, ...]]]
    )
    _described: dict[int, tuple[HloInstruction, CustomCall]] = field(
        default_factory=dict[int, tuple[HloInstruction, CustomCall]]
    )
    """Instructions and their calls, by the `id()` of the instruction, which is unique while the entry keeps it alive.
    """

    def read(self, *modules: HloModule, others: Sequence[CustomCall] = ()) -> None:
        """Computes the effects of all custom calls in `modules`, and of the calls in `others`, in one batch."""
        self._described.clear()  # frees earlier modules: an instruction holds its operands, and so all of its module
        own = [self._describe(call) for module in modules for _, call in module.iterate_custom_calls()]
        calls = dict.fromkeys((*own, *others))
        missing = [call for call in calls if call not in self._found]
        if not missing:
            return
        for call in tuple(missing):
            kernel = find_library_kernel(self.libraries, call.target)
            if kernel is not None:
                self._found[call] = compute_library_effects(kernel, operands=call.operands, outputs=call.outputs)
                missing.remove(call)
        found = compute_effects_isolated(missing, cache_directory=self.cache, timeout=TIMEOUT, readers=self.readers)
        self._found.update(zip(missing, found, strict=True))

    def find(self, call: HloInstruction) -> CallEffects:
        """Returns the effects of a custom call in one of the modules that `read` was given."""
        return self._apply(self._describe(call), find_aliased(call), explain_untrusted(call))[0]

    def find_other(self, call: CustomCall) -> CallEffects:
        """Returns the effects of one of the calls that `read` was given as `others`."""
        return self._apply(call, None)[0]

    def find_contradictions(self, call: HloInstruction) -> tuple[Contradiction, ...]:
        """Returns the contradictions between the user's declaration of a call's effects and the call's code or operands.

        call: a custom call in one of the modules that `read` was given.
        """
        return self._apply(self._describe(call), find_aliased(call), explain_untrusted(call))[1]

    def _apply(
        self, call: CustomCall, aliased: frozenset[int] | None, untrusted: str = ""
    ) -> tuple[CallEffects, tuple[Contradiction, ...]]:
        known = self._applied.get((call, aliased, untrusted))
        if known is None:
            known = self._applied[call, aliased, untrusted] = apply_declarations(
                self._found[call],
                target=call.target,
                declarations=self.declared,
                aliased=aliased,
                untrusted=untrusted,
            )
        return known

    def _describe(self, call: HloInstruction) -> CustomCall:
        known = self._described.get(id(call))
        if known is None:
            known = self._described[id(call)] = call, _describe(call)
        return known[1]


def _describe(call: HloInstruction) -> CustomCall:
    leaves = [compute_byte_size(leaf) for _, leaf in iterate_leaf_shapes(call.shape)]
    return CustomCall(
        target=call.proto.custom_call_target,
        backend_config=call.proto.backend_config,
        operands=len(call.operands),
        outputs=len(leaves),
        sizes=(*(compute_byte_size(operand.shape) for operand in call.operands), *leaves),
    )
