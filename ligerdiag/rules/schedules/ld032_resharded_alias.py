"""LD032 resharded-alias: XLA gathers or exchanges the operand of an operation that works in place, because it partitions the
program.
"""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.model.findings import Finding, Severity
from ligerdiag.rules.memory_findings import describe_amount
from ligerdiag.rules.rule import Rule, RuleKind, make_example


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each collective that XLA inserted before an operation that works in place."""
    if context.memory is None:
        return
    for reshard, copy in context.memory.reshards:
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=(
                f"a collective that the program does not ask for brings {describe_amount([copy])} from other devices:"
                f" {copy.why}"
            ),
            source=copy.line,
            instructions=(copy.instruction, reshard.writer.name),
            evidence=(
                ("collective", f"%{copy.instruction} runs before %{reshard.writer.name}, and is not in your program"),
            ),
            help=_UPDATE if reshard.is_update else _CALL,
        )


_CALL = (
    "call the kernel in `jax.shard_map`, so that each device works on its own part, or give the call a"
    " `custom_partitioning`"
)
_UPDATE = (
    "update in `jax.shard_map`, so that each device works on its own part, or split the array over the devices along a"
    " dimension that the update covers whole"
)

GATHERED = make_example(
    about="XLA does not know how to split the call, so it gathers the array on each device, and splits the result again.",
    declared=True,
    code="""\
def step(x):
    doubled, sums = sum_and_double_declared(2 * x)
    return {"doubled": doubled, "sums": sums}


CASE = Case(
    name="gathered", function=step, args=(Arg(shape=(1024, 128), donate=True, partition=("x",)),), mesh={"x": 4}
)
""",
)

SHARDED = make_example(
    about="In a `shard_map` each device doubles its own rows.",
    declared=True,
    code="""\
def double(x):
    doubled, sums = sum_and_double_declared(2 * x)
    return {"doubled": doubled, "sums": sums}


def step(x):
    rows = jax.P("x")
    return jax.shard_map(double, in_specs=rows, out_specs={"doubled": rows, "sums": rows}, check_vma=False)(x)


CASE = Case(name="sharded", function=step, args=(Arg(shape=(1024, 128), donate=True, partition=("x",)),), mesh={"x": 4})
""",
)

INSIDE = make_example(
    about="The update leaves out rows at both ends: XLA gathers all rows on each device, updates them and cuts out its own.",
    code="""\
def step(field, inside):
    return {"field": field.at[8:-8].set(inside)}


CASE = Case(
    name="inside",
    function=step,
    args=(Arg(shape=(1040, 128), donate=True, partition=("x",)), Arg(shape=(1024, 128), partition=("x",))),
    mesh={"x": 4},
)
""",
)

WHOLE_ROWS = make_example(
    about="The array is split along the dimension that the update covers whole, so each device updates its own columns.",
    code="""\
def step(field, inside):
    return {"field": field.at[8:-8].set(inside)}


CASE = Case(
    name="whole_rows",
    function=step,
    args=(
        Arg(shape=(1040, 128), donate=True, partition=(None, "x")),
        Arg(shape=(1024, 128), partition=(None, "x")),
    ),
    mesh={"x": 4},
)
""",
)

RULE = Rule(
    id="LD032",
    name="resharded-alias",
    severity=Severity.WARNING,
    summary="the partitioner gathers or exchanges the operand of an operation that should work in place",
    what_it_does="""\
Looks for a collective that moves whole elements (all-gather, all-to-all, collective-permute) before a call with aliased
operands or an update, where the author wrote no collective.""",
    why="""\
XLA does not know how to split a custom call. If its operand is split over devices, it gathers the whole array on each of
them, runs the call everywhere, and throws away the rest. The call works in place, but on the gathered array: the memory of
one device no longer depends on the number of devices, and the donation of the part is void. In the same way it gathers an
array of which a slice is updated that does not end where the parts of the devices do.""",
    what_to_do="""\
Call the kernel in `jax.shard_map`, or describe its partitioning with `jax.experimental.custom_partitioning`. Split an array
along a dimension that its updates cover whole, or let each device update its own part in a `jax.shard_map`.""",
    limits="""\
Collectives below 64 KiB do not count. A collective with the name of one of JAX's own (`all_gather`, `ppermute`, …) is
taken for the author's.""",
    references=("docs.jax.dev/en/latest/notebooks/shard_map.html",),
    bad=(GATHERED, INSIDE),
    good=(SHARDED, WHOLE_ROWS),
    check=check,
    kind=RuleKind.COPY,
)
