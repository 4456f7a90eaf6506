"""An artifact with truncated or changed files is compiled again or reported in one line, never with a traceback."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ligerdiag.artifacts.artifact import LOG, MANIFEST, REQUIRED, load_artifact, write_manifest
from ligerdiag.errors import ArtifactError
from ligerdiag.model.report import CaseReport, Status
from tests.api.conftest import ROOT, Check, RunCli

CASE = f"{ROOT / 'cases' / 'seed_flce.py'}::seed_flce[False-float32-True-1-4-32-16]"
PROGRAMS = ("as_written.hlo.pb", "optimized.hlo.pb")
"""The files that a verdict depends on."""
CHANGES = (8, pytest.param(25, marks=pytest.mark.nightly))
"""How many damaged versions of each file are tried."""

type Judge = Callable[[], CaseReport]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, check: Check) -> Path:
    """A cache that holds one artifact."""
    path = tmp_path_factory.mktemp("damaged")
    check(CASE, cache=path)
    return path


@pytest.fixture
def artifact(home: Path) -> Iterator[Path]:
    """The artifact's folder, restored after the test."""
    (directory,) = (home / "artifacts").iterdir()
    whole = {path.name: path.read_bytes() for path in directory.iterdir()}
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for name, data in whole.items():
        (directory / name).write_bytes(data)


@pytest.fixture
def judge(home: Path, check: Check) -> Judge:
    def run() -> CaseReport:
        (case,) = check(CASE, cache=home).cases
        return case

    return run


def damage(data: bytes, seed: int) -> bytes:
    """Replaces one to ten bytes, or flips single bits of them."""
    draw = random.Random(seed)
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 3, 10))):
        at = draw.randrange(len(changed))
        changed[at] = draw.randrange(256) if draw.random() < 0.5 else changed[at] ^ 1 << draw.randrange(8)
    return bytes(changed)


def assert_reported_or_judged(case: CaseReport) -> None:
    assert case.cached
    if case.status is Status.ERROR:
        assert case.error
        assert "\n" not in case.error
        assert case.error_exit_code == 3
        assert case.outputs == {}


@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("name", [*(name for name in REQUIRED if name != LOG), MANIFEST])
def test_a_truncated_file_is_noticed(name: str, part: float, artifact: Path) -> None:
    data = (artifact / name).read_bytes()
    (artifact / name).write_bytes(data[: int(len(data) * part)])
    with pytest.raises(ArtifactError, match="is damaged, or is not an artifact") as caught:
        load_artifact(artifact)
    assert "\n" not in str(caught.value)


def test_a_truncated_artifact_is_compiled_again_with_the_same_verdicts(artifact: Path, judge: Judge) -> None:
    before = judge()
    for path in artifact.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    again = judge()
    assert (before.cached, again.cached) == (True, False)
    assert again.outputs == before.outputs
    assert load_artifact(artifact).provenance.case_id == before.id
    assert [path.name for path in artifact.parent.iterdir()] == [artifact.name]


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.9, 0.999])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_file_truncated_before_hashing_is_reported_or_judged(
    name: str, part: float, artifact: Path, judge: Judge
) -> None:
    data = (artifact / name).read_bytes()
    (artifact / name).write_bytes(data[: int(len(data) * part)])
    write_manifest(artifact)
    assert_reported_or_judged(judge())


@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_bytes_changed_before_hashing_are_reported_or_judged(
    name: str, changes: int, artifact: Path, judge: Judge
) -> None:
    data = (artifact / name).read_bytes()
    told = 0
    for seed in range(changes):
        (artifact / name).write_bytes(damage(data, seed))
        write_manifest(artifact)
        case = judge()
        assert_reported_or_judged(case)
        told += case.status is Status.ERROR
    assert 0 < told < changes


def test_the_command_line_exits_with_3_and_prints_one_line(
    artifact: Path, home: Path, run_cli: RunCli, judge: Judge
) -> None:
    assert judge().cached
    (artifact / "optimized.hlo.pb").write_bytes(b"\x0a\xff not a module")
    write_manifest(artifact)
    outcome = run_cli("check", CASE, "--cache-dir", home, "--format", "json", cwd=ROOT)
    (case,) = json.loads(outcome.out)["cases"]
    assert outcome.code == 3
    assert case["error"] == "`optimized.hlo.pb`: truncated or not an HloProto"
    assert "Traceback" not in outcome.out + outcome.err
