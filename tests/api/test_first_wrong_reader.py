"""The finding names the first wrong reader, and no instruction that only passes on its result.

In each program `x * 3` is the only operation that reads `x`, after a kernel that doubles it. Its result then passes
through layers that are one computation called several times, through a loop, a branch, or stacked rows.
"""

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CheckReport
from ligerdiag.report.causes import list_causes, list_reads

PROGRAMS = """\
import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
from ligerdiag import Arg, Case


@triton.jit
def double_kernel(x_ptr, sum_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(sum_ptr, tl.sum(x * x))
    tl.store(x_ptr + tl.arange(0, N), 2 * x)


def double(x):
    return jax_triton.triton_call(
        x, kernel=double_kernel, out_shape=jax.ShapeDtypeStruct((), "float32"), grid=1, N=256
    )


@jax.jit
def layer(x, w):
    return jnp.tanh(x @ w) + x


def layers(a, w):
    x = a + 1.0
    total = double(x)
    x = x * 3.0  # the reader
    for _ in range(3):
        x = layer(x, w)
    return {"total": total, "x": x, "y": jnp.sin(x @ w)}


def loop(a, w):
    x = a + 1.0
    total = double(x)
    x = x * 3.0  # the reader
    x, sums = jax.lax.scan(lambda x, _: (layer(x, w), x.sum()), x, None, length=3)
    return {"total": total, "x": layer(x, w), "sums": sums}


def branch(a, w):
    x = a + 1.0
    total = double(x)
    x = x * 3.0  # the reader
    x = jax.lax.cond(total > 0, lambda x: layer(x, w), lambda x: x, x)
    return {"total": total, "x": layer(x, w)}


def rows(a, w):
    def body(total, row):
        x = row + 1.0
        total = total + double(x)
        x = x * 3.0  # the reader
        return total, x

    total, x = jax.lax.scan(body, 0.0, a)
    return {"total": total, "x": jnp.sin(layer(x, w))}


SQUARE = Arg(shape=(16, 16))
CASES = (
    *(Case(name=function.__name__, function=function, args=(SQUARE, SQUARE)) for function in (layers, loop, branch)),
    Case(name="rows", function=rows, args=(Arg(shape=(4, 256)), Arg(shape=(256, 256)))),
)
"""
READERS = [number for number, line in enumerate(PROGRAMS.splitlines(), 1) if "# the reader" in line]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> CheckReport:
    folder = tmp_path_factory.mktemp("first_wrong_reader")
    (folder / "programs.py").write_text(PROGRAMS, encoding="utf-8")
    options = api.CheckOptions(selectors=(str(folder / "programs.py"),), cache_directory=folder / "cache", replay=False)
    return api.check(options)


@pytest.mark.parametrize(("number", "name"), list(enumerate(("layers", "loop", "branch", "rows"))))
def test_one_line_is_blamed(report: CheckReport, number: int, name: str) -> None:
    (case,) = [one for one in report.cases if one.id == name]
    stale = {output for output, verdict in case.outputs.items() if verdict is Verdict.STALE}
    assert stale == set(case.outputs) - {"total"}
    blaming = [finding for finding in case.findings if finding.rule in ("LD001", "LD002")]
    lines = {line and line.line for cause in list_causes(case) for line, _ in list_reads(cause)}
    assert lines == {READERS[number]}
    assert set[str]().union(*(finding.outputs for finding in blaming)) == stale
