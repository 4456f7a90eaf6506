"""Traces and lowers a case for a target, with tagged operations, and collects all data from the trace that the artifact
needs.
"""

import importlib
import sys
import traceback
import warnings
from collections.abc import Collection, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import jax
from jax.extend import source_info_util
from jaxlib.mlir import ir

from ligerdiag.artifacts.artifact import render_varint
from ligerdiag.artifacts.call_records import LibraryKernel, MovedRef, Readers, RefMove, RefStore, SharedArguments
from ligerdiag.compile.cases.arguments import (
    build_argument_specs,
    build_mesh,
    compute_donated,
    compute_input_names,
    compute_output_names,
)
from ligerdiag.compile.cases.device_queries import answer_as
from ligerdiag.compile.cases.plugin import find_platform
from ligerdiag.compile.cases.printed import pause_prints
from ligerdiag.compile.cases.shared_arrays import group_shared_arguments
from ligerdiag.compile.cases.stablehlo_program import StableHloProgram
from ligerdiag.compile.lowering.call_names import drop_call_names, find_stores, name_calls
from ligerdiag.compile.lowering.declared_writes import declare_writes
from ligerdiag.compile.lowering.intent import IntentTrace, mark_intent, protect_as_written
from ligerdiag.compile.lowering.jax_versions import (
    assume_gpu,
    enter_mesh,
    find_kernel_primitives,
    find_read,
    translate_to_hlo,
)
from ligerdiag.compile.lowering.kept_arguments import JitForm, list_donated, make_form
from ligerdiag.compile.lowering.kernel_calls import (
    LoweredCall,
    find_dropped_calls,
    find_lowered_calls,
    find_traced_calls,
    has_partitioned,
)
from ligerdiag.compile.lowering.kernel_faults import explain_generation, find_kernel_fault
from ligerdiag.compile.lowering.other_kernels import CUTILE_COMPILER, assume_gpu_of_other_kernels, find_other_primitives
from ligerdiag.compile.lowering.partitioned import WholeFunction, lower_whole, make_opaque, read_bodies
from ligerdiag.compile.lowering.recorded_kernels import find_library_kernels
from ligerdiag.compile.lowering.refs import blame_refs, discharge_refs, explain_refs, watch_refs
from ligerdiag.compile.lowering.tags import tag_like, tag_operations
from ligerdiag.compile.lowering.ties import find_readers, put_ties
from ligerdiag.compile.lowering.traced_calls import TracedCall, TracedOrder, record_binds, watch_order
from ligerdiag.errors import CaseError, CompileError, LigerdiagError, describe_fault
from ligerdiag.model.case import Case
from ligerdiag.model.findings import SourceLine
from ligerdiag.toolchains.gpu_targets import read_architecture

