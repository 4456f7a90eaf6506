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


def step(x, w):
    h = x @ w
    sums, doubled = Scale(in_place=True)(h)
    return {"sums": sums, "back": doubled @ w.T}


CASE = Case(name="flagged", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
