"""Kernels on bytes, in a process where Triton interprets them."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from kernels.cross_entropy.reference import cross_entropy
from ligerdiag.artifacts.cache import Cache
from ligerdiag.artifacts.call_records import Scalar
from ligerdiag.compile.service import compile_cases, discover_cases
from ligerdiag.replay.interpreter.scope import NotCoveredError
from ligerdiag.replay.kernels.grid import AtomicsError
from ligerdiag.replay.kernels.grid_pool import GridPool, find_kernel
from ligerdiag.replay.kernels.kernels import KernelRunner, estimate_seconds
from ligerdiag.toolchains.catalogue import load_target
from ligerdiag.workers.pool import Pool
from tests.replay.conftest import BLOCK, ROWS, Call, draw
from tests.replay.interpreted_kernels import make_launch, run
from tests.replay.processes import find_descendants, is_running

CROSS_ENTROPY = "kernels.cross_entropy.triton.cross_entropy_kernel"
SCRIPT = Path(__file__).parent / "programs" / "long_launch.py"
COMPILED = Path(__file__).parents[1] / "compile" / "programs"


def cross_entropy_constants(vocabulary: int) -> dict[str, Any]:
    return {
        "destination_ptr": None, "VOCABULARY": vocabulary, "IGNORE_INDEX": -100, "LABEL_SMOOTHING": 0.1, "MEAN": True,
        "BLOCK": 64,
    }  # fmt: skip


def test_cross_entropy_in_place_equals_its_reference(interpreted: Call) -> None:
    rows, vocabulary = 6, 150
    logits = draw(rows, vocabulary)
    targets = np.array([3, 149, -100, 0, 77, 5], np.int32)
    (overwritten, *_), (losses,), _ = interpreted(
        run, CROSS_ENTROPY, [logits, targets, np.array(5, np.float32).reshape(1)], [np.zeros(rows, np.float32)],
        grid=(rows,), constants=cross_entropy_constants(vocabulary),
    )  # fmt: skip
    loss, gradient = jax.value_and_grad(lambda x: cross_entropy(x, targets, label_smoothing=0.1))(
        logits.reshape(rows, vocabulary)
    )
    # f32 sums over 150 elements in another order
    assert losses.sum() == pytest.approx(float(loss), rel=1e-5)
    error = np.linalg.norm(overwritten - np.ravel(gradient)) / np.linalg.norm(np.ravel(gradient))
    assert error < 1e-5


def test_a_hidden_write_lands_in_the_operands_bytes(interpreted: Call) -> None:
    x = draw()
    (overwritten,), (was,), (seen,) = interpreted(
        run, "double_kernel", [x], [np.zeros_like(x)], grid=(ROWS,), constants={"BLOCK": BLOCK}
    )
    assert np.array_equal(overwritten, x * 2)
    assert np.array_equal(was, x)
    assert (seen.kernel, seen.instruction, seen.launches, seen.checked) == ("double_kernel", "call.1", 1, 1)
    assert seen.unwritten == {}
    assert seen.racing == {}


def test_programs_know_their_place_in_a_grid_of_three_dimensions(interpreted: Call) -> None:
    grid = (2, 3, 4)
    for runner in ({}, {"processes": 2, "split_seconds": 0.0}):
        _, (places,), _ = interpreted(
            run, "place_kernel", [], [np.zeros(24, np.int32)], grid=grid,
            constants={"ROWS": 2, "HEIGHT": 3, "DEPTH": 4}, runner=runner,
        )  # fmt: skip
        assert places.tolist() == list(range(24))


def test_a_grid_over_two_processes_gives_the_same_bits(interpreted: Call) -> None:
    rows, vocabulary = 32, 300
    arguments: Any = [draw(rows, vocabulary), np.arange(rows, dtype=np.int32), np.array([rows], np.float32)]
    results = [
        interpreted(
            run, CROSS_ENTROPY, arguments, [np.zeros(rows, np.float32)], grid=(rows,),
            constants=cross_entropy_constants(vocabulary), runner=runner,
        )
        for runner in ({}, {"processes": 2, "split_seconds": 0.0})
    ]  # fmt: skip
    (one, one_loss, _), (two, two_loss, _) = results
    assert not np.array_equal(one[0], arguments[0])
    assert np.array_equal(one[0], two[0])
    assert np.array_equal(one_loss[0], two_loss[0])


def test_buffers_that_share_their_bytes_share_them_over_processes(interpreted: Call) -> None:
    x = draw()
    (overwritten,), (out,), _ = interpreted(
        run, "twice_over_kernel", [x], [x], grid=(ROWS,), share={0: 0}, constants={"BLOCK": BLOCK},
        runner={"processes": 2, "split_seconds": 0.0, "checks": 0},
    )  # fmt: skip
    assert np.array_equal(overwritten, x * 2 + 1)
    assert np.array_equal(out, overwritten)


def run_atomics_in_a_pool() -> tuple[bool, float]:
    """Whether it was refused, and what the buffer holds then."""
    total, pool = np.zeros(1, np.float32), GridPool(2)
    launch = make_launch("total_kernel", (64,), 2, 0, constants={"BLOCK": BLOCK})
    try:
        pool.run(launch, [np.ones(64 * BLOCK, np.float32), total], round_to_nearest=False)
    except AtomicsError:
        return True, float(total[0])
    finally:
        pool.close()
    return False, float(total[0])


def test_a_kernel_with_atomics_stays_in_one_process(interpreted: Call) -> None:
    x, total = np.ones(64 * BLOCK, np.float32), np.zeros(1, np.float32)
    (_, out), *_ = interpreted(
        run, "total_kernel", [x, total], [], grid=(64,), constants={"BLOCK": BLOCK}, times=2,
        runner={"processes": 2, "split_seconds": 0.0},
    )  # fmt: skip
    assert out[0] == 2 * x.size
    assert interpreted(run_atomics_in_a_pool) == (True, 0.0)


def run_and_fail(processes: int) -> tuple[str, bool]:
    x = np.zeros(ROWS * BLOCK, np.float32)
    launch = make_launch("fail_late_kernel", (ROWS,), 1, 1, constants={"BLOCK": BLOCK})
    with KernelRunner([launch], processes=processes, split_seconds=0.0) as runner:
        try:
            runner.launch(launch.payload, [x], [np.zeros(1, np.int32)])
        except NotCoveredError as error:
            return str(error), bool(x.any())
    raise AssertionError


def test_what_the_interpreter_lacks_is_not_covered(interpreted: Call) -> None:
    reason = "kernel `fail_late_kernel`: NotImplementedError: inline_asm not supported in interpreter mode"
    assert interpreted(run_and_fail, 1) == (reason, True)
    # over processes the buffers are given back when all is done, or not at all
    assert interpreted(run_and_fail, 2) == (reason, False)


@pytest.mark.parametrize("kernel", ["square_kernel", "sum_kernel"])
def test_arithmetic_in_bf16_is_not_covered(interpreted: Call, kernel: str) -> None:
    x = draw(1, BLOCK, ml_dtypes.bfloat16)
    with pytest.raises(NotCoveredError, match=r"in bf16$"):
        interpreted(run, kernel, [x], [x], grid=(1,), constants={"BLOCK": BLOCK})


def test_f32_becomes_bf16_as_asked_for(interpreted: Call) -> None:
    x = draw(64)
    x[:3] = np.nan, np.inf, 1e-40
    keywords: Any = {"grid": (1,), "constants": {"BLOCK": x.size}}
    out = np.zeros(x.size, ml_dtypes.bfloat16)
    _, (cut,), _ = interpreted(run, "convert_kernel", [x], [out], **keywords)
    assert np.array_equal(cut.view(np.uint16)[3:], (x.view(np.uint32) >> 16).astype(np.uint16)[3:])
    _, (rounded,), _ = interpreted(run, "convert_kernel", [x], [out], runner={"round_to_nearest": True}, **keywords)
    assert np.array_equal(rounded.view(np.uint16), x.astype(ml_dtypes.bfloat16).view(np.uint16))


def test_every_bf16_becomes_the_f32_that_it_is(interpreted: Call) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    _, (out,), _ = interpreted(
        run, "convert_kernel", [x], [np.zeros(x.size, np.float32)], grid=(1,), constants={"BLOCK": x.size}
    )
    assert np.array_equal(out, x.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("narrow", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_f8_is_rounded_to_nearest_and_saturates_or_is_not_covered(interpreted: Call, narrow: Any) -> None:
    x = draw(64) * 100
    x[0] = 1e9
    keywords: Any = {"grid": (1,), "constants": {"BLOCK": x.size}}
    with pytest.raises(NotCoveredError, match="conversion of fp32 to fp8"):
        interpreted(run, "convert_kernel", [x], [np.zeros(x.size, narrow)], **keywords)
    _, (out,), _ = interpreted(
        run, "convert_kernel", [x], [np.zeros(x.size, narrow)], runner={"round_to_nearest": True}, **keywords
    )
    limit = float(ml_dtypes.finfo(narrow).max)
    assert np.array_equal(out.astype(np.float32), np.clip(x, -limit, limit).astype(narrow).astype(np.float32))


def test_a_loop_may_be_bounded_by_a_scalar(interpreted: Call) -> None:
    n = 3 * BLOCK + 1
    x, scalars = draw(1, 4 * BLOCK), (Scalar(position=1, type="i32", value=n),)
    _, (copy,), _ = interpreted(
        run, "rounds_kernel", [x], [np.zeros_like(x)], grid=(1,), scalars=scalars, constants={"BLOCK": BLOCK}
    )
    assert np.array_equal(copy[:n], x[:n])
    assert np.isnan(copy[n:]).all()


def test_scalars_and_constants_have_the_types_that_jax_triton_gives_them(interpreted: Call) -> None:
    x = draw(1, BLOCK)
    scalars = (Scalar(position=1, type="fp64", value=0.1), Scalar(position=2, type="i32", value=1))
    constants = {"nothing": None, "SIZE": BLOCK, "unannotated": 8, "TYPE": {"dtype": "fp64"}}
    _, (product, kept), _ = interpreted(
        run, "product_kernel", [x], [np.zeros(BLOCK), np.zeros(3)], grid=(1,), scalars=scalars, constants=constants
    )
    # a Python float is an fp64: the product is one of doubles
    assert np.array_equal(product, x.astype(np.float64) * 0.1)
    # and a 1 is no i32 but a constant, which takes the type of what it is added to
    assert kept.tolist() == [0.1, 8.0, -128.0]


def find(launch: Any) -> str:
    try:
        find_kernel(launch)
    except NotCoveredError as error:
        return str(error)
    return ""


def test_a_kernel_that_cannot_be_had_is_told_in_one_line(interpreted: Call) -> None:
    launch = make_launch("double_kernel", (1,), 1, 1)
    assert interpreted(find, launch) == ""
    for changed, reason in (
        (
            replace(launch, trouble="the kernel is autotuned: 2 configurations"),
            "the kernel is autotuned: 2 configurations",
        ),
        (replace(launch, source="ab"), f"`{launch.file}` is not what was compiled any more"),
        (replace(launch, qualname="run"), f"`{launch.module}` has no interpreted kernel under the name `run`"),
        (replace(launch, module="no_such.module", file="/no/such.py"), "no file `/no/such.py`"),
        (replace(launch, module="math", qualname="gone"), "`math` has no interpreted kernel under the name `gone`"),
    ):
        told = interpreted(find, changed)
        assert told.startswith("kernel `double_kernel`: ")
        assert told.endswith(reason)
        assert "\n" not in told
    assert find(launch) == "kernel `double_kernel`: TRITON_INTERPRET=1 is not in the environment"


def test_a_module_that_only_its_file_leads_to_is_imported(interpreted: Call) -> None:
    launch = make_launch("double_kernel", (1,), 1, 1)
    assert interpreted(find, replace(launch, module="ligerdiag_case_of_tests")) == ""


def test_an_unknown_payload_is_not_covered() -> None:
    with KernelRunner([]) as runner, pytest.raises(NotCoveredError, match="does not hold"):
        runner.launch("ab", [], [])


def test_the_estimate_grows_with_bytes_and_programs() -> None:
    small, large = (make_launch("double_kernel", (rows,), 1, 1) for rows in (1, 100))
    assert estimate_seconds(small, 10**6) < estimate_seconds(large, 10**6) < estimate_seconds(large, 10**8)


def run_record(launch: Any, operands: Any, outputs: Any) -> list[Any]:
    with KernelRunner([launch]) as runner:
        runner.launch(launch.payload, operands, outputs)
    return outputs


def test_the_launch_of_an_artifact_runs(interpreted: Call, tmp_path: Path) -> None:
    with Pool(cache=Cache(tmp_path), jobs=1) as pool:
        cases = discover_cases(["launched.py::scale"], pool=pool, directory=COMPILED)
        (result,) = compile_cases(cases, [load_target("h100")], pool=pool)
    assert result.artifact is not None, result.error
    (launch,) = result.artifact.kernel_launches
    x = draw()
    out, total = interpreted(run_record, launch, [x], [np.zeros_like(x), np.ones(1, np.float32)])
    assert np.array_equal(out, x * np.float32(0.5))
    # zeroed first; f32 sums of 128 elements in another order
    assert total[0] == pytest.approx(x.sum(dtype=np.float64), abs=1e-5 * float(np.abs(x).sum()))


def test_killing_the_parent_leaves_no_process() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "JAX_PLATFORMS": "cpu"}
    with subprocess.Popen([sys.executable, str(SCRIPT)], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        # each of both processes of the pool has begun its part
        started = [parent.stdout.readline().strip() for _ in range(2)]
        children = find_descendants(parent.pid)
        parent.send_signal(signal.SIGKILL)
    assert started == ["begun", "begun"]
    assert len(children) >= 2
    deadline = time.monotonic() + 600
    while any(map(is_running, children)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [child for child in children if is_running(child)]
