"""Workers and the cache: a kernel that crashes its reader loses only its own answer, and a warm run starts no worker."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from ligerdiag.artifacts.scratch_folders import is_held
from ligerdiag.effects import isolated, triton_call_pb2
from ligerdiag.effects.access import Access
from ligerdiag.effects.call import CustomCall
from ligerdiag.effects.isolated import compute_effects_isolated

READ, WRITE, BOTH, UNKNOWN = Access.READ, Access.WRITE, Access.READ_WRITE, Access.UNKNOWN


def make_call(payload: bytes, operands: int = 1) -> CustomCall:
    return CustomCall(target="triton_kernel_call", backend_config=payload, operands=operands, outputs=1)


def make_deadly() -> CustomCall:
    """Makes a type nested so deeply that MLIR's recursive parser overflows the stack."""
    depth = 30_000
    return make_kernel(
        "module { tt.func public @k(%x: " + "!tt.ptr<" * depth + "f32" + ">" * depth + ") { tt.return } }"
    )


def make_slow() -> CustomCall:
    """Makes a chain of additions that takes seconds to read."""
    lines = "\n".join(f"%p{k + 1} = tt.addptr %p{k}, %n : !tt.ptr<f32>, i32" for k in range(200_000))
    return make_kernel(
        f"module {{ tt.func public @k(%p0: !tt.ptr<f32>) {{ %n = arith.constant 1 : i32\n{lines}\ntt.return }} }}"
    )


def make_kernel(ttir: str) -> CustomCall:
    proto = triton_call_pb2.TritonAnyKernelCall()
    proto.kernel_call.kernel.kernel_name = "k"
    proto.kernel_call.kernel.ttir = ttir
    proto.kernel_call.parameters.add().array.SetInParent()
    return make_call(zlib.compress(proto.SerializeToString()))


LIBRARY = CustomCall(target="__cublas$gemm", backend_config=b"{}", operands=2, outputs=1)


def test_a_kernel_that_crashes_its_reader_loses_only_its_own_answer(payload: bytes, cache: Path) -> None:
    calls = [make_call(payload), make_deadly(), LIBRARY, make_call(payload), make_call(payload, operands=2)]
    effects = compute_effects_isolated(calls, cache_directory=cache, timeout=600)
    assert effects[0].operands == (BOTH,)
    assert effects[1].operands == (UNKNOWN,)
    assert effects[1].reasons[0].startswith("the process that read the kernel died (exit code ")
    assert effects[2].operands == (READ, READ)
    assert effects[3] is effects[0]
    assert effects[4].operands == (BOTH, WRITE)
    assert len(list(cache.iterdir())) == 2, "only answers are kept, neither deaths nor library calls"


def test_a_kernel_that_takes_too_long_is_unknown(cache: Path) -> None:
    (effects,) = compute_effects_isolated([make_slow()], cache_directory=cache, timeout=0.1)
    assert effects.operands == (UNKNOWN,)
    assert effects.reasons == ("reading the kernel took longer than 0.1 s",)
    assert not cache.exists()


@pytest.fixture
def warm(payload: bytes, cache: Path) -> Path:
    """A cache that holds the answer for `payload`."""
    compute_effects_isolated([make_call(payload)], cache_directory=cache, timeout=600)
    return cache


