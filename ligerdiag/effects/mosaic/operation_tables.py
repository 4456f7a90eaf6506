"""Lists the operations of a Mosaic GPU module that read memory, write memory, pass pointers on, or do none of these;
classifies inline PTX.

An operation in none of these tables is unknown: it may read and write through any of its pointers.
"""

import re
from enum import StrEnum

READS = {
    "memref.load": 0,
    "vector.load": 0,
    "vector.maskedload": 0,
    "vector.gather": 0,
    "vector.transfer_read": 0,
    "nvvm.ldmatrix": 0,
    "nvvm.cp.async.bulk.shared.cluster.global": 1,
}
"""Operations that read memory, and the number of the operand through which each reads."""

WRITES = {
    "llvm.store": 1,
    "memref.store": 1,
    "vector.store": 1,
    "vector.maskedstore": 0,
    "vector.scatter": 0,
    "vector.transfer_write": 1,
    "nvvm.stmatrix": 0,
    "nvvm.cp.async.bulk.global.shared.cta": 0,
}
"""Operations that write memory, and the number of the operand through which each writes."""

UPDATES = {"memref.atomic_rmw": 1, "llvm.atomicrmw": 0, "llvm.cmpxchg": 0, "nvvm.cp.reduce.async.bulk.global": 0}
"""Operations that read and write the same memory, and the number of the operand through which each does both."""

DESCRIPTOR_READS = frozenset({"nvvm.cp.async.bulk.tensor.shared.cluster.global"})
DESCRIPTOR_WRITES = frozenset({"nvvm.cp.async.bulk.tensor.global.shared.cta"})
DESCRIPTOR_UPDATES = frozenset({"nvvm.cp.async.bulk.tensor.reduce"})
"""TMA reductions, which read and write through the descriptor whose address is one of their operands; the two sets
above list TMA copies.
"""

INITIALISER = "mosaic_gpu_init_tma_desc"
"""Name of the host's function that makes a TMA descriptor; its operands are the address at which to make the
descriptor, and the address that the descriptor describes.
"""

_DERIVES = re.compile(
    r"(?:builtin\.unrealized_conversion_cast"
    r"|memref\.(?:subview|cast|reinterpret_cast|memory_space_cast|expand_shape|collapse_shape|transpose|view"
    r"|extract_aligned_pointer_as_index)"
    r"|arith\.\w+|index\.\w+"
    r"|llvm\.(?:getelementptr|addrspacecast|inttoptr|ptrtoint|bitcast|insertvalue|extractvalue|insertelement"
    r"|extractelement|add|sub|mul|and|or|xor|shl|lshr|ashr|udiv|sdiv|urem|srem|select|zext|sext|trunc|icmp)"
    r"|vector\.(?:bitcast|broadcast|extract|extract_strided_slice|from_elements|insert|insert_strided_slice|shape_cast"
    r"|shuffle|splat|to_elements)"
    r"|nvvm\.shfl\.sync|nvvm\.mapa)",
    re.ASCII,
)
_HARMLESS = re.compile(
    r"(?:func\.return|gpu\.(?:terminator|block_id|block_dim|thread_id|grid_dim|cluster_\w+|lane_id|barrier|wait)"
    r"|gpu\.dynamic_shared_memory|llvm\.mlir\.(?:constant|undef|poison|zero|global|addressof)|llvm\.fence"
    r"|llvm\.f\w+|math\.\w+|memref\.(?:dim|rank|alloca)"
    r"|scf\.(?:yield|condition|for|while|if|index_switch|execute_region)|builtin\.module|func\.func|gpu\.launch"
    r"|vector\.(?:create_mask|reduction|step)"
    r"|nvvm\.(?:elect\.sync|fence\.[\w.]+|barrier[\w.]*|bar\.[\w.]+|cluster\.[\w.]+|mbarrier\.[\w.]+|wgmma\.[\w.]+"
    r"|cp\.async\.bulk\.(?:commit\.group|wait_group)|read\.ptx\.sreg\.[\w.]+|prefetch\.tensormap|setmaxregister"
    r"|griddepcontrol[\w.]*))",
    re.ASCII,
)


