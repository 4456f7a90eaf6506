"""`ligerdiag fix` as a command."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import copy

import pytest

from ligerdiag.cli.fix import write_changes
from ligerdiag.errors import InputError
from ligerdiag.fix.records import Attempt, CaseFix, Proof
from tools.warm_commands import run_warm_command

PROGRAM = Path(__file__).parent / "programs" / "hidden.py"


def test_the_diff_goes_through_git_apply_and_leaves_nothing_to_fix(shared_cache: Path, tmp_path: Path) -> None:
    environment = os.environ | {"LIGERDIAG_CACHE_DIR": str(shared_cache)}
    path = Path(copy(PROGRAM, tmp_path / "mine.py"))
    before = path.read_bytes()
    words = ["fix", "mine.py", "--cure", "declare"]
    shown = run_warm_command([*words, "--diff"], cwd=tmp_path, environment=environment)
    assert (shown.code, path.read_bytes()) == (1, before)
    subprocess.run(["git", "apply"], input=shown.out.encode(), check=True, cwd=tmp_path)
    applied = path.read_bytes()
    assert applied != before
    path.write_bytes(before)
    written = run_warm_command([*words, "--write"], cwd=tmp_path, environment=environment)
    assert (written.code, path.read_bytes()) == (0, applied)
    again = run_warm_command(words, cwd=tmp_path, environment=environment)
    assert (again.code, again.out) == (0, "hidden: nothing to fix\n")


def test_a_case_without_a_known_cure_exits_with_4(shared_cache: Path, tmp_path: Path) -> None:
    environment = os.environ | {"LIGERDIAG_CACHE_DIR": str(shared_cache)}
    text = PROGRAM.read_text(encoding="utf-8").replace("        y,\n", "        *[y],\n")
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    outcome = run_warm_command(["fix", "mine.py"], cwd=tmp_path, environment=environment)
    assert outcome.code == 4
    assert "no cure is proved: the source does not show the arguments that `*` unpacks (mine.py:22)" in outcome.out


def test_check_prints_the_diff_after_its_report(shared_cache: Path, tmp_path: Path) -> None:
    environment = os.environ | {"LIGERDIAG_CACHE_DIR": str(shared_cache)}
    path = Path(copy(PROGRAM, tmp_path / "mine.py"))
    before = path.read_bytes()
    outcome = run_warm_command(["check", "mine.py", "--fix"], cwd=tmp_path, environment=environment)
    assert (outcome.code, path.read_bytes()) == (1, before)
    report, _, diff = outcome.out.partition("\ncure: `declare`, proved")
    assert "error[LD001]" in report
    assert "+    count, y = jax_triton.triton_call(" in diff
    refused = run_warm_command(["check", "mine.py", "--fix", "--format", "json"], cwd=tmp_path, environment=environment)
    assert refused.code == 2


def test_the_command_line_starts_without_libcst() -> None:
    code = "import sys, ligerdiag.cli.main; sys.exit('libcst' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@contextmanager
def limited_file_size(size: int) -> Iterator[None]:
    """Lets no write make a file larger than `size` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_all_files_of_a_change_are_written_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, other, large = tmp_path / "one.py", tmp_path / "other.py", tmp_path / "large.py"
    originals = {one: b"1\n", other: b"2\n"}
    for path in (one, other, large):
        path.write_bytes(originals.get(path, b"2\n"))
    one.chmod(0o755)
    best = Attempt(
        cure="declare", is_safe=True, proof=Proof.PROVED, files={one: b"3\n", other: b"4\n"}, originals=originals
    )
    answer = CaseFix(case_id="mine", best=best)
    other.write_bytes(b"edited\n")
    with pytest.raises(InputError, match=r"`other.py` has changed since `fix` read it: .* nothing is written"):
        write_changes((answer,))
    assert one.read_bytes() == b"1\n"
    other.write_bytes(b"2\n")
    failing = replace(best, files={one: b"3\n", large: bytes(2000)}, originals={one: b"1\n", large: b"2\n"})
    with limited_file_size(1000), pytest.raises(InputError, match="cannot write"):
        write_changes((replace(answer, best=failing),))
    assert one.read_bytes() == b"1\n"
    assert write_changes((answer,)) == {"mine"}
    assert (one.read_bytes(), other.read_bytes(), one.stat().st_mode & 0o777) == (b"3\n", b"4\n", 0o755)
