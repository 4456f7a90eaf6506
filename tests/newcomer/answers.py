"""The right answer for every case of `project/`, derived by hand, for both generations of jax-triton.

The kernel itself computes the loss, so the loss is right in any order. So is the optimizer's count of steps.

A gradient that passes through a kernel in `hidden` mode should use the values that the kernel left in its operand, but
nothing forces XLA to read them: it misses the write and is STALE, or latent by luck, never fresh. It is never clobbered
either, because no JAX rule saves a value that the kernel overwrites (a product does not save its result).

If only `rms_norm` is hidden, only gradients below a norm miss the write. The head's is right, and so is that of the
last norm's weight, which the kernel returns and computes from the head's.

In `aliased` mode, before jax-triton 0.4, every output is fresh and there are no findings. Since 0.4 an aliased output
is not a parameter of the kernel: the call is refused, and the answer says how to write it. `ref` mode is the reverse.
"""

from dataclasses import dataclass

OLDER = "jax-triton before 0.4 takes `out_shape`, and no Ref; "
NEWER = "since jax-triton 0.4 an aliased output is no parameter of the kernel; "
REMEDY = "`ligerdiag.in_place.call_in_place` works with every version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of a case with one version of jax-triton."""

    right: frozenset[str] | None = None
    """Outputs that are right in any order; all others miss a write. None: all are right, and there are no findings."""
    refused: str = ""
    """Part of the error message, if there is no verdict."""
    gap: str = ""
    """Why ligerdiag does not give this answer yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A case of a file in `project/`, and its answers."""

    file: str
    case: str
    older: Answer
    """With jax-triton before 0.4."""
    newer: Answer

    @property
    def selector(self) -> str:
        return f"{self.file}::{self.case}"


FRESH = Answer()
HEAD = frozenset({f"{state}.{name}" for state in ("0", "1.0.mu", "1.0.nu") for name in ("head", "norm")})
STEP = frozenset({"2.loss", "1.0.count"})


def hidden(file: str, *cases: str, right: frozenset[str] = frozenset({"loss"}), newer: str = "") -> list[Program]:
    """Cases with a hidden kernel. newer: why jax-triton 0.4 refuses them: another kernel of the program is in `aliased`
    mode.
    """
    missed = Answer(right=right)
    return [Program(file=file, case=case, older=missed, newer=_refuse(newer) or missed) for case in cases]


def aliased(file: str, *cases: str) -> list[Program]:
    """Cases whose kernels are all in `aliased` mode."""
    return [Program(file=file, case=case, older=FRESH, newer=Answer(refused=NEWER)) for case in cases]


def both(file: str, case: str, answer: Answer) -> list[Program]:
    return [Program(file=file, case=case, older=answer, newer=answer)]


def _refuse(reason: str) -> Answer | None:
    return Answer(refused=reason) if reason else None


PROGRAMS: tuple[Program, ...] = (
    *hidden("direct.py", "hidden-scaled", "hidden-direct"),
    *aliased("direct.py", "aliased-scaled", "aliased-direct"),
    *hidden("direct_ref.py", "ref-hidden-scaled", "ref-hidden-direct"),
    *aliased("direct_ref.py", "ref-aliased-direct"),
    *hidden("direct_lm.py", "lm-hidden-scaled", "lm-hidden-direct", newer=NEWER),
    *hidden("direct_adam.py", "adam-hidden-scaled", "adam-hidden-direct", right=STEP, newer=NEWER),
    # in program order `accuracy` reads the logits after the kernel has overwritten them, and the schedule must do the same
    *hidden("cases_dp2.py", *(f"{kind}-hidden" for kind in ("plain", "dp", "map", "accumulate", "accuracy"))),
    *aliased("cases_dp2.py", *(f"{kind}-aliased" for kind in ("plain", "dp", "map", "accumulate", "accuracy"))),
    *hidden("cases_dp.py", "dp-hidden"),  # `mesh=(8,)`: the axis is called x
    *aliased("cases_dp.py", "dp-aliased"),
    *hidden("cases_tiny.py", "hidden-hidden", "donate_hidden", "bf16_hidden", right=STEP),
    *hidden("cases_tiny.py", "hidden-aliased", right=STEP, newer=NEWER),
    *hidden("cases_tiny.py", "aliased-hidden", "scan_hidden", "remat_hidden", right=STEP | HEAD, newer=NEWER),
    *aliased("cases_tiny.py", *(f"{kind}_aliased" for kind in ("scan", "remat", "donate", "bf16")), "aliased-aliased"),
    Program(
        file="cases_tiny.py", case="ref-aliased", older=Answer(refused=OLDER), newer=Answer(refused=NEWER)
    ),  # the loss is in `ref` mode, the norm in `aliased`: no version takes both
    *hidden("cases_deep.py", "deep4", right=STEP),
    Program(
        file="seqvmap.py",
        case="svmap-hidden",
        older=Answer(right=frozenset({"loss"})),
        # the call is fused with the iteration's slice of the logits, which no other iteration reads
        newer=Answer(right=frozenset({"loss"})),
    ),
    *aliased("seqvmap.py", "svmap-aliased"),
    # `x` is read again after `square_kernel` has doubled it; `1.0 * x` does not help
    *hidden("dpmin.py", "plain", "plain-scale", "dp", "dp-scale", right=frozenset({"total"})),
    *hidden("mine.py", "mine", right=frozenset({"total"})),
    *aliased("cured.py", "cured"),
    Program(file="cases/starter.py", case="starter", older=Answer(refused=OLDER), newer=FRESH),
    *(program for file in ("c3.py", "c4.py", "c5.py", "c6.py") for program in both(file, "a", FRESH)),
    *both("c8.py", "a", Answer(refused="c8.py:3: NameError: name 'undefined_name' is not defined")),
    *both("trc.py", "trc", Answer(refused="trc.py:6: CompilationError: NameError('undefined_thing is not defined')")),
)

UNREADABLE = {
    "c7.py": "case `a`: expected `fresh`, `hazard` or a mapping as expectation but got `fersh`, did you mean `fresh`",
    "c9.py": "does not import: it ends the process with exit code 1",
}
"""Files without a valid case, and the message about them. The message comes before anything is compiled (exit code 2).
"""
