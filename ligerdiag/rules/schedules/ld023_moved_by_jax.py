"""LD023 moved-by-jax: JAX moved the read of a Ref across a write to it, before XLA saw the program."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.lost_refs import LostRef
from ligerdiag.artifacts.call_records import MovedRef, RefMove
from ligerdiag.hlo.module import find_user_line
from ligerdiag.model.findings import Finding, Severity, SourceLine, Verdict
from ligerdiag.rules.rule import Example, Party, Reproduction, Rule, RuleKind
from ligerdiag.rules.wording import begin_sentence, render_at


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each write to a Ref that an output misses, or sees in the wrong iterations of a loop.

    The write is a kernel call or a store.
    """
    for lost in context.lost_refs:
        if lost.verdict is not Verdict.UNKNOWN and not lost.is_dropped(context.moved_refs):
            yield _report(context, lost)


def _report(context: Context, lost: LostRef) -> Finding:
    move = next((move for move in lost.find_moves(context.moved_refs) if move.kind is not RefMove.DROPPED), None)
    site = lost.source or next((context.sites[tag] for tag in lost.tags if tag in context.sites), None)
    read = None if move is None else move.read
    if read is None and lost.reader is not None:
        read = find_user_line(context.program, lost.reader)
    writer = f"`{lost.kernel}`" if lost.kernel else "a store"
    return Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=_describe(lost, move, writer),
        outputs=lost.outputs,
        source=read or site,
        kernel=lost.kernel,
        evidence=_list_evidence(move, writer, site, read),
        help=(
            "initialize the Ref with a value that depends on the iteration, such as `jax.new_ref(0 * x)`, or return the"
            " written value as an output; `ligerdiag explain LD023` has a bug report to file with JAX"
        ),
    )


def _describe(lost: LostRef, move: MovedRef | None, writer: str) -> str:
    if lost.verdict is Verdict.CLOBBERED:
        who = begin_sentence(lost.outputs, "sees", "see")
        what = f"what {writer} writes to a Ref in other iterations"
        return f"{who} {what}: JAX creates the Ref once, before the loop" if move is not None else f"{who} {what}"
    who = begin_sentence(lost.outputs, "misses", "miss")
    if move is not None and move.kind is RefMove.SHARED:
        return f"{who} what {writer} writes to a Ref: JAX creates the Ref once, before the loop"
    if move is not None:
        return f"{who} what {writer} writes to a Ref: JAX moved the read out of the loop, before the write"
    return f"{who} what {writer} writes to a Ref: JAX separated the write from the read when it split a function"


def _list_evidence(
    move: MovedRef | None, writer: str, site: SourceLine | None, read: SourceLine | None
) -> tuple[tuple[str, str], ...]:
    written = (
        f"{writer} writes the Ref in each iteration{render_at(site)}"
        if move
        else f"{writer} writes the Ref{render_at(site)}"
    )
    if move is None:
        return (("write", written), ("read", f"this is the first reader that gets another value{render_at(read)}"))
    made = (
        f"JAX creates the Ref once{render_at(move.made)}, before the loop, because its initial value is loop-invariant"
    )
    if move.kind is RefMove.SHARED:
        return (("ref", made), ("write", written), ("read", f"it is read after the write{render_at(read)}"))
    return (("ref", made), ("read", f"it is also read before the loop{render_at(read)}"), ("write", written))


_BEFORE = """\
import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case


"""
_LOSS = """

def step(chunks, w):
    def loss(w):
        total, _ = jax.lax.scan(lambda total, x: (total + sine(x * w), None), jnp.zeros(128), chunks)
        return (total**2).sum()

    value, gradient = jax.value_and_grad(loss)(w)
    return {"loss": value, "gradient": gradient}


CASE = Case(name="NAME", function=step, args=(Arg(shape=(3, 128)), Arg(shape=(128,))))
"""


def _make(about: str, name: str, code: str) -> Example:
    return Example(about=about, code=_BEFORE + code + _LOSS.replace("NAME", name))


OF_ZEROS = _make(
    "JAX creates the Ref once, before the loop, and reads it there: the loss is 0, and so is its gradient.",
    "of_zeros",
    """\
def sine(x):
    ref = jax.new_ref(jnp.zeros(128))
    ref[...] = jnp.sin(x)
    return ref[...]
""",
)

