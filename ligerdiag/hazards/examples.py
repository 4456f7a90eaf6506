"""The examples of the rules: whole case files, each a test and a piece of documentation.

They share one kernel: it returns each row's sum and doubles the row in place.
"""

from ligerdiag.hazards.rule import Example

KERNEL = """\
import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case


@triton.jit
def double_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, 2 * x)  # overwrites its operand


def sum_and_double(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jt.triton_call(x, kernel=double_kernel, out_shape=sums, grid=x.shape[:1], COLUMNS=x.shape[1])


"""

ALIASED_CALL = """\
@triton.jit
def aliased_kernel(x_ptr, out_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(out_ptr + at, 2 * x)


def sum_and_double_declared(x):
    outputs = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(x.shape[:1], x.dtype))
    return jt.triton_call(
        x, kernel=aliased_kernel, out_shape=outputs, input_output_aliases={0: 0}, grid=x.shape[:1], COLUMNS=x.shape[1]
    )


"""

SCANNED_GRADIENT = Example(
    about="XLA runs the product that should see the doubled rows before the kernel that doubles them.",
    code=KERNEL
    + """\
def step(chunks, w):
    def body(total, x):
        h = x @ w
        sums = sum_and_double(h)
        return total + sums.sum(), h @ w.T  # h is meant to be doubled by now

    total, back = jax.lax.scan(body, 0.0, chunks)
    return {"total": total, "back": back}


CASE = Case(name="scanned", function=step, args=(Arg(shape=(4, 8, 16)), Arg(shape=(16, 32))))
""",
)

ALIASED_SCAN = Example(
    about="The doubled rows are a declared output of the kernel, and the product reads that output.",
    code=KERNEL
    + ALIASED_CALL
    + """\
def step(chunks, w):
    def body(total, x):
        h = x @ w
        doubled, sums = sum_and_double_declared(h)
        return total + sums.sum(), doubled @ w.T

    total, back = jax.lax.scan(body, 0.0, chunks)
    return {"total": total, "back": back}


CASE = Case(name="declared_scan", function=step, args=(Arg(shape=(4, 8, 16)), Arg(shape=(16, 32))))
""",
)

MATMUL_GRADIENT = Example(
    about="The kernel doubles its operand, and nothing in the call says so.",
    code=KERNEL
    + """\
def step(x, w):
    h = x @ w
    sums = sum_and_double(h)
    return {"sums": sums, "back": h @ w.T}  # h is meant to be doubled by now


CASE = Case(name="matmul", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)

ALIASED = Example(
    about="The doubled rows are a declared output, and that output is what is read.",
    code=KERNEL
    + ALIASED_CALL
    + """\
def step(x, w):
    h = x @ w
    doubled, sums = sum_and_double_declared(h)
    return {"sums": sums, "back": doubled @ w.T}


CASE = Case(name="declared", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)

FOLDED_CONVERT = Example(
    about="The cast to f32 and back is folded away, so the product reads the bf16 values from before the kernel.",
    code=KERNEL
    + """\
def step(x, w):
    h = (x @ w).astype(jnp.float32)
    sums = sum_and_double(h)
    return {"sums": sums, "back": h.astype(jnp.bfloat16) @ w.T}


CASE = Case(
    name="folded", function=step, args=(Arg(shape=(8, 16), dtype="bfloat16"), Arg(shape=(16, 32), dtype="bfloat16"))
)
""",
)

ALIASED_BF16 = Example(
    about="The same casts around a declared output are left alone.",
    code=KERNEL
    + ALIASED_CALL
    + """\
def step(x, w):
    h = (x @ w).astype(jnp.float32)
    doubled, sums = sum_and_double_declared(h)
    return {"sums": sums, "back": doubled.astype(jnp.bfloat16) @ w.T}


CASE = Case(
    name="recast", function=step, args=(Arg(shape=(8, 16), dtype="bfloat16"), Arg(shape=(16, 32), dtype="bfloat16"))
)
""",
)

LUCKY_READER = Example(
    about="The reduction happens to be scheduled after the kernel; no edge makes it so.",
    code=KERNEL
    + """\
def step(x, w):
    h = x @ w
    sums = sum_and_double(h)
    return {"sums": sums, "columns": h.sum(0)}


CASE = Case(name="lucky", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)

MERGED_OPERANDS = Example(
    about="Two casts of one value are merged; the second kernel reads what the first has left there.",
    code=KERNEL
    + """\
def step(x):
    first = x.astype(jnp.float32)
    one = sum_and_double(first)
    second = x.astype(jnp.float32)
    two = sum_and_double(second + 0 * one.sum())
    return {"one": one, "two": two}


CASE = Case(name="merged", function=step, args=(Arg(shape=(8, 32), dtype="bfloat16"),))
""",
)

TWO_COPIES = Example(
    about="With the write declared, XLA gives each kernel bytes of its own.",
    code=KERNEL
    + ALIASED_CALL
    + """\
def step(x):
    _, one = sum_and_double_declared(x.astype(jnp.float32))
    _, two = sum_and_double_declared(x.astype(jnp.float32))
    return {"one": one, "two": two}


CASE = Case(name="copies", function=step, args=(Arg(shape=(8, 32), dtype="bfloat16"),))
""",
)

NO_OUTPUTS = Example(
    about="A kernel that scales in place and returns nothing is dropped by JAX.",
    code=KERNEL
    + """\
@triton.jit
def scale_kernel(x_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(x_ptr + at, 3 * tl.load(x_ptr + at))


def step(x):
    h = x + 1
    jt.triton_call(h, kernel=scale_kernel, out_shape=(), grid=h.shape[:1], COLUMNS=h.shape[1])
    return {"scaled": h}


CASE = Case(name="vanishes", function=step, args=(Arg(shape=(8, 32)),))
""",
)

FORGED_POINTER = Example(
    about="The kernel stores through a pointer made from an integer: it could hit anything.",
    code=KERNEL
    + """\
@triton.jit
def forging_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    forged = x_ptr.to(tl.uint64).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + at, tl.load(x_ptr + at))
    tl.store(forged + at, 0.0)


def step(x):
    h = x + 1
    copy = jt.triton_call(h, kernel=forging_kernel, out_shape=h, grid=h.shape[:1], COLUMNS=h.shape[1])
    return {"copy": copy, "h": h}


CASE = Case(name="forges", function=step, args=(Arg(shape=(8, 32)),))
""",
)
