"""The examples of LD005: a collective in flight around a kernel, on two devices."""

from ligerdiag.hazards.examples import ALIASED_CALL, KERNEL
from ligerdiag.hazards.rule import Example

_ARGUMENTS = """\
    args=(Arg(shape=(16, 16), partition=("x",)), Arg(shape=(16, 32))),
    mesh={"x": 2},
)
"""
_STEP = """\
def step(x, w):
    rows, whole = jax.sharding.PartitionSpec("x"), jax.sharding.PartitionSpec()
    run = jax.shard_map(on_each, in_specs=(rows, whole), out_specs=(rows, whole), check_vma=False)
    sums, total = run(x, w)
    return {"sums": sums, "total": total}


"""

GATHERED_BESIDE = Example(
    about="The gathering of the original rows is still under way when the kernel doubles them.",
    code=KERNEL
    + """\
def on_each(x, w):
    h = x @ w
    everyone = jax.lax.all_gather(h, "x")  # h is meant to be as it was
    sums = sum_and_double(h)
    return sums, everyone.sum(0)


"""
    + _STEP
    + 'CASE = Case(\n    name="gathered_beside",\n    function=step,\n'
    + _ARGUMENTS,
)

GATHERED_BESIDE_DECLARED = Example(
    about="With the write declared, XLA gives the kernel a copy, and the gathering reads the original.",
    code=KERNEL
    + ALIASED_CALL
    + """\
def on_each(x, w):
    h = x @ w
    everyone = jax.lax.all_gather(h, "x")
    _, sums = sum_and_double_declared(h)
    return sums, everyone.sum(0)


"""
    + _STEP
    + 'CASE = Case(\n    name="gathered_beside_declared",\n    function=step,\n'
    + _ARGUMENTS,
)

GATHERED_AFTER = Example(
    about="The gathering waits for the declared output.",
    code=KERNEL
    + ALIASED_CALL
    + """\
def on_each(x, w):
    h = x @ w
    doubled, sums = sum_and_double_declared(h)
    everyone = jax.lax.all_gather(doubled, "x")
    return sums, everyone.sum(0)


"""
    + _STEP
    + 'CASE = Case(\n    name="gathered_after",\n    function=step,\n'
    + _ARGUMENTS,
)
