"""A case: a JAX function, what to call it with, on which mesh, and what is expected of its schedule.

This file imports neither jax nor triton: a case's function is only called inside a compile worker.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """How an argument's values are drawn, by `jax.random` from its own key.

    kind: `normal` (times `scale`), `uniform` in [low, high), `randint` in [low, high), `bernoulli` with probability
    `scale`, or `zeros`. `seed` is the integer of `jax.random.key(seed)`.
    """

    kind: str = "normal"
    seed: int = 0
    scale: float = 1.0
    low: float = 0
    high: float = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Arg:
    """One argument: an array of `shape` and `dtype` (NumPy or ml_dtypes name, such as `float32`, `bfloat16`, `int32`).

    partition: for each dimension the mesh axis (or tuple of axes) it is split over, or None; missing means replicated.
    weak: of JAX's weak type, as a number of Python's own: it does not make a bfloat16 beside it a float32.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    draw: Draw = field(default_factory=Draw)
    partition: tuple[str | tuple[str, ...] | None, ...] = ()
    donate: bool = False
    weak: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program and its expectation.

    function: takes the arguments by position, returns any pytree of arrays; the paths of its leaves name the outputs.
        A mapping at the top gives plain names, such as {"loss": ..., "bias": ...}.
    args: the arguments in order; a leaf of the position's pytree may be an `Arg` or a dict, list or tuple of them.
    params: what distinguishes this case from its siblings; they make the id `name[a-b-c]`.
    mesh: axis name to size, in order; empty for one device.
    expected: None (no expectation: a finding fails the run), `fresh` (every output fresh), `hazard` (at least one
        output stale, clobbered or latent), or a mapping from output name to a verdict or to alternatives (`stale|latent`);
        the name `*` stands for the outputs that are not named, which else must be fresh.
    expected_rules: None (not looked at), or the ids of exactly the rules that have findings, such as
        ("LD006", "LD009"); beside `expected`. A rule that needs a replay or a device counts only where there was one;
        "LD017?" may have findings on one run and none on the next.
    effects: what custom calls do that carry no IR to follow: from the name of a target or kernel to the numbers of the
        operands that it overwrites and reads, such as {"my_ffi_target": {"writes": [0]}}; before those of the
        configuration file.
    expected_elsewhere: what is expected, in the place of `expected` and `expected_rules`, when another toolchain than the
        default one compiles: name of the toolchain to what `expected` may be.
    reference: the same function in plain jnp, when there is one.
    about: one line: which report or doubt it stands for.
    mitigation: what is done about a kernel's hidden write, in a word, such as `trivial` or `aliased`: a rung of the ladder
        that `bisect --over mitigation` climbs. Cases of one table are rungs of one ladder when they have the same name,
        the same params but for one, and mitigations of their own. Where it is empty, the one param that is a usual word
        for it (hidden, trivial, barrier, aliased, out_of_place, shard_map) stands for it.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    params: tuple[Any, ...] = ()
    mesh: Mapping[str, int] = field(default_factory=dict[str, int])
    expected: str | Mapping[str, str] | None = None
    expected_rules: tuple[str, ...] | None = None
    effects: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict[str, Mapping[str, Sequence[int]]])
    expected_elsewhere: Mapping[str, str | Mapping[str, str]] = field(
        default_factory=dict[str, str | Mapping[str, str]]
    )
    reference: Callable[..., Any] | None = None
    about: str = ""
    mitigation: str = ""

    @property
    def id(self) -> str:
        """`name`, or `name[a-b-c]` with the params as their `str`."""
        if not self.params:
            return self.name
        return f"{self.name}[{'-'.join(str(p) for p in self.params)}]"
