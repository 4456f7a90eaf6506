"""Finds the kernel calls of a live function and lowers each as a program of its own. On request, it runs each program with
canaries (byte patterns that show unwritten elements) in its outputs.

`opcheck_worker` runs this in a process of its own.
"""

import base64
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from math import prod
from typing import Any

import jax
import numpy as np

from ligerdiag.artifacts.call_records import LibraryKernel
from ligerdiag.compile.cases.arguments import arrange_mesh, build_argument_specs, build_mesh, draw_arguments
from ligerdiag.compile.cases.array_records import is_key
from ligerdiag.compile.cases.device_queries import answer_as, import_as
from ligerdiag.compile.cases.known_fields import fit_description
from ligerdiag.compile.cases.live_functions import place_meshes
from ligerdiag.compile.cases.loader import CaseLoader
from ligerdiag.compile.cases.module_state.late_imports import LATE_IMPORTS
from ligerdiag.compile.cases.normalize import normalize_case
from ligerdiag.compile.lowering.call_names import name_calls
from ligerdiag.compile.lowering.jax_versions import (
    assume_gpu,
    enter_mesh,
    find_ffi_primitives,
    find_kernel_primitives,
    is_reference,
    translate_to_hlo,
)
from ligerdiag.compile.lowering.kernel_calls import find_traced_calls, make_function, make_shape
from ligerdiag.compile.lowering.other_kernels import assume_gpu_of_other_kernels, find_other_primitives
from ligerdiag.compile.lowering.recorded_kernels import find_library_kernels
from ligerdiag.compile.lowering.traced_calls import Bind, TracedCall, compute_kernel_name, read_traceback, record_binds
from ligerdiag.device.canary_runs import LoneKernel, compile_kernel
from ligerdiag.device.device_jobs import OpcheckAnswer, OpcheckRequest
from ligerdiag.device.device_worker import arrange_gpus
from ligerdiag.device.kernel_equations import KERNELS, EagerEvaluation, KernelEquation, iterate_kernel_equations
from ligerdiag.errors import CaseError, LigerdiagError, describe_fault
from ligerdiag.model.case import Case
from ligerdiag.model.findings import SourceLine
from ligerdiag.model.opcheck_report import CallRun, FoundCall, RunFailure

_JITS = ("jit", "pjit")
"""The primitive of `jax.jit`, in the newer and the older JAX."""


def find_calls(request: OpcheckRequest, loader: CaseLoader) -> OpcheckAnswer:
    """Returns the kernel calls of the source's only case. If the request names a platform, also runs the calls there
    and returns the observations.

    Raises CaseError if the function raises while JAX traces it. Raises InputError if its arguments do not fit, or if
    there is no device of that platform.
    """
    library: Any = jax
    build, answering = _choose_devices(request)
    with answering({}, ()), place_meshes(build):
        (case,) = loader.load(request.source).values()
    case = normalize_case(case)
    mesh = build(dict(case.mesh) or {"x": 1}, case.explicit_axes)
    devices: list[Any] = list(mesh.devices.flat)
    capability = request.compute_capability or _read_capability(devices[0])
    specs = build_argument_specs(case, mesh)
    library.clear_caches()
    with (
        answering(dict(case.mesh), case.explicit_axes),
        assume_gpu(capability) if capability else nullcontext(),
        assume_gpu_of_other_kernels(capability) if request.description else nullcontext(),
        enter_mesh(mesh) if case.mesh else nullcontext(),
    ):
        try:
            kernels = [*find_kernel_primitives(), *find_ffi_primitives(), *find_other_primitives()]
            with record_binds(kernels) as binds, name_calls(kernels):  # JAX may bind a call again, without its lines
                traced = library.jit(case.function, keep_unused=True).trace(*specs)
        except LigerdiagError:
            raise
        except Exception as fault:
            traceback.print_exception(fault)
            raise CaseError(f"the function `{case.name}` raises: {describe_fault(fault)}") from fault
        closed: Any = traced.jaxpr
        equations = list(iterate_kernel_equations(closed.jaxpr))
        dropped = [call for call in find_traced_calls(closed, binds, KERNELS) if not call.traced]
        lowering = _Lowering(platform=request.platform or "cuda", compute_capability=capability)
        lowered = [lowering.lower_equation(one.equation) for one in equations]
        missing = [_lower_bind(_find_bind(one, binds), lowering, request) for one in dropped]
        runs = _Runs()
        if request.platform and len(devices) > 1:
            runs = _Runs(missed={id(one.equation): f"the program is for {len(devices)} devices" for one in equations})
        elif request.platform:
            runs = _run_calls(closed, case, devices[0], request)
    calls = [
        FoundCall(
            kernel=compute_kernel_name(one.equation.params),
            source=_find_source(one),
            module=module,
            trouble=trouble,
            is_dropped=_is_dropped(one),
            run=runs.found.get(id(one.equation)),
            not_run=runs.missed.get(id(one.equation), ""),
            failure=runs.failures.get(id(one.equation), RunFailure.NONE),
        )
        for one, (module, trouble) in zip(equations, lowered, strict=True)
    ]
    return OpcheckAnswer(
        calls=(*calls, *missing),
        device=str(devices[0].device_kind) if runs.found else "",
        library_kernels=tuple(lowering.kernels.values()),
        state_notes=LATE_IMPORTS.notes,
    )