def test_an_answer_is_locked_while_it_is_written(payload: bytes, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a cache opened meanwhile would take it for a file left by a dead process."""
    replace, held = os.replace, list[bool]()

    def look(source: str, target: Path) -> None:
        held.append(is_held(Path(source)))
        replace(source, target)

    monkeypatch.setattr("ligerdiag.effects.isolated.os.replace", look)
    compute_effects_isolated([make_call(payload)], cache_directory=cache, timeout=600)
    assert held == [True]


def test_a_warm_run_starts_no_worker(payload: bytes, warm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a worker was wanted")

    monkeypatch.setattr(isolated, "_compute_in_workers", refuse)
    effects = compute_effects_isolated([make_call(payload)] * 200, cache_directory=warm, timeout=600)
    assert {found.operands for found in effects} == {(BOTH,)}


def test_a_warm_run_imports_no_triton(payload: bytes, warm: Path, tmp_path: Path) -> None:
    (tmp_path / "payload").write_bytes(payload)
    program = f"""
import sys, pathlib
from ligerdiag.effects.call import CustomCall
from ligerdiag.effects.isolated import compute_effects_isolated
payload = pathlib.Path({str(tmp_path / "payload")!r}).read_bytes()
call = CustomCall(target="triton_kernel_call", backend_config=payload, operands=1, outputs=1)
(effects,) = compute_effects_isolated([call], cache_directory=pathlib.Path({str(warm)!r}), timeout=600)
assert effects.operands[0].value == "read_write"
assert not {{"triton", "jax"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"[" * 100000,
        b"\xff\xfe",
        b'{"kernel": "k", "operands": ["read", "read"], "outputs": ["write"], "reasons": [], "configurations": 1, '
        b'"grid": [1, 1, 1], '
        b'"operand_uses": [["no", "none", "disjoint", ""]], '
        b'"output_uses": [["no", "none", "disjoint", ""]]}',
        b'{"kernel": "k", "operands": ["nothing"], "outputs": ["write"], "reasons": [], "configurations": 1, '
        b'"grid": [1, 1, 1], '
        b'"operand_uses": [["no", "none", "disjoint", ""]], '
        b'"output_uses": [["no", "none", "disjoint", ""]]}',
        b'{"kernel": "k", "operands": ["read"], "outputs": ["write"], "reasons": [3], "configurations": 1, '
        b'"grid": [1, 1, 1], '
        b'"operand_uses": [["no", "none", "disjoint", ""]], '
        b'"output_uses": [["no", "none", "disjoint", ""]]}',
        b'{"kernel": "k", "operands": ["read"], "outputs": ["write"], "reasons": [], "configurations": 1, '
        b'"grid": [1, 1], '
        b'"operand_uses": [["no", "none", "disjoint", ""]], '
        b'"output_uses": [["no", "none", "disjoint", ""]]}',
        *(
            b'{"kernel": "k", "operands": ["read"], "outputs": ["write"], "reasons": [], "configurations": 1, '
            b'"grid": [1, 1, 1], "operand_uses": %s, "output_uses": [["no", "none", "disjoint", ""]]}' % uses
            for uses in (b"[]", b"3", b'["no"]', b'[["no", "none", "disjoint"]]', b'[["no", "all", "disjoint", ""]]')
        ),
    ],
)
def test_a_damaged_cache_file_is_a_miss(
    payload: bytes, warm: Path, text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = warm.iterdir()
    file.write_bytes(text)
    asked: list[str] = []

    def note(missing: dict[str, CustomCall], *_: object) -> dict[str, object]:
        asked.extend(missing)
        return dict.fromkeys(missing)

    monkeypatch.setattr(isolated, "_compute_in_workers", note)
    compute_effects_isolated([make_call(payload)], cache_directory=warm, timeout=600)
    assert asked == [file.stem]


def test_an_unwritable_cache_costs_only_time(payload: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (effects,) = compute_effects_isolated([make_call(payload)], cache_directory=tmp_path / "file", timeout=600)
    assert effects.operands == (BOTH,)


def test_the_key_depends_on_everything_that_affects_the_answer(payload: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    call = make_call(payload)
    variants = [
        call,
        make_call(payload + b"x"),
        make_call(payload, operands=2),
        CustomCall(target="triton_kernel_call", backend_config=payload, operands=1, outputs=2),
        CustomCall(target="triton_kernel_call_ffi", backend_config=payload, operands=1, outputs=1),
        CustomCall(target="triton_kernel_call", backend_config=payload, operands=1, outputs=1, sizes=(4, 4)),
    ]
    keys = {isolated._compute_key(variant) for variant in variants}  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(isolated, "ANALYSIS_VERSION", 0)
    keys.add(isolated._compute_key(call))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(isolated, "_get_triton_version", lambda: "0")
    keys.add(isolated._compute_key(call))  # pyright: ignore[reportPrivateUsage]
    assert len(keys) == len(variants) + 2
