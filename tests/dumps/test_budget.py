"""Memory is bounded by the size of the file on disk."""

import gzip
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ligerdiag.dumps.content import compute_allowance, compute_seconds, limit_memory, limit_time
from ligerdiag.errors import ArtifactError
from ligerdiag.untrusted_files import BASE_MEMORY_BYTES, BASE_SECONDS, MEMORY_PER_BYTE, SECONDS_PER_BYTE
from tests.dumps.conftest import Inspect


def test_the_memory_that_a_file_may_take_grows_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 1000)
    assert compute_allowance([]) == BASE_MEMORY_BYTES
    assert compute_allowance([tmp_path / "a", tmp_path / "missing"]) == BASE_MEMORY_BYTES + 1000 * MEMORY_PER_BYTE


def test_the_time_that_a_file_may_take_grows_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * (1 << 20))
    assert compute_seconds([]) == BASE_SECONDS
    assert compute_seconds([tmp_path / "a"]) == pytest.approx(BASE_SECONDS + SECONDS_PER_BYTE * (1 << 20))


def test_an_existing_lower_limit_is_kept() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    lower = 16 << 30
    resource.setrlimit(resource.RLIMIT_DATA, (lower, before[1]))
    try:
        with limit_memory(2 * lower, "m"):
            assert resource.getrlimit(resource.RLIMIT_DATA)[0] == lower
        with limit_memory(1 << 30, "m"):
            assert resource.getrlimit(resource.RLIMIT_DATA)[0] < lower
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def test_time_is_not_bounded_outside_the_main_thread() -> None:
    def work() -> int:
        with limit_time(100, "m"):
            return int(signal.getitimer(signal.ITIMER_PROF)[0])

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result(timeout=600) == 0


def test_too_much_memory_is_an_error_and_the_limit_is_lifted_again() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(ArtifactError, match="`m` takes more than 64 MiB of memory"), limit_memory(64 << 20, "m"):
        bytearray(128 << 20)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert len(bytearray(128 << 20)) == 128 << 20
    with limit_memory(64 << 20, "m"):
        assert len(bytearray(16 << 20)) == 16 << 20


def spin() -> None:
    while True:
        time.process_time()


def test_too_much_time_is_an_error_and_the_alarm_is_off_again() -> None:
    before = signal.getsignal(signal.SIGPROF)
    with pytest.raises(ArtifactError, match=r"`m` takes more than 0.05 s"), limit_time(0.05, "m"):
        spin()
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGPROF) is before
    with limit_time(100, "m"):
        assert signal.getitimer(signal.ITIMER_PROF)[0] > 0
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_messages_that_take_forty_times_their_bytes_end_in_an_error(tmp_path: Path, inspect: Inspect) -> None:
    """A module of 60 million empty computations, packed to a small file that still does not count as a bomb."""
    inner = b"\x1a\x00" * 60_000_000 + b"\x0a\x0bcustom-call"
    head, rest = bytearray(b"\x0a"), len(inner)
    while rest > 127:
        head.append(rest & 127 | 128)
        rest >>= 7
    head.append(rest)
    path = tmp_path / "module_0001.jit_f.sm_9.0_gpu_after_optimizations.hlo.pb.gz"
    packed = gzip.compress(bytes(head) + inner, 9)
    path.write_bytes(packed + b"\x00" * (len(inner) // 200 - len(packed) + 1000))
    (case,) = inspect(tmp_path, timeout=120).cases  # time has a limit of its own
    assert "memory" in case.error
    assert case.error_exit_code == 3


def test_a_module_of_310_000_instructions_gets_more_than_the_29_seconds_it_takes() -> None:
    assert BASE_SECONDS + 45 * (1 << 20) * SECONDS_PER_BYTE > 29
