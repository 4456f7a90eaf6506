"""`ligerdiag.check` of a program that `jax.export` has exported."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import export

import ligerdiag
from ligerdiag.compile.lowering.jax_versions import assume_gpu
from ligerdiag.errors import InputError
from tests.device import opcheck_kernels as kernels

X, W = jax.ShapeDtypeStruct((16, 8), jnp.float32), jax.ShapeDtypeStruct((8, 16), jnp.float32)


def step(x: Any, unused: Any, *, w: Any) -> Any:
    """Reads the product after a kernel that doubles it behind XLA's back."""
    del unused
    product = (x @ w).reshape(-1)
    sums = kernels.call(kernels.double_in_place, product)
    return {"sums": sums, "back": product.reshape(16, 16) @ w.T}


def make_exported(function: Any, *args: Any, platforms: tuple[str, ...] = ("cuda",), **keywords: Any) -> Any:
    allowed = [export.DisabledSafetyCheck.custom_call("triton_kernel_call")]
    with assume_gpu(90):
        make = export.export(jax.jit(function), platforms=platforms, disabled_checks=allowed)
        return make(*args, **keywords)


def test_an_exported_program_gets_the_verdicts_of_its_function(shared_cache: Path) -> None:
    exported = make_exported(step, X, W, w=W)
    report = ligerdiag.check(exported, cache_directory=shared_cache)
    itself = ligerdiag.check(step, X, W, kwargs={"w": W}, cache_directory=shared_cache, replay=False)
    assert not report.error, report.error
    assert dict(report.outputs) == dict(itself.outputs)
    assert report.outputs["back"] is ligerdiag.Verdict.STALE
    assert report.id == "step"
    assert report.replay is not None
    assert (report.replay.state.value, report.disagreements) == ("done", ())
    assert {"LD001", "LD006"} <= {finding.rule for finding in report.findings}


def test_an_exported_program_that_cannot_be_checked_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"`double` is exported for `cpu`: export it with"):
        ligerdiag.check(make_exported(double, X, platforms=("cpu",)))
    for program, target in (
        (make_exported(double, X), "mi300"),
        (make_exported(double, X, platforms=("rocm",)), "h100,mi300"),
    ):
        with pytest.raises(InputError, match="for NVIDIA GPUs only: for target `mi300`, check the function that"):
            ligerdiag.check(program, target=target)
    with pytest.raises(InputError, match="pass none to `check`"):
        ligerdiag.check(make_exported(double, X), X)
    (size,) = export.symbolic_shape("n")
    with pytest.raises(InputError, match="symbolic shapes"):
        ligerdiag.check(make_exported(double, jax.ShapeDtypeStruct((size,), jnp.float32)))
    with pytest.raises(InputError, match="several platforms"):
        ligerdiag.check(make_exported(double, X, platforms=("cpu", "cuda")))


def double(x: Any) -> Any:
    return x * 2


def test_an_exported_program_without_keywords_is_checked(shared_cache: Path) -> None:
    report = ligerdiag.check(make_exported(double, X), cache_directory=shared_cache, replay=False)
    assert (report.status.value, report.error) == ("nothing to check", "")
