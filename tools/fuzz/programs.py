"""Defines the parts of a random program, before anything is traced.

A value is an array f32, bf16, f16 or f8e4m3fn[rows, 16], times the program's scale, with a number of its own. All
values have a magnitude of about one, so that any value can feed any step. A step computes values from values: by an
operation (`source.OPERATIONS`), a kernel that overwrites some operands, or a construct of JAX with blocks inside
(`CONSTRUCTS`). After a kernel, a value's number means the overwritten value.

A block has parameters, steps and results. It may read the values around it, and overwrites only its own; a `call` also
overwrites its operands, which are the caller's values. If JAX leaves open whether two values are one (the initial value
of a loop, the operands of a branch or a `shard_map`), the construct gets copies.
"""

from dataclasses import dataclass

COLUMNS = 16
DTYPES = ("float32", "bfloat16", "float16", "float8_e4m3fn")
KERNELS = {
    "bend": 1, "left": 1, "upper": 1, "positive": 1, "carry": 1, "add": 1, "damp": 2, "turn": 2, "glow": 1, "mix": 2,
}  # fmt: skip
"""Kernel to its number of operands."""
PALLAS = ("glow", "mix")
"""Kernels written in Pallas for Triton; the others are Triton kernels, which jax-triton does not batch."""
PARTIAL = ("left", "upper", "positive", "carry", "add")
"""Kernels that leave part of their operand unchanged, or read what they wrote: they have no out-of-place form."""
MODES = ("hidden", "trivial", "barrier", "aliased", "out_of_place")
CONSTRUCTS = ("scan", "while", "map", "cond", "call", "gradient", "shard_map", "vmap")
UNARY = (
    "tanh", "scale", "shift", "flip", "roll", "centre", "softmax", "leaky", "halves", "update", "sort", "cumsum", "take",
    "moving", "pad", "reshape", "normalise", "stop",
)  # fmt: skip
"""Operations that keep the kind of their operand."""
SMOOTH = ("tanh", "scale", "shift", "flip", "roll", "centre", "softmax", "leaky", "halves", "reshape", "normalise")
"""Operations that may be differentiated."""
FORMS = ("direct", "direct", "cast", "twice")
REFS = 10_000_000
"""Seeds from here on give programs in the style of jax-triton 0.4: Refs, `call_in_place`, derivatives."""
KINDS = ("differentiated", "repeated", "any")
"""Kinds of programs with Refs: a derivative around a kernel, a loop or a `jax.checkpoint` around one, any program."""
REF_MODES = ("ref", "read", "in_place")
"""Modes besides MODES: a frozen Ref, a read Ref, and `call_in_place`, which replaces both before 0.4."""
ZEROS = "zeros"
"""A mode in which a Ref is read instead of frozen, and the kernel's sums are a Ref of zeros, which JAX may move."""
POLICIES = {
    "plain": "{0}",
    "checkpoint": "jax.checkpoint({0})",
    "nothing": "jax.checkpoint({0}, policy=jax.checkpoint_policies.nothing_saveable)",
    "dots": "jax.checkpoint({0}, policy=jax.checkpoint_policies.dots_saveable)",
    "everything": "jax.checkpoint({0}, policy=jax.checkpoint_policies.everything_saveable)",
}
"""Name of a policy to the wrapper of a forward pass: which values a derivative saves."""
LAYOUTS = ("rows", "columns", "whole")
DEPTH = 2


def find_kind(seed: int) -> str | None:
    """Returns the kind of a program with Refs; None for a program without."""
    return KINDS[(seed - REFS) % len(KINDS)] if seed >= REFS else None


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """Shape and dtype of a value."""

    rows: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Variable:
    number: int
    kind: ArrayKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a block. word: an operation, a kernel or a construct."""

    word: str
    inputs: tuple[Variable, ...] = ()
    outputs: tuple[Variable, ...] = ()
    numbers: tuple[int, ...] = ()
    """Choices of the step, each below 100."""
    mode: str = ""
    """Mode of a kernel, a derivative or an annotation; `FORM:MODE` of a loss, `KERNEL:MODE` of a layer."""
    blocks: tuple["Body", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A block: parameters, steps and results."""

    parameters: tuple[Variable, ...]
    steps: tuple[Step, ...]
    results: tuple[Variable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomProgram:
    """One program."""

    seed: int
    variant: int = 0
    """Number of a smaller program that was made from the seed's program; 0 for that program."""
    draw: int = 0
    """Number of the draw of its arguments."""
    devices: int
    scale: int
    """Factor of the numbers of rows and columns, `ArrayKind.rows` and COLUMNS."""
    donated: tuple[int, ...]
    """Positions of the arguments that are donated."""
    layouts: tuple[str, ...]
    """For each argument one of LAYOUTS: how it is split over the devices."""
    block: Body