MAXIMUM_FRAMES = 64
"""Number of Python frames that JAX keeps in an operation's location, innermost first. JAX's default of 10 can be too
few to reach the user's line.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredCase:
    """A case that has been traced and lowered and can now be compiled."""

    lowered: Any
    """The `jax.stages.Lowered` that XLA compiles; the operations of its module are tagged."""
    text: str
    """The program that XLA compiles, as StableHLO text with locations."""
    as_written: str
    """The program as its author means it, as StableHLO text in which nothing can be folded, see `protect_as_written`.
    """
    tags: int
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    parameters: tuple[int, ...]
    mesh: dict[str, int]
    assignment: tuple[Any, ...]
    """The devices that run the program, in the order of their partition ids."""
    traced_calls: tuple[TracedCall, ...]
    lowered_calls: tuple[LoweredCall, ...]
    dropped_calls: tuple[LoweredCall, ...] = ()
    """Kernel calls of the program as written that the program for XLA lacks."""
    moved_refs: tuple[MovedRef, ...] = ()
    """Reads of Refs that JAX separated from the writes before them, see `refs`."""
    as_lowered: str = ""
    """The program for XLA as StableHLO text in which nothing can be folded; empty if JAX cannot have moved an access of
    a Ref.
    """
    ref_stores: tuple[RefStore, ...] = ()
    """The stores into Refs in the program as written and in the one that XLA gets; empty unless JAX separated a store from
    a read.
    """
    refs_trouble: str = ""
    """The reason why ligerdiag may have missed that JAX moved an access to a Ref, or why it cannot find out how such moves
    change the outputs; empty if there is no such reason.
    """
    library_kernels: tuple[LibraryKernel, ...] = ()
    """The kernels of those custom calls that have no payload; the kernels come from the libraries that launch them, such as
    cuTile.
    """
    bodies: tuple[WholeFunction, ...]
    marked: Any
    """The module of the second trace, which records the author's intent (see `intent`), if there was a second trace."""
    readers: Readers
    """The reads of kernels' operands to which ties can be added, in the program without ties."""
    donated: tuple[int, ...] = ()
    """Positions in `inputs` of the arguments that the user's program donates."""
    dropped: tuple[int, ...] = ()
    """Positions in `inputs` of the arguments that JAX drops from the user's program; they are not donated here."""
    on_host: tuple[int, ...] = ()
    """Positions in `inputs` of the arguments that lie in the memory of the host."""
    shared: SharedArguments | None = None
    """The arguments that are one array; None if there are none."""
    takes_arrays: bool = False
    """Whether the program takes each array of the case's arguments as an argument of its own."""
    donation_warning: str = ""
    """JAX's warning about donations that it cannot use; empty if JAX did not warn."""
    has_snapshots: bool = True
    """Whether ligerdiag traced the program; false if it came as StableHLO. See `Provenance.has_snapshots`."""
    crossed_operands: tuple[int, ...] = ()
    """Operand numbers of kernel calls. A number is listed if another operation reads the same operand, and JAX moved that
    operation to the other side of the kernel call. It applies to every kernel call of the program; see `TracedOrder`.
    """
    trace_seconds: float
    lower_seconds: float

    def arrange(self, arguments: tuple[Any, ...]) -> Sequence[Any]:
        """Puts the case's arguments into the order and form that the compiled program takes."""
        return jax.tree.leaves(arguments) if self.takes_arrays else arguments

    def without_bodies(self, tags: Collection[int]) -> "LoweredCase":
        """Removes the bodies of the `custom_partitioning` calls with these tags, and returns the program. The analysis
        then has to assume any effect of these calls. Changes the module `marked` in place.
        """
        bodies = [body for body in self.bodies if body.tag in tags]
        make_opaque(self.marked, bodies)
        inside = {step.tag for body in bodies for step in body.steps}
        lowered = [call for call in self.lowered_calls if call.tag in inside]
        return replace(
            self,
            as_written=protect_as_written(self.marked),
            bodies=tuple([body for body in self.bodies if body.tag not in tags]),
            traced_calls=tuple([call for call in self.traced_calls if not any(one.is_of(call) for one in lowered)]),
            lowered_calls=tuple([call for call in self.lowered_calls if call.tag not in inside]),
        )


