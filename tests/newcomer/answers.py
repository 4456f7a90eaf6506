"""The right answer for every case of `project/`, derived by hand, for both generations of jax-triton.

1. The loss is right in any order: the kernel itself computes it. So is the optimizer's count of steps.
2. A gradient that goes through a kernel in `hidden` mode wants what the kernel left in its operand, and nothing forces XLA
   to read that: it is missed, STALE or latent by luck, and never fresh; nor clobbered, since no rule of JAX's saved what
   the kernel overwrites (a product does not save its result).
3. With a hidden `rms_norm` alone only what is below a norm is missed: the head, and the weight of the last norm, whose
   gradient the kernel returns from the head's own.
4. In `aliased` mode every output is fresh and nothing is found, before jax-triton 0.4. Since then an aliased output is no
   parameter of the kernel: the call is refused, and the answer is what to write instead. `ref` is the other way round.
"""

from dataclasses import dataclass

OLDER = "jax-triton before 0.4 takes `out_shape`, and no Ref; "
NEWER = "since jax-triton 0.4 an aliased output is no parameter of the kernel; "
REMEDY = "`ligerdiag.in_place.call_in_place` works with every version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one version of jax-triton makes of a case."""

    right: frozenset[str] | None = None
    """The outputs that are right in any order, all others are missed; None: all are right, and nothing is found."""
    refused: str = ""
    """What the error says, where there is no verdict."""
    gap: str = ""
    """Why this answer is not given yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A case of a file of `project/`, and its answers."""

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
    """See 1 to 3. newer: why 0.4 refuses it: another kernel of the program is in `aliased` mode."""
    missed = Answer(right=right)
    return [Program(file=file, case=case, older=missed, newer=_refuse(newer) or missed) for case in cases]


def aliased(file: str, *cases: str) -> list[Program]:
    """See 4."""
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
    # `accuracy` reads the logits after the kernel has overwritten them, as Python runs it: the schedule has to, too
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
        # the call is fused with the slice that an iteration takes of all logits, and no other iteration reads that one
        newer=Answer(right=frozenset({"loss"})),
    ),
    *aliased("seqvmap.py", "svmap-aliased"),
    # `x` is read once more after `square_kernel` has doubled it; `1.0 * x` makes nothing safe
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
"""Files that hold no case that could be meant, to what is said of them, before anything is compiled (exit code 2)."""