type _Build = Callable[[Mapping[str, int], Sequence[str]], Any]
type _Answering = Callable[[Mapping[str, int], Sequence[str]], Any]


def _choose_devices(request: OpcheckRequest) -> tuple[_Build, _Answering]:
    """Returns a function that arranges the devices of a mesh, and one that returns a context in which JAX reports these
    devices to the user's program.
    """
    library: Any = jax
    if request.platform == "cuda":
        return partial(arrange_gpus, "opcheck"), lambda sizes, explicit: nullcontext()
    if request.platform:

        def build_here(sizes: Mapping[str, int], explicit: Sequence[str]) -> Any:
            return arrange_mesh(library.devices("cpu")[: prod(sizes.values())], sizes, explicit)

        return build_here, lambda sizes, explicit: nullcontext()
    description = fit_description(request.description).text

    def build(sizes: Mapping[str, int], explicit: Sequence[str]) -> Any:
        return build_mesh(sizes, description, explicit)

    @contextmanager
    def answering(sizes: Mapping[str, int], explicit: Sequence[str]) -> Generator[None]:
        devices = build(sizes, explicit).devices.flat
        with import_as(description, devices), answer_as(devices, description):
            yield

    return build, answering


def _read_capability(device: Any) -> int:
    """Returns the compute capability of a GPU, such as 90; 0 for another device."""
    return int(str(getattr(device, "compute_capability", 0)).replace(".", ""))


def _find_source(call: KernelEquation) -> SourceLine | None:
    """Returns the user's line that makes a call. Inside of a library's own `jit`, JAX knows only the lines of the library,
    and the equation of that `jit` has the user's.
    """
    for one in (call, *call.around):
        lines, function = read_traceback(one.equation.source_info.traceback)
        if lines:
            return SourceLine(file=lines[0][0], line=lines[0][1], function=function)
    return None


def _is_dropped(call: KernelEquation) -> bool:
    """Returns whether JAX drops a call when it lowers the program: nothing uses its results, or those of the `jit` around
    it, and it writes no Ref.
    """
    inlined = takewhile(lambda one: one.equation.primitive.name in _JITS, call.around)
    return any(map(_is_unused, (call, *inlined)))


def _is_unused(call: KernelEquation) -> bool:
    equation = call.equation
    if equation.effects or any(is_reference(variable.aval) for variable in equation.invars):
        return False
    read = {id(variable) for other in call.jaxpr.eqns for variable in other.invars} | set(map(id, call.jaxpr.outvars))
    return not any(id(variable) in read for variable in equation.outvars)


def _find_bind(call: TracedCall, binds: Sequence[Bind]) -> Bind:
    return next(bind for bind in binds if bind.call.is_same(call))


