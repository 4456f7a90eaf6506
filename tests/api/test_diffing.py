"""Two compiles of a case for two GPUs, compared as cases and as artifacts."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.cli.exit_codes import compute_difference_code
from ligerdiag.errors import InputError
from ligerdiag.report.comparisons import Difference, DifferenceReport
from ligerdiag.report.json import render_differences_json
from ligerdiag.report.terminal.full_report import render_difference_report

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


def test_artifacts_are_compared_by_the_names_of_their_cases(gpus: DifferenceReport, cache: Path) -> None:
    """And not by those of their folders, which are hashes."""
    old, new = (Path(side.report.artifact) for side in gpus.differences[0].sides)
    found = api.compare(api.CompareOptions(old=old, new=new, cache_directory=cache))
    case = gpus.differences[0].name
    labels = [side.label.rpartition(", jax-")[0] for side in (found.old, found.new)]
    assert labels == [f"{case} on {target}" for target in ("a100", "h100")]


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


@pytest.fixture(scope="module")
def modes(cache: Path) -> Mapping[str, str]:
    """The artifacts of one loss, by the way in which its kernel's write is treated."""
    names = {mode: f"flce_modes[{mode}-float32-True-1-4-32-16]" for mode in ("hidden", "aliased", "out_of_place")}
    selectors = tuple(f"{CASES}::{name}" for name in names.values())
    report = api.check(api.CheckOptions(selectors=selectors, cache_directory=cache, replay=False))
    artifacts = {case.id: case.artifact for case in report.cases}
    return {mode: artifacts[name] for mode, name in names.items()}


@pytest.mark.parametrize(
    ("first", "second", "text", "instead"),
    [
        ("hidden", "aliased", "the write is declared now: an output of the call aliases the operand", "declared"),
        (
            "hidden",
            "out_of_place",
            "the kernel works out of place now: it does not overwrite the operand",
            "out of place",
        ),
        ("aliased", "hidden", "the write was declared and is hidden now", "declared"),
    ],
)
def test_a_cure_is_called_by_what_it_does(
    modes: Mapping[str, str], cache: Path, first: str, second: str, text: str, instead: str
) -> None:
    report = api.diff(api.DiffOptions(subjects=(modes[first], modes[second]), cache_directory=cache))
    (one,) = report.differences
    (write,) = one.writes
    assert [change.text for change in write.changes] == [text]
    assert f"kernel: {text}" in render_difference_report(report)
    (written,) = json.loads(render_differences_json(report))["differences"]
    assert written["writes"][0]["instead"] == instead


def test_a_side_that_declares_its_write_is_not_called_without_in_place_kernels(
    modes: Mapping[str, str], cache: Path
) -> None:
    report = api.diff(api.DiffOptions(subjects=(modes["hidden"], modes["aliased"]), cache_directory=cache))
    assert not any("nothing to check" in note for note in report.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subjects": ()}, "expected two things to compare but got 0"),
        ({"subjects": ("a",)}, "expected two things to compare but got 1"),
        ({"subjects": ("a", "b")}, "there is no artifact or dump `a`"),
        ({"subjects": ("a",), "targets": ("a100",)}, "expected two different targets or toolchains"),
        ({"subjects": ("a",), "toolchains": ("a", "b", "c")}, "expected two toolchains to compare but got 3"),
        ({"subjects": (), "targets": ("a100", "h100")}, "no case is given to compile twice"),
        ({"subjects": ("a",), "targets": ("h100", "h100")}, "expected two different targets to compare"),
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
