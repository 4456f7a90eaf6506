"""Finds the edges along which `pointer_flow` propagates roots. An edge is a pair of values of a function: the second value
may hold the pointer that the first value holds.

The *roots* of a pointer are the arguments from which the pointer may come. Edges lead:

- Pure operations: from every pointer operand to every pointer result.
- `scf.for`, `scf.while`, `scf.if`: from initial values, yields and conditions to block arguments and results, by
  position.
- `cf.br` and `cf.cond_br`: by position, to every block that could be the target. Triton's bindings do not show the target,
  but the operands of a branch must match the arguments of the target block one by one. Other branches: from everything to
  everything.
- Reductions, scans and element-wise maps: from every operand and returned value to every block argument and result.

Calls have no edges here: they need the callee's summary.

The tables of memory effects by operation come from the ODS files of Triton 3.6 (TritonOps.td, TritonGPUOps.td,
TritonNvidiaGPUOps.td). Triton before 3.2 also has `llvm.mlir.undef`, a value that is not defined yet, at the beginning of a
loop. An operation in no table has unknown effects.

An integer made from an address may lead anywhere when it is added to another address: `y + (x - y)`, with both
addresses as integers, is `x`. `find_address_integers` follows such integers forward, as a least fixpoint, through
everything but memory: to the results of an operation with such an operand, and to the arguments of its blocks. Branches
and ends of regions pass an integer on to every block and result of the operation that contains them.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from ligerdiag.effects.access import Access
from ligerdiag.effects.ttir_module import Block, Function, Operation

FREE_DIALECTS = ("arith.", "math.", "ub.")
"""Prefixes of dialects without any memory effect; their pointer results come from their pointer operands."""

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
"""Operations without effect on global memory, except the launch's own scratch memory; their pointer results come from
their pointer operands.
"""

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
"""Operations that access global memory only through their first operand, and how they access it."""

REGION_OPERATIONS = frozenset({"scf.for", "scf.if", "scf.while", "tt.reduce", "tt.scan", "tt.map_elementwise"})
"""Operations with regions, through which each value is followed."""

# fmt: off
TERMINATORS = frozenset(
    {
        "scf.yield", "scf.condition", "cf.br", "cf.cond_br", "cf.switch", "tt.return", "tt.reduce.return",
        "tt.scan.return", "tt.map_elementwise.return",
    }
)
# fmt: on

NULL_POINTERS = frozenset({"ub.poison", "arith.constant"})
"""Operations whose pointer results are null or undefined."""

_ASSEMBLY_MEMORY = re.compile(r"\b(?:st|red|atom|ld|ldu|cp|multimem|call|prefetch\w*|tcgen05|mbarrier)\b", re.ASCII)


_LOADS = frozenset({"tt.load", "tt.descriptor_load", "tt.descriptor_gather"})
_COMBINES = frozenset({"tt.reduce", "tt.scan", "tt.map_elementwise"})


def find_dead_loads(function: Function) -> frozenset[int]:
    """Returns the indices of the loads that Triton's compiler drops because nothing uses their results.

    A volatile load is never dropped. Kernels from Pallas have unused loads: Pallas loads the bytes that a store overwrites.
    """
    needed: set[int] = set()
    live: set[int] = set()
    pending = True
    while pending:
        pending = False
        for op in reversed(function.operations):
            if op.index in live:
                continue
            is_load = op.name in _LOADS and "isVolatile = true" not in op.text
            if not (is_load or is_free(op.name) or op.name in _COMBINES) or not needed.isdisjoint(op.results):
                live.add(op.index)
                needed.update(op.operands)
                pending = True
    return frozenset(op.index for op in function.operations if op.name in _LOADS and op.index not in live)


def is_free(name: str) -> bool:
    """Returns whether the operation called `name` has no effect on global memory. Operations in its regions do not count."""
    return name in FREE_OPERATIONS or name.startswith(FREE_DIALECTS)


def touches_memory(assembly: str) -> bool:
    """Returns whether inline PTX has an instruction that can access memory. Ignores the operation's `pure` attribute."""
    return _ASSEMBLY_MEMORY.search(assembly) is not None


def is_confined(assembly: str) -> bool:
    """Returns whether inline PTX certainly accesses no memory. It then has no brackets, which PTX puts around each
    address.
    """
    return bool(assembly) and "[" not in assembly and not touches_memory(assembly)


def find_address_integers(function: Function, returning: Collection[str]) -> frozenset[int]:
    """Returns the integers of a function that are made from addresses.

    returning: names of the functions that are known to return an integer made from an address.
    """
    found: set[int] = set()
    pointers = function.pointers
    if not any(op.name == "tt.ptr_to_int" or op.callee in returning for op in function.operations):
        return frozenset()
    while True:
        before = len(found)
        for op in function.operations:
            starts = op.name == "tt.ptr_to_int" or (op.name == "tt.call" and op.callee in returning)
            if starts or not found.isdisjoint(op.operands):
                found.update(value for value in _list_targets(op, function) if value not in pointers)
        if len(found) == before:
            return frozenset(found)


