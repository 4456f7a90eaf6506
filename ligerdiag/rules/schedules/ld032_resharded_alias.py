"""LD032 resharded-alias: the partitioner gathers or exchanges the operand of an operation that works in place."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.model.findings import Finding, Severity
from ligerdiag.rules.memory_findings import describe_amount
from ligerdiag.rules.rule import Example, Rule


def check(context: Context) -> Iterator[Finding]:
    """Reports each collective that XLA put in front of such an operation."""
    if context.memory is None:
        return
    for reshard, copy in context.memory.reshards:
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"{describe_amount([copy])} brought from other devices: {copy.why}",
            source=copy.line,
            instructions=(copy.instruction, reshard.writer.name),
            evidence=(
                ("collective", f"%{copy.instruction} runs before %{reshard.writer.name}, and is not the author's"),
            ),
            help=(
                "call the kernel in `jax.shard_map`, so that each device works on its own part, or give the call a"
                " `custom_partitioning`"
            ),
        )


_BEFORE = """\
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from ligerdiag import Arg, Case


"""

_CALL = """\
def update(x, row):
    call = jax.ffi.ffi_call("update_in_place", jax.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases={0: 0})
    return call(x, row)


"""

GATHERED = Example(
    about="XLA does not know how to split the call, so it gathers the array on each device, and splits the result again.",
    code=f"""{_BEFORE}{_CALL}CASE = Case(
    name="gathered",
    function=update,
    args=(Arg(shape=(1024, 512), donate=True, partition=("x",)), Arg(shape=(512,))),
    mesh={{"x": 4}},
)
""",
)

SHARDED = Example(
    about="In a `shard_map` each device updates its own part.",
    code=f"""{_BEFORE}{_CALL}def step(x, row):
    return jax.shard_map(update, in_specs=(P("x"), P()), out_specs=P("x"), check_vma=False)(x, row)


CASE = Case(
    name="sharded",
    function=step,
    args=(Arg(shape=(1024, 512), donate=True, partition=("x",)), Arg(shape=(512,))),
    mesh={{"x": 4}},
)
""",
)

RULE = Rule(
    id="LD032",
    name="resharded-alias",
    severity=Severity.WARNING,
    summary="the partitioner gathers or exchanges the operand of an operation in place",
    what_it_does="""\
Looks for a collective that moves whole elements (all-gather, all-to-all, collective-permute) before a call with aliased
operands or an update, where the author wrote no collective.""",
    why="""\
XLA does not know how to split a custom call. If its operand is split over devices, it gathers the whole array on each of
them, runs the call everywhere, and throws away the rest. The call works in place, but on the gathered array: the memory of
one device no longer depends on the number of devices, and the donation of the part is void.""",
    what_to_do="""\
Call the kernel in `jax.shard_map`, or describe its partitioning with `jax.experimental.custom_partitioning`.""",
    limits="""\
Collectives below 64 KiB do not count. A collective with the name of one of JAX's own (`all_gather`, `ppermute`, …) is
taken for the author's.""",
    references=("docs.jax.dev/en/latest/notebooks/shard_map.html",),
    bad=(GATHERED,),
    good=(SHARDED,),
    check=check,
)
