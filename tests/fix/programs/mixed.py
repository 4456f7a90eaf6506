import jax
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case


@triton.jit
def scale_kernel(x_ptr, sum_ptr, out_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    if out_ptr is None:
        out_ptr = x_ptr
    tl.store(out_ptr + at, 2 * x)


class Scale:
    """Doubles rows; a library's layer."""

    def __init__(self, in_place=True):
        self.in_place = in_place

    def __call__(self, *operands):
        (x,) = operands
        rows = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
        launch = {"kernel": scale_kernel, "grid": x.shape[:1], "COLUMNS": x.shape[1]}
        if self.in_place:
            return jt.triton_call(*operands, out_shape=rows, out_ptr=None, **launch), x
        return jt.triton_call(*operands, out_shape=(rows, x), **launch)


@triton.jit
def clip_kernel(y_ptr, count_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    y = tl.load(y_ptr + at)
    tl.store(count_ptr + row, tl.sum((y > 1.0).to(tl.int32)))
    tl.store(y_ptr + at, tl.minimum(y, 1.0))


def step(x, w):
    h = x @ w
    sums, doubled = Scale(in_place=True)(h)
    y = doubled @ w.T
    rows, columns = y.shape
    counts = jax.ShapeDtypeStruct((rows,), "int32")
    count = jt.triton_call(y, kernel=clip_kernel, out_shape=counts, grid=(rows,), COLUMNS=columns)
    return {"sums": sums, "count": count, "loss": (y * y).mean()}


CASE = Case(name="mixed", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
