"""Small programs around a kernel that overwrites its operand, as separate files."""

KERNEL = """\
import jax
import jax_triton
import triton
import triton.language as tl
from ligerdiag import Arg, Case


@triton.jit
def running_maximum(row_ptr, last_ptr, N: tl.constexpr):
    best = tl.load(row_ptr)
    for n in range(1, N):
        best = tl.maximum(best, tl.load(row_ptr + n))
        tl.store(row_ptr + n, best)
    tl.store(last_ptr, best)


def overwrite(row, dtype="float32"):
    return jax_triton.triton_call(row, kernel=running_maximum, out_shape=jax.ShapeDtypeStruct((), dtype), grid=1, N=8)


"""
"""`overwrite(row)` hides that it overwrites `row`."""


def make_file(name: str, body: str) -> str:
    """Returns a file with one case of two arguments, x and y, f32[8]; `body` computes a dictionary of outputs from
    them.
    """
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"""{KERNEL}def program(x, y):
{lines}

CASE = Case(name="{name}", function=program, args=(Arg(shape=(8,)), Arg(shape=(8,))))
"""


TWO_READERS = make_file(
    "two_readers", 'row = x * y\nlast = overwrite(row)\nreturn {"last": last, "sum": row + y, "product": row * x}'
)
TWO_KERNELS = make_file(
    "two_kernels",
    "row = x * y\nfirst = overwrite(row)\nother = row + x\nsecond = overwrite(other)\n"
    'return {"product": row * y, "best": second, "first": first}',
)
"""The second kernel's operand is computed from the first one's result, and its output is listed first."""
NO_READER = make_file("no_reader", 'row = x * y\nreturn {"last": overwrite(row)}')
HARMLESS = make_file("harmless", 'return {"sum": x + y}')
INTEGER_OUTPUT = make_file(
    "integer_output", 'row = x * y\nlast = overwrite(row, "int32")\nreturn {"last": last, "sum": row + y}'
)
UNTRACEABLE = make_file("untraceable", 'return {"sum": x + y[:3]}')