OF_ITERATION = _make(
    "The Ref is initialized with a value of the iteration, so it stays in the loop.",
    "of_iteration",
    """\
def sine(x):
    ref = jax.new_ref(0 * x)
    ref[...] = jnp.sin(x)
    return ref[...]
""",
)

OUTPUT = _make(
    "Without a Ref there is nothing to move.",
    "output",
    """\
def sine(x):
    return jnp.sin(x)
""",
)

RULE = Rule(
    id="LD023",
    name="moved-by-jax",
    severity=Severity.ERROR,
    kind=RuleKind.CHANGED_BY_JAX,
    party=Party.JAX,
    for_maintainers="JAX moves a read or the creation of a Ref across a write to it",
    summary="a read of a Ref that JAX moved before the write, or a Ref that it shares between iterations",
    what_it_does="""\
Compares the program as written, in which a Ref is a value and each write makes a new version, with the program that JAX
passes to XLA. Reports a kernel call or a store if an output needs what it writes to a Ref and does not get it, or gets
what another iteration wrote there.""",
    why="""\
When JAX differentiates a scan, or a `lax.map` or `fori_loop` that becomes one, it hoists loop-invariant operations. It
creates a Ref of a constant before the loop, and reads it there, because both are invariant; the kernel call or the
store in between depends on the iteration, and stays in the loop. The read returns the initial value of the Ref, mostly
zeros. Nothing fails, and XLA is not to blame: it never sees the program as written. The schedule is right for what XLA
got, and a test of the forward pass alone passes, too.""",
    what_to_do="""\
Initialize the Ref with a value of the iteration: `jax.new_ref(0 * x)` for such an `x`, instead of
`jax.new_ref(jnp.zeros(...))`. Or return the written value as an output of the kernel (`out_type`), without a Ref. With
`jax.freeze` instead of a read, and with a function that is jitted inside the loop, JAX 0.11.2 fails instead: the cure
is the same.

The text of a report to JAX (github.com/jax-ml/jax/issues):

> **Differentiating a scan moves the read of a Ref before the write.** A `jax.new_ref` of a constant in the body of a scan,
> and `ref[...]` of it, are loop-invariant to `_scan_known_hoisting` (jax/_src/lax/control_flow/loops.py, 0.11.2): both move
> out of the loop, while the write between them stays. With `def f(x): r = jax.new_ref(jnp.zeros(4)); r[...] = jnp.sin(x);
> return r[...]` and `loss = lambda w: jax.lax.scan(lambda c, x: (c + f(x * w), None), jnp.zeros(4), xs)[0].sum()`,
> `loss(w)` is right, and `jax.value_and_grad(loss)(w)` gives 0.0 and zeros, on the CPU, too. With `jax.freeze(r)` it raises
> "JaxprInputEffect Write<...> does not have a corresponding jaxpr input". A Ref that the body makes should count as unknown
> there, as the Refs that it closes over do.""",
    limits="""\
The rule sees only what the trace shows. It misses a Ref in a function that JAX split before tracing it as one, and a
dump from elsewhere, which has no program as written. If a store is not made by a kernel, other uses of the stored value
hide that the read misses it.""",
    references=("docs.jax.dev/en/latest/array_refs.html",),
    reproduced=(
        Reproduction(
            report="rwth-i6/returnn (rel_pos_att_triton.py in a scan over layers)",
            case="moved_ref[zeros]",
            reproduced="a Ref of zeros that is written in a differentiated scan: the forward pass never sees it",
            missing="the model around it, and a kernel that writes the Ref itself: here a store does that",
        ),
        Reproduction(
            report="docs/reports/jax-moved-ref.md",
            case="moved_ref[zeros]",
            reproduced="on a CPU, with JAX 0.11.2, the loss is 0 with a gradient and 174 without one",
            missing="an answer of JAX's maintainers",
        ),
    ),
    bad=(OF_ZEROS,),
    good=(OF_ITERATION, OUTPUT),
    check=check,
    explains=Verdict.STALE,
)
