"""What a random program consists of, before anything is traced.

1. A value is an array f32, bf16, f16 or f8e4m3fn[rows, 16] with a number of its own, times the program's scale.
   Everything is of magnitude about one, so that anything can feed anything.
2. A step computes values from values: by an operation (`source.OPERATIONS`), a kernel that overwrites some of its
   operands, or a construct of JAX's with blocks inside (`CONSTRUCTS`). After a kernel a value's number stands for what the
   kernel left.
3. A block has parameters, steps and results. It may read the values around it, and overwrites its own alone; a `call` also
   overwrites what it is called with, which are the caller's values.
4. Where JAX leaves it open whether two values are one (the initial value of a loop, the operands of a branch or of a
   `shard_map`), the values that are handed on are made for it.
"""

from dataclasses import dataclass

COLUMNS = 16
DTYPES = ("float32", "bfloat16", "float16", "float8_e4m3fn")
KERNELS = {
    "bend": 1, "left": 1, "upper": 1, "positive": 1, "carry": 1, "add": 1, "damp": 2, "turn": 2, "glow": 1, "mix": 2,
}  # fmt: skip
"""Kernel to its number of operands."""
PALLAS = ("glow", "mix")
"""Those that Pallas makes for Triton; the others are Triton's own, which jax-triton does not batch."""
PARTIAL = ("left", "upper", "positive", "carry", "add")
"""Kernels that leave some of their operand as it was, or read what they wrote: not to be had out of place."""
MODES = ("hidden", "trivial", "barrier", "aliased", "out_of_place")
CONSTRUCTS = ("scan", "while", "map", "cond", "call", "gradient", "shard_map", "vmap")
UNARY = (
    "tanh", "scale", "shift", "flip", "roll", "centre", "softmax", "leaky", "halves", "update", "sort", "cumsum", "take",
    "moving", "pad", "reshape", "normalise", "stop",
)  # fmt: skip
"""Operations that keep the kind of their operand."""
SMOOTH = ("tanh", "scale", "shift", "flip", "roll", "centre", "softmax", "leaky", "halves", "reshape", "normalise")
"""Those through which is differentiated."""
FORMS = ("direct", "direct", "cast", "twice")
REFS = 10_000_000
"""The seeds from here on are programs in the idiom of jax-triton 0.4: Refs, `call_in_place`, derivatives."""
KINDS = ("differentiated", "repeated", "any")
"""What is in a program with Refs, by its seed: a derivative around a kernel, a loop or a `jax.checkpoint` around one."""
REF_MODES = ("ref", "read", "in_place")
"""Beside MODES: a Ref that is frozen, one that is read, and `call_in_place`, which takes their place before 0.4."""
ZEROS = "zeros"
"""Some of those that are frozen are read instead, and the kernel's sums are a Ref of zeros, which JAX may move."""
POLICIES = {
    "plain": "{0}",
    "checkpoint": "jax.checkpoint({0})",
    "nothing": "jax.checkpoint({0}, policy=jax.checkpoint_policies.nothing_saveable)",
    "dots": "jax.checkpoint({0}, policy=jax.checkpoint_policies.dots_saveable)",
    "everything": "jax.checkpoint({0}, policy=jax.checkpoint_policies.everything_saveable)",
}
"""How often a derivative computes its forward pass."""
LAYOUTS = ("rows", "columns", "whole")
DEPTH = 2


def find_kind(seed: int) -> str | None:
    """Returns one of KINDS, None for a program without Refs."""
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
    """One step. word: an operation, a kernel or a construct."""

    word: str
    inputs: tuple[Variable, ...] = ()
    outputs: tuple[Variable, ...] = ()
    numbers: tuple[int, ...] = ()
    """Choices of the step, each below 100."""
    mode: str = ""
    """Of a kernel, a loss, a derivative or an annotation; `FORM:MODE` of a loss, `KERNEL:MODE` of a layer."""
    blocks: tuple["Body", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """Steps, and what they start from and give."""

    parameters: tuple[Variable, ...]
    steps: tuple[Step, ...]
    results: tuple[Variable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomProgram:
    """One program."""

    seed: int
    variant: int = 0
    """Number of a smaller program that was made of the seed's own."""
    draw: int = 0
    """Which arguments it gets."""
    devices: int
    scale: int
    """Times `ArrayKind.rows` and COLUMNS there are of rows and columns."""
    donated: tuple[int, ...]
    """Positions of the arguments that are donated."""
    layouts: tuple[str, ...]
    """For each argument one of LAYOUTS: how it is split over the devices."""
    block: Body
