"""Another Triton's kernels are read in its own process; here that process has our Triton and must give the same answer."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.codec import FieldError, parse_object, parse_record
from ligerdiag.effects.access import Access
from ligerdiag.effects.call import CustomCall, parse_configurations
from ligerdiag.effects.effects_worker import EFFECTS_WORKER, make_effects_job, parse_effects_request
from ligerdiag.effects.isolated import compute_effects_isolated, read_modules_elsewhere
from ligerdiag.effects.ttir_module import TtirModule, parse_ttir
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers.pool import Pool


@pytest.fixture
def readers(tmp_path: Path) -> Iterator[Pool]:
    with Pool(cache=Cache(tmp_path / "root"), jobs=1, timeout=600, module=EFFECTS_WORKER) as pool:
        yield pool


def make_call(payload: bytes) -> CustomCall:
    return CustomCall(target="triton_kernel_call", backend_config=payload, operands=1, outputs=1)


def test_a_call_arrives_unchanged(payload: bytes) -> None:
    call = make_call(payload)
    assert parse_effects_request(parse_object(make_effects_job(call).render("log"))) == call


def test_another_process_gives_the_same_answer_and_it_is_cached(payload: bytes, readers: Pool, tmp_path: Path) -> None:
    calls = [make_call(payload), make_call(b"no payload"), make_call(payload)]
    here = compute_effects_isolated(calls, cache_directory=None, timeout=600)
    there = compute_effects_isolated(calls, cache_directory=tmp_path / "effects", timeout=600, readers=readers)
    assert there == here
    assert there[0].operands == (Access.READ_WRITE,)
    readers.close()
    assert compute_effects_isolated(calls, cache_directory=tmp_path / "effects", timeout=600, readers=readers) == here


def test_a_missing_reader_leaves_the_effects_unknown(payload: bytes, tmp_path: Path) -> None:
    gone = replace(current_toolchain(), python=str(tmp_path / "no-python"))
    with Pool(cache=Cache(tmp_path / "root"), toolchain=gone, jobs=1, module=EFFECTS_WORKER) as readers:
        (effects,) = compute_effects_isolated(
            [make_call(payload)], cache_directory=tmp_path, timeout=600, readers=readers
        )
    assert effects.operands == (Access.UNKNOWN,)
    assert effects.reasons[0].startswith("cannot start a worker with ")
    assert not list(tmp_path.glob("*.json")), "an unknown answer is not kept"


@pytest.mark.parametrize("line", ["{}", '{"answer": {}}', '{"answer": {"effects": "{}"}}', "no json"])
def test_an_answer_that_does_not_fit_the_call_is_refused(line: str, payload: bytes) -> None:
    with pytest.raises(FieldError):
        make_effects_job(make_call(payload)).parse(line)


def test_another_process_reads_each_module_once_and_completely(payload: bytes, readers: Pool, tmp_path: Path) -> None:
    (configuration,) = parse_configurations("triton_kernel_call", payload)
    sources = [configuration.mlir, b"no module", configuration.mlir]
    found = read_modules_elsewhere(sources, tmp_path / "effects", readers)
    assert list(found) == [sha256(configuration.mlir).hexdigest()]
    (path,) = found.values()
    there, here = parse_record(TtirModule, path.read_bytes()), parse_ttir(configuration.mlir)
    assert list(there.functions) == list(here.functions)
    assert there.has_lines
    for one, other in zip(there.functions.values(), here.functions.values(), strict=True):
        assert [op.text for op in one.operations] == [op.text for op in other.operations]
        assert [op.place for op in one.operations] == [op.place for op in other.operations]
        assert list(one.types.values()) == list(other.types.values())
        assert len(one.pointers) == len(other.pointers) > 0
    readers.close()
    assert read_modules_elsewhere([configuration.mlir], tmp_path / "effects", readers) == found
