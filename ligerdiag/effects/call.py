"""Computes the effects of one custom call, whatever its target.

Custom calls that carry no kernel to read: which targets only read their operands and write their outputs.

If such a call overwrites an operand, XLA knows: the instruction's `output_to_operand_aliasing` says so, and the output
is written. A target that is in no table is UNKNOWN, unless the user declares it (`declared`).

There are no targets of NCCL: XLA's collectives are instructions of their own. Files without a repository are XLA's.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ligerdiag.effects.access import Access, CallEffects, create_unknown_effects
from ligerdiag.effects.mosaic.module import tell_apart
from ligerdiag.effects.payload import LaunchConfiguration, parse_pallas_call, parse_triton_call, parse_triton_ffi_call
from ligerdiag.errors import ArtifactError

_EXACT = frozenset(
    {
        # XLA's rewrites to cuBLAS: xla/service/gpu/cublas_cudnn.cc. An accumulated C operand is aliased by the rewriter.
        "__cublas$gemm",
        "__cublas$lt$matmul",
        "__cublas$lt$matmul$f8",
        "__cublas$lt$groupedMatmul",
        "__cublas$triangularSolve",
        # XLA's own kernels: xla/service/gpu/ir_emission_utils.h, xla/backends/gpu/runtime/select_k_thunk.
        "__gpu$TopK",
        "TopK",
        "SliceToDynamic",
        "PadToStatic",
        "__op$block_scaled_dot",
        # Markers, identities by the time they run: xla/service/spmd/shardy/constants.h,
        # xla/hlo/ir/hlo_sharding_metadata, xla/service/memory_annotations.h, jax/_src/interpreters/mlir.py.
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "LayoutConstraint",
        "annotate_device_placement",
        "MoveToHost",
        "MoveToDevice",
        "AllocateBuffer",
        "dce_sink_gpu_ffi",
        "dce_sink",
        # JAX's FFI kernels for linear algebra and random bits: jaxlib/gpu/{solver,linalg,prng,rnn,sparse}_kernels_ffi.cc,
        # jaxlib/gpu/hybrid_kernels.cc. An input that is not aliased to its output is copied before it is overwritten.
        "cu_threefry2x32_ffi",
        "cu_cholesky_update_ffi",
        "cu_lu_pivots_to_permutation",
        "cu_tridiagonal_solve_perturbed",
        "cudnn_rnn_ffi",
        "cudnn_rnn_bwd_ffi",
        "cuhybrid_eig_real",
        "cuhybrid_eig_comp",
        "cuhybrid_geqp3",
        # The same on the CPU: jaxlib/cpu/{lapack,sparse}_kernels.cc.
        "tridiagonal_solve_perturbed_ffi",
        "cpu_csr_sparse_dense_ffi",
        # Host callbacks: operands are copied to NumPy arrays, on the CPU read-only views of them
        # (jax/_src/callback.py, jaxlib/gpu/py_client_gpu.cc, jaxlib/py_client_cpu.cc).
        "xla_ffi_python_gpu_callback",
        "xla_ffi_partitioned_python_gpu_callback",
        "xla_python_gpu_callback",
        "xla_ffi_python_cpu_callback",
        "xla_ffi_partitioned_python_cpu_callback",
        "xla_python_cpu_callback",
    }
)

_FAMILIES = re.compile(
    "|".join(
        (
            # xla/service/gpu/cublas_cudnn.cc: convolutions, norm, flash attention forward and backward, fusions.
            r"__cudnn\$(?:conv\w+|norm|fhma\w+|fmha\w+|fusion|blockScaledDot)",
            # xla/service/gpu/transforms/{sort,scan}_rewriter.cc: CUB.
            r"xla\.gpu\.ext\.cub_\w+",
            r"__cub\$\w+",
            # xla/service/spmd/shardy/constants.h: gone before scheduling.
            r"xla\.sdy\.\w+",
            # jaxlib/gpu/solver_kernels_ffi.cc, jaxlib/gpu/sparse_kernels.cc.
            r"cusolver_\w+_ffi",
            r"cusparse_\w+_ffi",
            # jaxlib/cpu/lapack_kernels.cc.
            r"lapack_[sdcz]\w+_ffi",
        )
    ),
    re.ASCII,
)


_BUFFER_CALLBACK = "it hands the operands' own buffers to a Python function"
_MOSAIC = "a Mosaic GPU kernel, whose IR is not followed"

_EXPLAINED = {
    "mosaic_gpu": _MOSAIC,
    "__gpu$xla.gpu.ptx": "a kernel in PTX, which is not followed",
    # jax/_src/buffer_callback.py, jaxlib/gpu/py_client_gpu.cc
    "xla_buffer_python_gpu_callback": _BUFFER_CALLBACK,
    "xla_buffer_python_gpu_callback_cmd_buffer": _BUFFER_CALLBACK,
    "xla_buffer_python_cpu_callback": _BUFFER_CALLBACK,
}
"""Notes on targets whose effects depend on their users."""

# jax/experimental/mosaic/gpu/core.py names the kernel's host function so; in MLIR's bytecode strings end with a zero.
# `stable_mosaic_gpu` is the dialect of every module.
_MOSAIC_NAME = re.compile(rb"(?:\x00|\\00|^)(?!stable_)([A-Za-z_][\w.$-]*?)_mosaic_gpu(?=\x00|\\00)", re.ASCII)
_FOLLOWED_MOSAIC = "mosaic_gpu_v2"


def compute_listed_effects(*, target: str, backend_config: bytes, operands: int, outputs: int) -> CallEffects:
    """Effects of a call to a known target; UNKNOWN for any other."""
    if target in _EXACT or _FAMILIES.fullmatch(target):
        return CallEffects(
            kernel=target,
            operands=(Access.READ,) * operands,
            outputs=(Access.WRITE,) * outputs,
        )
    kernel = _find_mosaic_name(backend_config) if _EXPLAINED.get(target) is _MOSAIC else ""
    what = (
        f"`{target}`: {_EXPLAINED[target]}"
        if target in _EXPLAINED
        else f"no table entry for custom-call target `{target}`"
    )
    return create_unknown_effects(
        kernel=kernel or target,
        operands=operands,
        outputs=outputs,
        reason=f"{what}; say what it writes under [tool.ligerdiag.effects]",
    )


def _find_mosaic_name(backend_config: bytes) -> str:
    """Returns the name of the Pallas kernel inside of a Mosaic GPU module; empty if it is unknown."""
    match = _MOSAIC_NAME.search(backend_config)
    return tell_apart(match[1].decode("ascii"), backend_config) if match else ""


_KERNEL_PARSERS: dict[str, Callable[[bytes], tuple[LaunchConfiguration, ...]]] = {
    "triton_kernel_call": parse_triton_call,
    "triton_kernel_call_ffi": parse_triton_ffi_call,
    "__gpu$xla.gpu.triton": parse_pallas_call,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCall:
    """The parts of a custom-call instruction that its effects depend on."""

    target: str
    backend_config: bytes
    operands: int
    """Number of its operands."""
    outputs: int
    """Number of its outputs: the leaves of a tuple, one for an array."""
    sizes: tuple[int | None, ...] = ()
    """Bytes of each operand, then of each output, None where not known; () where none are."""


def carries_kernel(target: str) -> bool:
    """Returns whether calls to `target` carry a kernel in Triton IR."""
    return target in _KERNEL_PARSERS


def needs_parser(target: str) -> bool:
    """Returns whether the effects of calls to `target` come from IR that a parser in C++ reads."""
    return carries_kernel(target) or target == _FOLLOWED_MOSAIC


def parse_configurations(target: str, backend_config: bytes) -> tuple[LaunchConfiguration, ...]:
    """Returns the launches that a call to `target` may do, () where it carries no kernel; raises ArtifactError."""
    parse = _KERNEL_PARSERS.get(target)
    return () if parse is None else parse(backend_config)


def compute_call_effects(
    *, target: str, backend_config: bytes, operands: int, outputs: int, sizes: Sequence[int | None] = ()
) -> CallEffects:
    """Returns the effects of the call on each buffer; UNKNOWN, with a reason, if its payload cannot be read.

    sizes: see `CustomCall`. Without them it is not known whether a kernel writes all of a buffer.

    For a target that carries a kernel this imports Triton, or JAX for a Mosaic GPU kernel, and gives its MLIR parser
    the payload's bytes: a hostile payload can kill the process. `isolated` does the same in another one.
    """
    if target == _FOLLOWED_MOSAIC:
        return _compute_mosaic_effects(backend_config, operands, outputs)
    if not carries_kernel(target):
        return compute_listed_effects(target=target, backend_config=backend_config, operands=operands, outputs=outputs)
    try:
        calls = parse_configurations(target, backend_config)
    except ArtifactError as error:
        return create_unknown_effects(kernel=target, operands=operands, outputs=outputs, reason=str(error))
    from ligerdiag.effects.kernel_effects import compute_kernel_effects

    return compute_kernel_effects(calls, operands=operands, outputs=outputs, sizes=sizes)


def _compute_mosaic_effects(backend_config: bytes, operands: int, outputs: int) -> CallEffects:
    from ligerdiag.effects.mosaic.module import compute_mosaic_effects

    effects = compute_mosaic_effects(
        target=_FOLLOWED_MOSAIC, backend_config=backend_config, operands=operands, outputs=outputs
    )
    if effects.kernel != _FOLLOWED_MOSAIC:
        return effects
    return replace(effects, kernel=_find_mosaic_name(backend_config) or _FOLLOWED_MOSAIC)