def lower_case(
    case: Case,
    description: str,
    compute_capability: int,
    *,
    tagged: bool = True,
    mesh: Any = None,
    ties: Sequence[str] = (),
    by_barrier: bool = False,
    declared: Sequence[str] = (),
) -> LoweredCase:
    """Traces and lowers the case. Raises CaseError if its function raises, and CompileError if one of its kernels does
    not compile. Raises InputError if its arguments or the ties do not fit.

    tagged: whether the operations get tags. ties: ids of the readers to tie to their kernels. by_barrier: whether to
    tie them by an optimization barrier instead of a trivial operation. declared: hidden writes to declare to XLA, each
    as `<tag of the kernel call>.<operand>` (see `declared_writes`). `ties` and `declared` need `tagged`. mesh: a mesh
    of real devices; by default the case's mesh over devices of the described target.
    """
    answers = nullcontext()
    if mesh is None:
        mesh = build_mesh(case.mesh, description, case.explicit_axes)
        answers = answer_as(mesh.devices.flat, description)
    specs = build_argument_specs(case, mesh)
    jax.clear_caches()  # a cached module would be tagged already, and may hold kernels for another GPU
    started = perf_counter()
    with (
        answers,
        assume_gpu(compute_capability, read_architecture(description)),
        assume_gpu_of_other_kernels(compute_capability),
        enter_mesh(mesh) if case.mesh else nullcontext(),
        _blame_function(case),
    ):
        form, inputs = make_form(case, specs, mesh), compute_input_names(case.function, specs)
        donated = list_donated(specs, compute_donated(case))
        form, trace, kept = _trace_as_kept(case, form, inputs)
        jitted, specs, traced, intent, refs = trace.jitted, form.specs, trace.traced, trace.intent, trace.refs
        traced_calls = find_traced_calls(traced.jaxpr, trace.binds)
        trace_seconds = perf_counter() - started
        with blame_refs(refs), _catch_donation_warnings() as donation_warnings:
            lowered = traced.lower(lowering_platforms=(find_platform().value,))
        needs_more = has_partitioned(traced.jaxpr) or intent.needs_snapshots or refs.are_split
        is_plain = not needs_more and all(call.outputs_used for call in traced_calls)
        has_moved_stores = any(not move.kernel and move.kind is not RefMove.UNKNOWN for move in refs.moves)
        marked, trouble = None, ""
        if not is_plain and tagged:
            marked, trouble = _lower_marked(jitted, specs, intent, marks_stores=has_moved_stores)
        stored = _lower_with_stores(jitted, specs) if marked is not None and has_moved_stores else None
    module: Any = lowered.compiler_ir("stablehlo")
    written = case.function.fill(module) if isinstance(case.function, StableHloProgram) else None
    tags = _tag(module, marked) if tagged else 0
    lowered_calls = find_lowered_calls(module)
    readers = (
        find_readers(module, traced_calls, lowered_calls) if tagged else Readers(trouble="the operations have no tags")
    )
    if ties or declared:
        for one in (module,) if marked is None else (module, marked):
            put_ties(one, readers, ties, case.id, by_barrier=by_barrier)
            declare_writes(one, readers, declared, case.id)
        tags = _tag(module, marked)
        lowered_calls = find_lowered_calls(module)
    bodies: tuple[WholeFunction, ...] = ()
    if marked is not None:
        bodies = read_bodies(module, marked)
        inside = [call for call in find_lowered_calls(marked) if any(call.tag in body for body in bodies)]
        lowered_calls = (*lowered_calls, *inside)
    dropped_calls = () if marked is None else find_dropped_calls(module, marked)
    stores: tuple[RefStore, ...] = ()
    if stored is not None and marked is not None:
        tag_like(stored, marked)
        stores = (*find_stores(marked, trace.sites), *find_stores(stored, trace.sites))
    for one in (module, marked, stored):
        if one is not None:
            drop_call_names(one)
    is_compared = marked is not None and refs.are_split
    parameters = _count_parameters(module)
    return LoweredCase(
        lowered=lowered,
        text=module.operation.get_asm(enable_debug_info=True),
        as_written=protect_as_written(module if marked is None else marked),
        tags=tags,
        outputs=_name_tokens(module) + compute_output_names(traced.out_info) if written is None else written.outputs,
        inputs=inputs,
        parameters=tuple(range(parameters - len(inputs), parameters)),
        mesh={axis: int(size) for axis, size in case.mesh.items()},
        assignment=tuple(mesh.devices.flat),
        traced_calls=traced_calls,
        lowered_calls=lowered_calls,
        dropped_calls=dropped_calls,
        moved_refs=tuple(refs.moves),
        as_lowered=protect_as_written(module if stored is None else stored) if is_compared else "",
        ref_stores=tuple(dict.fromkeys(stores)),
        refs_trouble=refs.describe_lack(traced.jaxpr)
        or (trouble if refs.moves else "")
        or ("the stores into the Refs cannot be found" if has_moved_stores and not stores else "")
        or (
            "the lowered program cannot be compared with the program as written"
            if refs.moves and not is_compared
            else ""
        ),
        library_kernels=find_library_kernels(module, compute_capability),
        bodies=bodies,
        marked=marked,
        readers=readers,
        donated=donated,
        dropped=tuple(number for number in range(len(inputs)) if number not in kept),
        on_host=tuple(number for number, leaf in enumerate(jax.tree.leaves(case.args)) if "host" in leaf.memory),
        shared=_find_shared(case),
        takes_arrays=form.takes_arrays,
        donation_warning="\n".join(donation_warnings),
        has_snapshots=written is None,
        crossed_operands=tuple(sorted(trace.order.crossed)),
        trace_seconds=trace_seconds,
        lower_seconds=perf_counter() - started - trace_seconds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trace:
    """A traced program, and what was recorded while it was traced."""

    jitted: Any
    traced: Any
    """The `jax.stages.Traced`."""
    binds: Any
    intent: IntentTrace
    order: TracedOrder
    sites: Any
    refs: Any


def _find_primitives() -> list[Any]:
    """Returns the primitives whose calls are followed while JAX traces."""
    return [*find_kernel_primitives(), *find_other_primitives()]


def _trace(form: JitForm) -> _Trace:
    primitives = _find_primitives()
    trace = _trace_with(form, primitives)
    has_imported = len(_find_primitives()) > len(primitives)  # the function itself imports a library of kernels
    return _trace_again(form) if has_imported else trace


def _trace_with(form: JitForm, kernels: Sequence[Any]) -> _Trace:
    jitted = form.jit()
    with (
        record_binds(kernels) as binds,
        mark_intent(kernels, None) as intent,
        watch_order(kernels) as order,
        name_calls(kernels) as sites,
        watch_refs(sites) as refs,
    ):
        traced = jitted.trace(*form.specs)
    return _Trace(jitted=jitted, traced=traced, binds=binds, intent=intent, order=order, sites=sites, refs=refs)


def _trace_as_kept(case: Case, form: JitForm, inputs: Sequence[str]) -> tuple[JitForm, _Trace, Collection[int]]:
    """Returns the form in which only those arrays are donated that JAX keeps, its trace, and the numbers of the kept arrays.
    form: with all donations. inputs: names of all arrays.
    """
    trace = _trace(form)
    kept = range(len(inputs)) if case.keep_unused else find_read(trace.traced)
    if all(number in kept for number in list_donated(form.specs, form.donated)):
        return form, trace, kept
    form = form.donate_only(kept, inputs)
    return form, _trace_again(form), kept


def _find_shared(case: Case) -> SharedArguments | None:
    groups = group_shared_arguments([leaf.array for leaf in jax.tree.leaves(case.args)])
    if not groups:
        return None
    file, _, line = (case.made_at or "").rpartition(":")
    return SharedArguments(groups=groups, line=SourceLine(file=file, line=int(line)) if file else None)


@pause_prints()
def _trace_again(form: JitForm) -> _Trace:
    jax.clear_caches()
    return _trace(form)


@contextmanager
def _catch_donation_warnings() -> Generator[list[str]]:
    """Yields a list that receives JAX's warnings about donated buffers; all other warnings are shown when the context
    ends.
    """
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    for one in caught:
        if "donated" in str(one.message):
            found.append(str(one.message))
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def import_kernel_libraries() -> None:
    """Imports the libraries that JAX and kernels need late: jax-triton, Triton, cuTile's compiler and dialects of MLIR.
    A worker then need not import them after its fork. An import that fails is ignored here; a case that needs the
    library reports the failure.
    """
    dialects = ("jaxlib.mlir.dialects.mhlo", "jaxlib.mlir.dialects.builtin")
    for name in ("jax_triton.triton_lib", *dialects, CUTILE_COMPILER):
        with suppress(Exception):
            importlib.import_module(name)


def configure_locations(*folders: str) -> None:
    """Makes JAX record more stack frames for each operation, so that the user's line is among them. Frames of files in
    these folders, which belong to ligerdiag, are left out.
    """
    config: Any = jax.config
    config.update("jax_include_full_tracebacks_in_locations", True)
    config.update("jax_traceback_in_locations_limit", MAXIMUM_FRAMES)
    for folder in folders:
        source_info_util.register_exclusion(folder)


@pause_prints()
def _lower_with_stores(jitted: Any, specs: Sequence[Any]) -> Any:
    """Returns the StableHLO module of another trace of the same program, in which stores into Refs are marked; None if
    the trace fails.
    """
    jax.clear_caches()
    try:
        with name_calls(_find_primitives(), marks_stores=True):
            return jitted.trace(*specs).lower(lowering_platforms=(find_platform().value,)).compiler_ir("stablehlo")
    except Exception as fault:
        traceback.print_exception(fault)
        return None
    finally:
        jax.clear_caches()


@pause_prints()
def _lower_marked(jitted: Any, specs: Sequence[Any], intent: IntentTrace, *, marks_stores: bool) -> tuple[Any, str]:
    """Returns the StableHLO module of the second trace, which records the author's intent: it has snapshots and all
    kernel calls, and no Refs. Also returns the reason why the module may still have Refs; empty if it has none.
    """

    def lower(*contexts: AbstractContextManager[Any], are_discharged: bool = True) -> tuple[Any, str]:
        jax.clear_caches()
        kernels = _find_primitives()
        with mark_intent(kernels, frozenset(intent.kernel_forms)), ExitStack() as stack:
            faults = stack.enter_context(discharge_refs()) if are_discharged else ["the trace without Refs fails"]
            for context in (name_calls(kernels, marks_stores=marks_stores), *contexts):
                stack.enter_context(context)
            lowered = jitted.trace(*specs).lower(lowering_platforms=(find_platform().value,))
        jax.clear_caches()
        return lowered.compiler_ir("stablehlo"), next(iter(faults), "")

    try:
        return lower(lower_whole())
    except Exception as fault:  # some `custom_partitioning` can be lowered only as its function on the shards
        traceback.print_exception(fault)
    try:
        return lower()
    except Exception as fault:
        traceback.print_exception(fault)
        return lower(are_discharged=False)


def _tag(module: Any, marked: Any) -> int:
    """Tags the operations of the module with numbers, and the same operations of `marked` with the same numbers;
    returns the number of operations in the module.
    """
    if marked is None:
        return tag_operations(module)
    tag_operations(marked)
    return tag_like(module, marked)


def convert_to_hlo(text: str) -> bytes:
    """Returns a StableHLO module as a serialized HloProto. Returns no bytes for an empty text, or if jaxlib cannot
    translate the module.
    """
    try:
        return wrap_module(translate_to_hlo(text)) if text else b""
    except Exception as fault:
        traceback.print_exception(fault)
        return b""


def wrap_module(module: bytes) -> bytes:
    """Wraps a serialized HloModuleProto into a serialized HloProto, as its field 1."""
    return b"\x0a" + render_varint(len(module)) + module


def _find_main(module: Any) -> Any:
    return next(
        view.operation
        for view in module.body
        if view.operation.name == "func.func" and ir.StringAttr(view.operation.attributes["sym_name"]).value == "main"
    )


def _count_parameters(module: Any) -> int:
    """Returns the number of parameters of the entry function. Constants that JAX hoists are parameters too, before the
    arguments.
    """
    return len(_find_main(module).regions[0].blocks[0].arguments)


def _name_tokens(module: Any) -> tuple[str, ...]:
    """Returns a name for each token that the entry function returns before the outputs, one for each kind of ordered
    effect. The tokens count as outputs, because a token depends on the values that the callbacks of its kind get.
    """
    results = ir.FunctionType(_find_main(module).attributes["function_type"].value).results
    number = sum(str(result) == "!stablehlo.token" for result in results)
    return ("ordered effects",) if number == 1 else tuple(f"ordered effects {n}" for n in range(number))


@contextmanager
def _blame_function(case: Case) -> Generator[None]:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"triton\.")  # they would appear in the diagram of a KernelFault
            yield
    except LigerdiagError:
        raise
    except Exception as fault:
        kernel_fault = find_kernel_fault(fault)
        if kernel_fault is not None:
            sys.stdout.write(f"{kernel_fault.diagram}\n")
            raise CompileError(f"a kernel of case `{case.id}` does not compile: {kernel_fault.message}") from fault
        traceback.print_exception(fault)
        said = explain_refs(fault) or " ".join(filter(None, (describe_fault(fault), explain_generation(fault))))
        raise CaseError(f"the function of case `{case.id}` raises: {said}") from fault
