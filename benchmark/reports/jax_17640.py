"""The gradient of a scan that inserts into a carried array by shifting a part of it is very slow.

Structure: each step saves a part of one row of the state, writes it back one column further right, and sets the element that
became free. The loss is a sum over the final state, and its gradient is taken for the inserted values.

The right answer: the derivative of a write in place is a read of the cotangent and a write of zeros to the same place, so
neither direction has to copy the state (128 KiB) in an iteration. A copy of the state or of its cotangent in the loop is
superfluous: an update, or the scan, is the line. The cured twin builds the row outside and scatters it once.
"""

import jax

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw

ROWS, COLUMNS, SHIFTED, STEPS = 64, 512, 100, 8


def insert(state, item):
    row, column, value = item
    part = jax.lax.dynamic_slice(state, (row, column), (1, SHIFTED))  # at: slice
    state = jax.lax.dynamic_update_slice(state, part, (row, column + 1))  # at: shift
    return state.at[row, column].set(value), None  # at: set_line


def train(values, state, rows, columns):
    def compute_loss(values):
        final, _ = jax.lax.scan(insert, state, (rows, columns, values))  # at: scan_line
        return (final**2).sum(), final

    (loss, final), gradient = jax.value_and_grad(compute_loss, has_aux=True)(values)
    return {"gradient": gradient, "loss": loss, "state": final}


def train_row(values, state, rows, columns):
    def compute_loss(values):
        final = state.at[rows, columns].add(values)
        return (final**2).sum(), final

    (loss, final), gradient = jax.value_and_grad(compute_loss, has_aux=True)(values)
    return {"gradient": gradient, "loss": loss, "state": final}


ARGS = (
    Arg(shape=(STEPS,)),
    Arg(shape=(ROWS, COLUMNS), donate=True),
    Arg(shape=(STEPS,), dtype="int32", draw=Draw(kind="randint", low=0, high=ROWS)),
    Arg(shape=(STEPS,), dtype="int32", draw=Draw(kind="randint", low=0, high=COLUMNS - SHIFTED - 1)),
)
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/17640",
    year=2023,
    versions="jax 0.4.14",
    kind=Kind.SILENT_COPY,
    reported="the gradient of a scan with updates of slices is orders of magnitude slower than the scan",
    finds=Wrong(at=("slice", "shift", "set_line", "scan_line")),
)
BAD = Case(name="jax_17640", params=("bad",), function=train, args=ARGS)
CURED = Case(name="jax_17640", params=("cured",), function=train_row, args=ARGS)
CASES = (BAD, CURED)
