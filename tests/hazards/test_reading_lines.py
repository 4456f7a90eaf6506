"""A finding names the line that reads: in the body of a loop or of a `vmap`, and not that of the loop or the `vmap`."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import ReadPlace

PROGRAM = """\
import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag import Arg, Case


@triton.jit
def double_kernel(x_ptr, sums_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(x))
    tl.store(x_ptr + at, 2 * x)


def sum_and_double(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jax_triton.triton_call(x, kernel=double_kernel, out_shape=sums, grid=x.shape[:1], COLUMNS=x.shape[1])


def scanned(x, w):
    h = x @ w
    sums = sum_and_double(h)

    def body(carry, row):
        return carry + 1, jnp.sin(row)  # scanned reads

    return sums, jax.lax.scan(body, jnp.float32(0), h)[1]


def mapped(x, w):
    h = x @ w
    sums = sum_and_double(h)

    def body(row):
        shifted = row - 1  # mapped reads
        return jnp.cumsum(shifted)

    return sums, jax.vmap(body)(h)


def looped(x, w):
    h = x @ w
    sums = sum_and_double(h)

    def body(number, carry):
        row = jax.lax.dynamic_index_in_dim(h, number, keepdims=False)  # looped reads
        return carry + jnp.sin(row)

    return sums, jax.lax.fori_loop(0, 8, body, jnp.zeros(32))


ARGS = (Arg(shape=(8, 16)), Arg(shape=(16, 32)))
CASES = tuple(Case(name=one.__name__, function=one, args=ARGS) for one in (scanned, mapped, looped))
"""


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> dict[str, list[ReadPlace]]:
    path = tmp_path_factory.mktemp("lines") / "lines.py"
    path.write_text(PROGRAM)
    report = api.check(api.CheckOptions(selectors=(str(path),), cache_directory=shared_cache, replay=False))
    return {
        case.id: [one.reader for one in case.findings if one.reader is not None and "1" in one.outputs]
        for case in report.cases
    }


@pytest.mark.parametrize("name", ["scanned", "mapped", "looped"])
def test_a_read_is_at_the_line_of_the_body(readers: dict[str, list[ReadPlace]], name: str) -> None:
    expected = 1 + next(n for n, line in enumerate(PROGRAM.splitlines()) if line.endswith(f"# {name} reads"))
    assert [place.line and place.line.line for place in readers[name]] == [expected]