def derives_pointers(name: str) -> bool:
    """Returns whether the operation called `name` accesses no memory and may return addresses made from its operands."""
    return _DERIVES.fullmatch(name) is not None


def is_harmless(name: str) -> bool:
    """Returns whether the operation called `name` accesses no buffer, and passes addresses only to and from its own
    regions.
    """
    return _HARMLESS.fullmatch(name) is not None


class AsmKind(StrEnum):
    """The strongest effect of inline PTX on memory. Effects on shared memory do not count."""

    NOTHING = "nothing"
    READ = "read"
    WRITE = "write"
    UPDATE = "update"
    UNKNOWN = "unknown"


_ASM_LOCAL = re.compile(
    r"(?:\.reg\b|prefetch\b|prefetch\.tensormap|bar\.|barrier\.|fence\.|membar\.|mbarrier\.|setmaxnreg\.|wgmma\."
    r"|cp\.async\.bulk\.(?:commit_group|wait_group)|cp\.async\.bulk\.prefetch|griddepcontrol\.|elect\.|nanosleep\."
    r"|(?:ld|st|red|atom)(?:\.\w+)*\.shared\b|st\.async\b|ldmatrix\.|stmatrix\."
    r"|(?:setp|mov|add|sub|mul|mad|fma|and|or|xor|not|shl|shr|selp|cvt|max|min|neg|abs|ex2|lg2|rcp|sqrt|rsqrt|tanh|sin"
    r"|cos|prmt|lop3|shfl|popc|clz|bfe|bfi|cvta)\."
    r"|tcgen05\.(?:alloc|dealloc|relinquish_alloc_permit|mma|cp|ld|st|wait|commit|fence|shift)\b)",
    re.ASCII,
)
_TMA = re.compile(r"cp\.async\.bulk(?:\.tensor)?(?:\.\dd)?\.(?P<to>\w+)(?:::\w+)?\.(?P<source>\w+)?", re.ASCII)
_PREDICATE = re.compile(r"@!?[%$]?\w+\s+")


def classify_inline_assembly(text: str) -> AsmKind:
    """Returns the effect of inline PTX on global memory. UNKNOWN if an instruction is in no table, or if the
    PTX reads by one instruction and writes by a second one.
    """
    kinds = {_classify_instruction(line) for line in re.split(r"[;{}]\s*", _drop_operand_lists(text))}
    for kind in (AsmKind.UNKNOWN, AsmKind.UPDATE):
        if kind in kinds:
            return kind
    if {AsmKind.READ, AsmKind.WRITE} <= kinds:
        return AsmKind.UNKNOWN
    return next((kind for kind in (AsmKind.WRITE, AsmKind.READ) if kind in kinds), AsmKind.NOTHING)


def _drop_operand_lists(text: str) -> str:
    """Returns PTX without comments and lists of registers. Lists of registers are in braces, as scopes are, but only
    the braces of a scope separate instructions.
    """
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r"\{(?:\s*[$%]\w+\s*,?)+\}", "", text)


def _classify_instruction(line: str) -> AsmKind:
    line = _PREDICATE.sub("", line.strip(), count=1).strip()
    if not line:
        return AsmKind.NOTHING
    if _ASM_LOCAL.match(line):
        return AsmKind.NOTHING
    if match := _TMA.match(line):
        to, source = match["to"], match["source"]
        if to == "global" and source == "shared":
            return AsmKind.WRITE
        return AsmKind.READ if to == "shared" and source == "global" else AsmKind.UNKNOWN
    if line.startswith(("ld.", "ldu.")):
        return AsmKind.READ
    if line.startswith("st."):
        return AsmKind.WRITE
    if line.startswith(("red.", "atom.", "cp.reduce.async.bulk")):
        return AsmKind.UPDATE
    return AsmKind.UNKNOWN
