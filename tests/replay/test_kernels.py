"""Kernels on bytes, from the Triton IR that their custom calls carry."""

import json
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
import triton

from kernels.cross_entropy.reference import cross_entropy
from ligerdiag.artifacts.cache import Cache
from ligerdiag.codec import encode_record
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.effects.call import parse_configurations
from ligerdiag.effects.ttir_module import parse_ttir
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.replay.ops.scope import NotCoveredError
from ligerdiag.replay.runs.kernels import KernelRunner, estimate_seconds
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tests.replay.conftest import BLOCK, ROWS, draw
from tests.replay.interpreted_kernels import make_call, make_custom_call, run

CROSS_ENTROPY = "kernels.seed_flce.triton.cross_entropy_kernel"
COMPILED = Path(__file__).parents[1] / "compile" / "programs"


def cross_entropy_constants(vocabulary: int) -> dict[str, Any]:
    return {
        "destination_ptr": None, "VOCABULARY": vocabulary, "IGNORE_INDEX": -100, "LABEL_SMOOTHING": 0.1, "MEAN": True,
        "BLOCK": 64,
    }  # fmt: skip


def test_cross_entropy_in_place_equals_its_reference() -> None:
    rows, vocabulary = 6, 150
    logits = draw(rows, vocabulary)
    targets = np.array([3, 149, -100, 0, 77, 5], np.int32)
    (overwritten, *_), (losses,), _ = run(
        CROSS_ENTROPY, [logits, targets, np.array(5, np.float32).reshape(1)], [np.zeros(rows, np.float32)],
        grid=(rows,), constants=cross_entropy_constants(vocabulary),
    )  # fmt: skip
    loss, gradient = jax.value_and_grad(lambda x: cross_entropy(x, targets, label_smoothing=0.1))(
        logits.reshape(rows, vocabulary)
    )
    # f32 sums over 150 elements in another order
    assert losses.sum() == pytest.approx(float(loss), rel=1e-5)
    error = np.linalg.norm(overwritten - np.ravel(gradient)) / np.linalg.norm(np.ravel(gradient))
    assert error < 1e-5


def test_a_kernel_read_by_another_triton_runs_from_its_file(tmp_path: Path) -> None:
    x = draw()
    call = make_call("double_kernel", [x], [np.zeros_like(x)], grid=(ROWS,), constants={"BLOCK": BLOCK})
    (configuration,) = parse_configurations("triton_kernel_call", call.proto.backend_config)
    newer = configuration.mlir.replace(b"tt.store", b"tt.stork")  # of the same length
    payload = zlib.decompress(call.proto.backend_config).replace(configuration.mlir, newer)
    refused = make_custom_call("triton_kernel_call", zlib.compress(payload))
    buffers = [np.ravel(x).copy()], [np.zeros(x.size, x.dtype)]
    with pytest.raises(NotCoveredError, match="is not understood by triton"):
        KernelRunner().launch(refused, *buffers, watched=False)
    path = tmp_path / "module.json"
    path.write_text(json.dumps(encode_record(parse_ttir(configuration.mlir))), encoding="utf-8")
    KernelRunner(modules={sha256(newer).hexdigest(): path}).launch(refused, *buffers, watched=False)
    assert np.array_equal(buffers[0][0], 2 * np.ravel(x))
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(NotCoveredError, match="double_kernel"):
        KernelRunner(modules={sha256(newer).hexdigest(): path}).launch(refused, *buffers, watched=False)


def test_a_hidden_write_goes_to_the_operand_s_bytes() -> None:
    x = draw()
    (overwritten,), (was,), (seen,) = run(
        "double_kernel", [x], [np.zeros_like(x)], grid=(ROWS,), constants={"BLOCK": BLOCK}
    )
    assert np.array_equal(overwritten, x * 2)
    assert np.array_equal(was, x)
    assert (seen.kernel, seen.instruction, seen.launches, seen.checked) == ("double_kernel", "custom-call.1", 1, 1)
    assert seen.unwritten == {}
    assert seen.racing == {}


def test_programs_know_their_place_in_a_grid_of_three_dimensions() -> None:
    grid = (2, 3, 4)
    for runner in ({}, {"checks": 0}):
        _, (places,), _ = run(
            "place_kernel", [], [np.zeros(24, np.int32)], grid=grid,
            constants={"ROWS": 2, "HEIGHT": 3, "DEPTH": 4}, runner=runner,
        )  # fmt: skip
        assert places.tolist() == list(range(24))


def test_atomic_additions_add_up() -> None:
    x, total = np.ones(64 * BLOCK, np.float32), np.zeros(1, np.float32)
    (_, out), *_ = run(
        "total_kernel", [x, total], [], grid=(64,), constants={"BLOCK": BLOCK}, times=2,
        runner={"checks": 0},
    )  # fmt: skip
    assert out[0] == 2 * x.size


def test_an_error_of_coverage_names_the_kernel() -> None:
    with pytest.raises(NotCoveredError, match=r"kernel `fail_late_kernel`: .*inline"):
        run("fail_late_kernel", [draw()], [np.zeros(1, np.int32)], grid=(ROWS,), constants={"BLOCK": BLOCK})