def _list_targets(op: Operation, function: Function) -> Iterator[int]:
    yield from op.results
    yield from (argument for region in op.regions for block in region for argument in block.arguments)
    if op.name in TERMINATORS:
        parent = function.operations[op.parent] if op.parent >= 0 else None
        if parent is not None:
            yield from parent.results
        for region in parent.regions if parent is not None else (function.blocks[1:],):
            for block in region:
                yield from block.arguments


type PointerEdge = tuple[int, int]
"""Two values of a function: the second may hold the pointer that the first holds."""

_MIXERS = ("tt.reduce", "tt.scan", "tt.map_elementwise")
_MIXER_RETURNS = ("tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return")


def compute_edges(function: Function) -> Iterator[PointerEdge]:
    """Yields all edges of a function. An edge is a pair of values: the second may be a pointer made from the first."""
    pointers = function.pointers
    for op in function.operations:
        for source, target in _compute_operation_edges(op, function):
            if source in pointers and target in pointers:
                yield source, target


def _compute_operation_edges(op: Operation, function: Function) -> Iterable[PointerEdge]:
    parent = function.operations[op.parent] if op.parent >= 0 else None
    match op.name:
        case "scf.for":
            # Operands: lower bound, upper bound, step, initial values. Block arguments: induction variable, iterated.
            yield from _pair(op.operands[3:], _get_arguments(op, 0)[1:])
            yield from _pair(op.operands[3:], op.results)
        case "scf.while":
            yield from _pair(op.operands, _get_arguments(op, 0))
        case "scf.yield" if parent is not None:
            if parent.name != "scf.while":
                yield from _pair(op.operands, parent.results)
            if parent.name == "scf.for":
                yield from _pair(op.operands, _get_arguments(parent, 0)[1:])
            elif parent.name == "scf.while":
                yield from _pair(op.operands, _get_arguments(parent, 0))
        case "scf.condition" if parent is not None:
            yield from _pair(op.operands[1:], _get_arguments(parent, 1))
            yield from _pair(op.operands[1:], parent.results)
        case "cf.br" | "cf.cond_br" | "cf.switch":
            blocks = parent.regions[op.region] if parent is not None else function.blocks
            yield from _compute_branch_edges(op, blocks[1:], function.pointers)
        case name if name in _MIXERS:
            yield from _mix(op.operands, _get_all_targets(op), function.pointers)
        case name if name in _MIXER_RETURNS and parent is not None:
            yield from _mix(op.operands, _get_all_targets(parent), function.pointers)
        case name if is_free(name):
            yield from _mix(op.operands, op.results, function.pointers)
        case _:
            pass


def _compute_branch_edges(op: Operation, blocks: Sequence[Block], pointers: frozenset[int]) -> Iterator[PointerEdge]:
    match op.name:
        case "cf.br":
            for block in blocks:
                if _fits(op.operands, block, pointers):
                    yield from _pair(op.operands, block.arguments)
        case "cf.cond_br":
            # Operands: the condition, those for the true block, those for the false block.
            passed = op.operands[1:]
            size = len(passed)
            if_true = [block for block in blocks if _fits(passed[: len(block.arguments)], block, pointers)]
            if_false = [block for block in blocks if _fits(_take_last(passed, block), block, pointers)]
            true_sizes = {len(block.arguments) for block in if_true}
            false_sizes = {len(block.arguments) for block in if_false}
            for block in if_true:
                if size - len(block.arguments) in false_sizes:
                    yield from _pair(passed, block.arguments)
            for block in if_false:
                if size - len(block.arguments) in true_sizes:
                    yield from _pair(_take_last(passed, block), block.arguments)
        case _:
            for block in blocks:
                yield from _mix(op.operands, block.arguments, pointers)


def _take_last(passed: tuple[int, ...], block: Block) -> tuple[int, ...]:
    return passed[max(0, len(passed) - len(block.arguments)) :]


def _fits(passed: tuple[int, ...], block: Block, pointers: frozenset[int]) -> bool:
    """Returns whether the operands passed by a branch could be the arguments of the block: as many, with pointers in
    the same positions.
    """
    if len(passed) != len(block.arguments):
        return False
    return all((source in pointers) == (target in pointers) for source, target in _pair(passed, block.arguments))


def _get_arguments(op: Operation, region: int) -> tuple[int, ...]:
    if region >= len(op.regions) or not op.regions[region]:
        return ()
    return op.regions[region][0].arguments


def _get_all_targets(op: Operation) -> tuple[int, ...]:
    arguments = (argument for region in op.regions for block in region for argument in block.arguments)
    return (*op.results, *arguments)


def _pair(sources: Iterable[int], targets: Iterable[int]) -> Iterable[PointerEdge]:
    return zip(sources, targets, strict=False)


def _mix(sources: Iterable[int], targets: Iterable[int], pointers: frozenset[int]) -> Iterator[PointerEdge]:
    kept = [target for target in targets if target in pointers]
    return ((source, target) for source in sources if source in pointers for target in kept)
