"""The effects of each operation of Triton's dialects on memory, by name.

Sources: the ODS files of Triton 3.6 (TritonOps.td, TritonGPUOps.td, TritonNvidiaGPUOps.td) with their declared memory
effects; Triton before 3.2 has `llvm.mlir.undef`, a value that is not defined yet, where a loop begins. An operation
that is in no table has unknown effects.
"""

import re

from ligerdiag.effects.access import Access

FREE_DIALECTS = ("arith.", "math.", "ub.")
"""Dialects without any memory effect; their pointer results come from their pointer operands."""

# fmt: off
FREE_OPERATIONS = frozenset(
    {
        "tt.addptr", "tt.advance", "tt.assert", "tt.bitcast", "tt.broadcast", "tt.cat", "tt.clampf", "tt.dot",
        "tt.dot_scaled", "tt.expand_dims", "tt.fp_to_fp", "tt.gather", "tt.get_num_programs", "tt.get_program_id",
        "tt.histogram", "tt.join", "tt.make_range", "tt.make_tensor_descriptor", "tt.make_tensor_ptr", "tt.mulhiui",
        "tt.precise_divf", "tt.precise_sqrt", "tt.print", "tt.ptr_to_int", "tt.reshape", "tt.splat", "tt.split",
        "tt.trans", "tt.unsplat", "tt.reduce", "tt.scan", "tt.map_elementwise", "gpu.barrier", "gpu.block_id",
        "gpu.thread_id", "ttg.barrier", "ttg.convert_layout", "ttg.local_alloc", "ttg.local_barrier",
        "ttg.local_dealloc", "ttg.local_load", "ttg.local_store", "ttg.memdesc_index", "ttg.memdesc_reinterpret",
        "ttg.memdesc_reshape", "ttg.memdesc_subslice", "ttg.memdesc_trans", "ttg.async_commit_group",
        "ttg.async_wait", "ttng.init_barrier", "ttng.inval_barrier", "ttng.barrier_expect", "ttng.wait_barrier",
        "ttng.arrive_barrier", "ttng.fence_async_shared", "ttng.async_tma_store_wait", "ttng.warp_group_dot",
        "ttng.warp_group_dot_wait", "ttng.async_copy_mbarrier_arrive", "ttng.cluster_arrive", "ttng.cluster_wait",
        "ttng.tc_gen5_commit", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled", "ttng.tmem_alloc", "ttng.tmem_copy",
        "ttng.tmem_load", "ttng.tmem_store", "ttng.tmem_subslice", "ttg.fp4_to_fp", "ttg.predicate_stage", "cf.assert",
        "llvm.mlir.undef",
    }
)
# fmt: on
"""No effect on global memory beyond the launch's own scratch; pointer results come from the pointer operands."""

FIRST_OPERAND_ACCESS = {
    "tt.load": Access.READ,
    "tt.store": Access.WRITE,
    "tt.atomic_rmw": Access.READ_WRITE,
    "tt.atomic_cas": Access.READ_WRITE,
    "tt.descriptor_load": Access.READ,
    "tt.descriptor_gather": Access.READ,
    "tt.descriptor_store": Access.WRITE,
    "tt.descriptor_scatter": Access.WRITE,
    "tt.descriptor_reduce": Access.READ_WRITE,
    "tt.experimental_descriptor_load": Access.READ,
    "tt.experimental_descriptor_gather": Access.READ,
    "tt.experimental_descriptor_store": Access.WRITE,
    "tt.experimental_descriptor_scatter": Access.WRITE,
    "ttg.async_copy_global_to_local": Access.READ,
    "ttng.async_tma_copy_global_to_local": Access.READ,
    "ttng.async_tma_gather": Access.READ,
    "ttng.async_tma_copy_local_to_global": Access.WRITE,
    "ttng.async_tma_scatter": Access.WRITE,
    "ttng.async_tma_reduce": Access.READ_WRITE,
}
"""Operations that reach global memory through their first operand and through nothing else."""

REGION_OPERATIONS = frozenset({"scf.for", "scf.if", "scf.while", "tt.reduce", "tt.scan", "tt.map_elementwise"})
"""Operations whose regions are followed value by value."""

# fmt: off
TERMINATORS = frozenset(
    {
        "scf.yield", "scf.condition", "cf.br", "cf.cond_br", "cf.switch", "tt.return", "tt.reduce.return",
        "tt.scan.return", "tt.map_elementwise.return",
    }
)
# fmt: on

NULL_POINTERS = frozenset({"ub.poison", "arith.constant"})
"""Operations that make a pointer that points nowhere."""

_ASSEMBLY_MEMORY = re.compile(r"\b(?:st|red|atom|ld|ldu|cp|multimem|call|prefetch\w*|tcgen05|mbarrier)\b", re.ASCII)


def is_free(name: str) -> bool:
    """Returns whether the operation by itself (without its regions) has no effect on global memory."""
    return name in FREE_OPERATIONS or name.startswith(FREE_DIALECTS)


def touches_memory(assembly: str) -> bool:
    """Returns whether inline PTX names an instruction that can reach memory, whatever its `pure` attribute says."""
    return _ASSEMBLY_MEMORY.search(assembly) is not None