@pytest.mark.parametrize("narrow", [ml_dtypes.bfloat16, np.float16])
def test_narrow_floats_are_computed_in_f32_and_rounded_once(narrow: Any) -> None:
    x = draw(1, BLOCK, narrow)
    _, (square,), _ = run("square_kernel", [x], [np.zeros_like(x)], grid=(1,), constants={"BLOCK": BLOCK})
    assert np.array_equal(square, (x.astype(np.float32) ** 2).astype(narrow))


def test_f32_becomes_bf16_by_the_requested_rounding() -> None:
    x = draw(64)
    x[:3] = np.nan, np.inf, 1e-40
    keywords: Any = {"grid": (1,), "constants": {"BLOCK": x.size}}
    out = np.zeros(x.size, ml_dtypes.bfloat16)
    _, (rounded,), _ = run("convert_kernel", [x], [out], **keywords)
    assert np.array_equal(rounded.view(np.uint16), x.astype(ml_dtypes.bfloat16).view(np.uint16))


def test_every_bf16_converts_exactly_to_f32() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    _, (out,), _ = run("convert_kernel", [x], [np.zeros(x.size, np.float32)], grid=(1,), constants={"BLOCK": x.size})
    assert np.array_equal(out, x.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("narrow", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_f8_is_rounded_to_nearest_and_saturates(narrow: Any) -> None:
    x = draw(64) * 100
    x[0] = 1e9
    keywords: Any = {"grid": (1,), "constants": {"BLOCK": x.size}}
    _, (out,), _ = run("convert_kernel", [x], [np.zeros(x.size, narrow)], **keywords)
    limit = float(ml_dtypes.finfo(narrow).max)
    assert np.array_equal(out.astype(np.float32), np.clip(x, -limit, limit).astype(narrow).astype(np.float32))


def test_a_loop_may_be_bounded_by_a_scalar() -> None:
    n = 3 * BLOCK + 1
    x, scalars = draw(1, 4 * BLOCK), {"n": ("i32", n)}
    _, (copy,), _ = run(
        "rounds_kernel", [x], [np.zeros_like(x)], grid=(1,), scalars=scalars, constants={"BLOCK": BLOCK}
    )
    assert np.array_equal(copy[:n], x[:n])
    assert np.isnan(copy[n:]).all()


def test_scalars_and_constants_have_the_types_that_jax_triton_gives_them() -> None:
    x = draw(1, BLOCK)
    # a scalar that is 1 is compiled into the kernel by jax-triton, as a constant is
    scalars, constants = {"factor": ("fp64", 0.1)}, {"nothing": None, "SIZE": BLOCK, "unannotated": 8, "one": 1}
    constants |= {"TYPE": triton.language.float64}
    _, (product, kept), _ = run(
        "product_kernel", [x], [np.zeros(BLOCK), np.zeros(3)], grid=(1,), scalars=scalars, constants=constants
    )
    # a Python float is an fp64: the product is one of doubles
    assert np.array_equal(product, x.astype(np.float64) * 0.1)
    # and a 1 is a constant and no i32: it takes the type of the value that it is added to
    assert kept.tolist() == [0.1, 8.0, -128.0]


def test_the_launch_of_an_artifact_runs(tmp_path: Path) -> None:
    with Pool(cache=Cache(tmp_path), jobs=1) as pool:
        cases = discover_cases(["launched.py::scale"], pool=pool, directory=COMPILED)
        (result,) = compile_cases(cases, [load_target("h100")], pool=pool)
    assert result.artifact is not None, result.error
    module, _ = load_hlo(result.artifact.optimized)
    (call,) = [one for one in module.entry.sequence if one.opcode == "custom-call"]
    x = draw()
    out, total = np.zeros_like(x), np.ones(1, np.float32)
    KernelRunner().launch(call, [x], [out, total], watched=False)
    assert np.array_equal(out, x * np.float32(0.5))
    # zeroed first; f32 sums of 128 elements in another order
    assert total[0] == pytest.approx(x.sum(dtype=np.float64), abs=1e-5 * float(np.abs(x).sum()))


def test_a_call_without_a_kernel_is_not_covered() -> None:
    for target, config in (("my_target", b""), ("triton_kernel_call", b"no payload")):
        with pytest.raises(NotCoveredError, match=target if target == "my_target" else "not zlib-compressed"):
            KernelRunner().launch(make_custom_call(target, config), [], [], watched=True)


def test_an_autotuned_kernel_runs_if_its_configurations_agree() -> None:
    x = draw()
    (overwritten,), (was,), _ = run(
        "double_kernel", [x], [np.zeros_like(x)], grid=(ROWS,), constants={"BLOCK": BLOCK}, configurations=2
    )
    assert np.array_equal(overwritten, x * 2)
    assert np.array_equal(was, x)


def test_the_estimate_grows_with_bytes_and_programs() -> None:
    assert estimate_seconds(1, 10**6) < estimate_seconds(100, 10**6) < estimate_seconds(100, 10**8)
