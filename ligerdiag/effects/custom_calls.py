"""Custom calls that carry no kernel to read: which targets only read their operands and write their outputs.

Where such a call overwrites an operand, XLA knows: the instruction's `output_to_operand_aliasing` says so, and the
output is what is written. A target that stands in no table is UNKNOWN.
"""

import re

from ligerdiag.effects.access import Access, CallEffects, create_unknown_effects

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
        # JAX's FFI kernels for linear algebra and random bits: jaxlib/gpu/{solver,linalg,prng,rnn,sparse}_kernels_ffi.cc.
        # They copy an input that is not aliased to its output before the library overwrites it.
        "cu_threefry2x32_ffi",
        "cu_cholesky_update_ffi",
        "cu_lu_pivots_to_permutation",
        "cudnn_rnn_ffi",
        "cudnn_rnn_bwd_ffi",
        # Host callbacks: operands are copied to NumPy arrays (jax/_src/callback.py, xla/python/py_client_gpu.cc).
        "xla_ffi_python_gpu_callback",
        "xla_ffi_partitioned_python_gpu_callback",
        "xla_python_gpu_callback",
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
        )
    ),
    re.ASCII,
)


def compute_listed_effects(*, target: str, operands: int, outputs: int) -> CallEffects:
    """Effects of a call to a known target; UNKNOWN for any other."""
    if target in _EXACT or _FAMILIES.fullmatch(target):
        return CallEffects(
            kernel=target,
            operands=(Access.READ,) * operands,
            outputs=(Access.WRITE,) * outputs,
        )
    reason = f"no table entry for custom-call target `{target}`"
    return create_unknown_effects(kernel=target, operands=operands, outputs=outputs, reason=reason)
