"""LD017 unsteady-output: two runs on a device with the same inputs give outputs that are not equal bit by bit."""

from collections.abc import Iterator

from ligerdiag.model.findings import Finding, Severity
from ligerdiag.rules.rule import ALIASED, DecidedBy, Measured, Party, Rule, check_nothing, make_example, render_error
from ligerdiag.rules.wording import begin_sentence


def measure(measured: Measured) -> Iterator[Finding]:
    """Yields a finding for each output that differs between two runs on the device."""
    device = measured.device
    if device is None:
        return
    unsteady = {name: output.unsteady for name, output in device.outputs.items() if output.unsteady > 0}
    if unsteady:
        names = tuple(unsteady)
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"{begin_sentence(names, 'differs', 'differ')} from one run to the next on {device.device}",
            outputs=names,
            source=measured.find_line(names),
            evidence=tuple(
                (
                    "device",
                    f"`{name}` differs by up to {render_error(error)} between {device.runs} runs on the same inputs",
                )
                for name, error in unsteady.items()
            ),
            help="see whether LD003 or LD005 reports a kernel and a reader that nothing orders, and whether a kernel adds"
            " floating-point numbers by atomics, whose order differs from run to run",
        )


RACING_ROWS = make_example(
    about="Thousands of programs add to one number by atomics; the order of the additions differs from run to run.",
    code="""\
@triton.jit
def total_kernel(x_ptr, total_ptr, spare_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + at)))


def step(x):
    (total,) = call_in_place(
        x, jnp.zeros(()), written=1, kernel=total_kernel, outputs=(), grid=x.shape[:1], COLUMNS=x.shape[1]
    )
    return {"total": total}


CASE = Case(name="atomic_total", function=step, args=(Arg(shape=(4096, 32)),))
""",
)


RULE = Rule(
    id="LD017",
    name="unsteady-output",
    severity=Severity.WARNING,
    party=Party.KERNEL,
    summary="two runs of the program on a device give different outputs for the same inputs",
    what_it_does="""\
With `--device`, ligerdiag runs each program several times on the same inputs. The rule reports an output that is not
bitwise equal in all runs, with the largest relative difference between two runs.""",
    why="""\
An order that holds only by luck is right today and wrong tomorrow, or right on most runs: a kernel and a reader that
the hardware may overlap, a kernel whose programs race for the same bytes, memory that nobody has written.""",
    what_to_do="""\
See which other rule names the output. If none does, look in the kernel for bytes that several programs of the grid
write.""",
    limits="""\
Needs a GPU. Floating-point additions by atomics legitimately differ from run to run, by rounding; so do some library
calls that choose among algorithms. That is why this is a warning. A race that gives the same result in every run is not
found.""",
    references=(
        "github.com/jax-ml/jax/issues/565",
        "github.com/openxla/xla/pull/15229 (which operations of XLA differ from run to run)",
    ),
    bad=(RACING_ROWS,),
    good=(ALIASED,),
    check=check_nothing,
    measure=measure,
    decided_by=DecidedBy.DEVICE,
)