def _lower_bind(bind: Any, lowering: "_Lowering", request: OpcheckRequest) -> FoundCall:
    """Returns the record of a call that JAX dropped while it traced the program."""
    module, trouble = lowering.lower(bind.primitive, bind.params, bind.avals)
    call = bind.call
    source = SourceLine(file=call.lines[0][0], line=call.lines[0][1], function=call.function) if call.lines else None
    return FoundCall(
        kernel=call.kernel,
        source=call.site or source,
        module=module,
        trouble=trouble,
        is_dropped=True,
        not_run="JAX drops it before the program runs" if request.platform else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lowering:
    """Lowers one call after another by itself, and keeps the kernels that libraries have for them."""

    platform: str
    compute_capability: int
    """Compute capability of the GPU, such as 90; 0 for a CPU."""
    kernels: dict[str, LibraryKernel] = field(default_factory=dict[str, LibraryKernel])
    """The kernels of calls without a payload, by their targets."""

    def lower_equation(self, equation: Any) -> tuple[str, str]:
        """Lowers the call of a jaxpr's equation and returns the same as `lower`."""
        return self.lower(equation.primitive, equation.params, [variable.aval for variable in equation.invars])

    def lower(self, primitive: Any, params: Mapping[str, Any], avals: Sequence[Any]) -> tuple[str, str]:
        """Lowers one call as a program of its own. Returns (the program's HLO in base64, empty text). If JAX cannot
        lower the call, returns (empty text, the reason).
        """
        library: Any = jax
        try:
            jitted = library.jit(make_function(primitive, params, avals), keep_unused=True)
            lowered = jitted.trace(*map(make_shape, avals)).lower(lowering_platforms=(self.platform,))
            module = lowered.compiler_ir("stablehlo")
            hlo = translate_to_hlo(str(module))
        except Exception as fault:
            traceback.print_exception(fault)
            return "", f"JAX cannot lower the call by itself: {describe_fault(fault)}"
        if self.compute_capability:
            for kernel in find_library_kernels(module, self.compute_capability):
                self.kernels.setdefault(kernel.target, kernel)
        return base64.b64encode(hlo).decode(), ""


@dataclass(slots=True, eq=False)
class _Runs:
    """The runs of the calls, by the `id()` of the call's equation, and the reasons why other calls did not run."""

    found: dict[int, CallRun] = field(default_factory=dict[int, CallRun])
    missed: dict[int, str] = field(default_factory=dict[int, str])
    failures: dict[int, RunFailure] = field(default_factory=dict[int, RunFailure])


def _run_calls(closed: Any, case: Case, device: Any, request: OpcheckRequest) -> _Runs:
    """Evaluates the program on the device and tries each kernel call on the operands that it gets."""
    library: Any = jax
    runs = _Runs()

    def visit(equation: Any, operands: Sequence[Any]) -> None:
        avals = [variable.aval for variable in equation.invars]
        results = [*(one.aval for one in equation.outvars), *(aval for aval in avals if is_reference(aval))]
        kernel = LoneKernel(
            function=make_function(equation.primitive, equation.params, avals),
            operands=tuple(map(make_shape, avals)),
            results=tuple(map(make_shape, results)),
        )
        try:
            contents = [  # of copies, because JAX remembers what it has read of an array
                np.array(library.numpy.copy(one[...] if is_reference(aval) else one), spec.dtype)
                for one, aval, spec in zip(operands, avals, kernel.operands, strict=True)
            ]
            tried = compile_kernel(kernel, contents, device)
        except Exception as fault:
            traceback.print_exception(fault)
            runs.missed[id(equation)] = (
                f"the call could not be compiled by itself for the device: {describe_fault(fault)}"
            )
            return
        try:
            runs.found[id(equation)] = tried.observe(perturbs_integers=request.perturbs_integers)
        except Exception as fault:
            traceback.print_exception(fault)
            runs.missed[id(equation)] = f"a run of the call by itself failed: {describe_fault(fault)}"
            runs.failures[id(equation)] = RunFailure.CALL

    def place(array: Any) -> Any:
        numbers = array if is_key(str(array.dtype)) else np.array(array)  # a copy, which a kernel may overwrite
        return library.device_put(numbers, device)

    with library.default_device(library.devices("cpu")[0]):
        drawn = library.tree.leaves(draw_arguments(case, 0))
    evaluation = EagerEvaluation(visit)
    fault_text, failure = "the program does not reach the call with these arguments", RunFailure.NONE
    try:
        evaluation.run(closed, [place(array) for array in drawn])
    except Exception as fault:
        traceback.print_exception(fault)
        fault_text = f"the program failed before it reached the call: {describe_fault(fault)}"
        failure = RunFailure.PROGRAM
    for equation in (one.equation for one in iterate_kernel_equations(closed.jaxpr)):
        if id(equation) not in evaluation.visited:
            runs.missed[id(equation)] = evaluation.missed.get(id(equation), fault_text)
            is_known = id(equation) in evaluation.missed
            has_failed = id(equation) in evaluation.failed
            runs.failures[id(equation)] = RunFailure.PROGRAM if has_failed else RunFailure.NONE if is_known else failure
    return runs
