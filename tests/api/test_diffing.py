"""Two compiles of a case for two GPUs, compared as cases and as artifacts."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.cli.exit_codes import compute_difference_code
from ligerdiag.errors import InputError
from ligerdiag.report.comparisons import Difference, DifferenceReport

HIDDEN = "seed_flce[False-float32-True-1-4-32-16]"
TIED = "seed_flce[True-float32-True-1-4-32-16]"
CASES = Path(__file__).parents[2] / "cases"


@pytest.fixture(scope="module")
def gpus(cache: Path) -> DifferenceReport:
    """The seed's rows on the GPU where they are right by luck, and on the GPU where they are not."""
    subjects = (f"{CASES}::{HIDDEN}", f"{CASES}::{TIED}")
    return api.diff(api.DiffOptions(subjects=subjects, targets=("a100", "h100"), cache_directory=cache))


def find(report: DifferenceReport, name: str) -> Difference:
    return next(one for one in report.differences if one.name == name)


def test_the_verdict_depends_on_the_gpu_and_moved_readers_explain_it(gpus: DifferenceReport) -> None:
    one = find(gpus, HIDDEN)
    words = {name: (first and first.value, second and second.value) for name, first, second in one.verdicts}
    assert words == {
        "bias": ("latent", "stale"),
        "input": ("latent", "stale"),
        "loss": ("fresh", "fresh"),
        "weight": ("latent", "latent"),
    }
    (write,) = one.writes
    moved = [change.text.partition(" (")[0] for change in write.changes if not change.is_minor]
    assert moved == ["`mul`", "`reduce_sum`"]
    assert all("moved from after to before the kernel" in c.text for c in write.changes if not c.is_minor)
    assert one.differs


def test_a_forced_order_is_the_same_on_both_gpus(gpus: DifferenceReport) -> None:
    one = find(gpus, TIED)
    assert not one.differs
    (write,) = one.writes
    assert len(write.readers) == 2
    assert compute_difference_code(DifferenceReport(differences=(one,))) == 0
    assert compute_difference_code(gpus) == 1


def test_labels_are_the_user_s_names(gpus: DifferenceReport) -> None:
    assert [side.label for side in gpus.differences[0].sides] == ["a100", "h100"]
    assert [side.report.target for side in gpus.differences[0].sides] == ["a100", "h100"]


def test_two_artifacts_differ_like_their_compiles(gpus: DifferenceReport, cache: Path) -> None:
    case = find(gpus, HIDDEN)
    paths = tuple(side.report.artifact for side in case.sides)
    (one,) = api.diff(api.DiffOptions(subjects=paths, cache_directory=cache)).differences
    assert one.verdicts == case.verdicts
    assert one.changes == case.changes
    (same,) = api.diff(api.DiffOptions(subjects=(paths[0], paths[0]), cache_directory=cache)).differences
    assert same.changes == ()
    assert not same.differs


def test_a_dump_without_tags_shows_the_same_readers(gpus: DifferenceReport, cache: Path) -> None:
    case = find(gpus, HIDDEN)
    paths = tuple(str(Path(side.report.artifact) / "optimized.hlo.pb") for side in case.sides)
    report = api.diff(api.DiffOptions(subjects=paths, cache_directory=cache))
    (one,) = report.differences
    (write,) = one.writes
    assert [change.kind.value for change in write.changes if not change.is_minor] == ["moved", "moved"]
    assert any(
        "there is no module from before" in line for side in one.sides for line in side.report.coverage.not_covered
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subjects": ()}, "expected two things to compare but got 0"),
        ({"subjects": ("a",)}, "expected two things to compare but got 1"),
        ({"subjects": ("a", "b")}, "there is no `a`"),
        ({"subjects": ("a",), "targets": ("a100",)}, "expected two different targets or toolchains"),
        ({"subjects": ("a",), "toolchains": ("a", "b", "c")}, "expected two toolchains to compare but got 3"),
        ({"subjects": (), "targets": ("a100", "h100")}, "expected a case to compile twice but got none"),
        ({"subjects": ("a",), "targets": ("h100", "mine/h100.pbtxt")}, "expected targets with different names"),
        ({"subjects": ("a",), "targets": ("a100", "h100"), "module": "*"}, "`--module` chooses among the modules"),
    ],
)  # fmt: skip
def test_incomparable_subjects_are_an_error_with_a_remedy(options: dict[str, tuple[str, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        api.diff(api.DiffOptions(**options))  # type: ignore[arg-type]


def test_a_folder_of_several_modules_needs_a_choice(gpus: DifferenceReport, tmp_path: Path, cache: Path) -> None:
    for number, one in enumerate(gpus.differences):
        (tmp_path / str(number)).symlink_to(one.first.report.artifact)
    for number, one in enumerate(gpus.differences):
        folder = tmp_path / f"copy{number}"
        folder.mkdir()
        (folder / f"module_000{number}.jit_step.sm_8.0_gpu_after_optimizations.hlo.pb").write_bytes(
            (Path(one.first.report.artifact) / "optimized.hlo.pb").read_bytes()
        )
    with pytest.raises(InputError, match=r"expected one module with custom calls in .* but got .*--module"):
        api.diff(api.DiffOptions(subjects=(str(tmp_path), str(tmp_path)), cache_directory=cache))
