"""A cache entry is used only if it names its question and nobody else could have written it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import INDEX, REPLAYS, Cache, find_artifact
from ligerdiag.artifacts.scratch_folders import hold_lease, is_held
from ligerdiag.compile.compile_service import CompileResult
from ligerdiag.effects import isolated
from ligerdiag.effects.access import create_unknown_effects
from ligerdiag.effects.call import CustomCall
from ligerdiag.errors import InputError


def test_an_artifact_in_the_folder_of_another_is_a_miss(doubling: dict[str, CompileResult], tmp_path: Path) -> None:
    artifact = next(result.artifact for result in doubling.values() if result.artifact is not None)
    key, other = artifact.provenance.key, "0" * 64
    for name in (key, other):
        shutil.copytree(artifact.directory, tmp_path / name)
    assert find_artifact(tmp_path, key) is not None
    assert find_artifact(tmp_path, other) is None


@pytest.mark.parametrize("folder", [INDEX, REPLAYS])
def test_an_answer_to_another_question_is_a_miss(folder: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    file = tmp_path / "file"
    file.touch()
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    for name in ("one", "two"):
        cache.keep_answer({"question": name, "pair": (1, 2)}, {str(file): empty}, {"answer": name}, folder)
    assert cache.find_answer({"question": "one", "pair": (1, 2)}, folder) == {"answer": "one"}
    one, two = (cache.root / folder).iterdir()
    first = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(first)
    for name in ("one", "two"):
        assert cache.find_answer({"question": name, "pair": (1, 2)}, folder) is None


def test_the_effects_of_another_call_are_a_miss(tmp_path: Path) -> None:
    call = CustomCall(target="t", backend_config=b"", operands=1, outputs=1)
    effects = create_unknown_effects(kernel="t", operands=1, outputs=1, reason="")
    isolated._write_cached(tmp_path, "a" * 64, effects)
    assert isolated._load_cached(tmp_path, "a" * 64, call) == effects
    (tmp_path / f"{'a' * 64}.json").rename(tmp_path / f"{'b' * 64}.json")
    assert isolated._load_cached(tmp_path, "b" * 64, call) is None


@pytest.mark.parametrize(
    ("root", "inner", "refused"), [(0o777, 0o700, "cache"), (0o755, 0o775, "index"), (0o700, 0o775, "")]
)
def test_a_cache_that_others_can_write_is_refused(root: int, inner: int, refused: str, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    Cache(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "index").chmod(inner)
    folder.chmod(root)
    if not refused:
        Cache(folder)
        return
    with pytest.raises(InputError, match=rf"other users can write to the cache directory `.*{refused}`") as caught:
        Cache(folder)
    assert "\n" not in str(caught.value)


def test_a_cache_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cache(tmp_path / "cache")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(InputError, match="another user owns the cache directory"):
        Cache(tmp_path / "cache")


KILLED = """
import os, signal, sys
from pathlib import Path
from ligerdiag.artifacts.cache import Cache
cache = Cache(Path(sys.argv[1]))
cache.allocate_scratch().mkdir()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_files_left_by_a_killed_run_are_removed_by_the_next(tmp_path: Path) -> None:
    alive = Cache(tmp_path / "cache")
    mine = alive.allocate_scratch()
    mine.mkdir()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "cache")], capture_output=True, text=True, check=False
    )
    assert len(list(alive.artifacts.iterdir())) == 2, killed.stderr
    Cache(tmp_path / "cache")
    assert list(alive.artifacts.iterdir()) == [mine]
    assert len(list((alive.root / "locks").iterdir())) == 1


def test_a_lease_ends_with_its_last_reference(tmp_path: Path) -> None:
    lease = hold_lease(tmp_path / "lock")
    assert is_held(tmp_path / "lock")
    del lease
    assert not (tmp_path / "lock").exists()


def test_an_entry_that_names_no_question_is_a_miss(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    question = {"question": "one"}
    cache.keep_answer(question, {__file__: ""}, {"answer": 1})
    (entry,) = (tmp_path / INDEX).iterdir()
    fields = json.loads(entry.read_text())
    del fields["question"]
    entry.write_text(json.dumps(fields))
    assert cache.find_answer(question) is None


@contextmanager
def no_waiting() -> Generator[None]:
    """Fails if the code waits for a pipe without a writer."""

    def ring(number: int, frame: object) -> None:
        raise AssertionError("waits for a pipe")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(10)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_an_answer_that_is_a_pipe_is_a_miss(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    cache.keep_answer({"question": "one"}, {str(tmp_path / "file"): ""}, {"answer": "one"})
    (entry,) = (cache.root / INDEX).iterdir()
    entry.unlink()
    os.mkfifo(entry)
    with no_waiting():
        assert cache.find_answer({"question": "one"}) is None


def test_effects_that_are_a_pipe_are_a_miss(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"{'a' * 64}.json")
    call = CustomCall(target="t", backend_config=b"", operands=1, outputs=1)
    with no_waiting():
        assert isolated._load_cached(tmp_path, "a" * 64, call) is None
