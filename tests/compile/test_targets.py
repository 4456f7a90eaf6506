"""Targets: known, described, and with a source for each figure."""

from pathlib import Path

import pytest

from ligerdiag.errors import InputError
from ligerdiag.toolchains.gpu_targets import list_targets, load_target, strip_comments


def test_the_built_in_targets_are_sorted_by_name() -> None:
    assert {target.name: target.compute_capability for target in list_targets()} == {
        "a100": 80,
        "b200": 100,
        "h100": 90,
        "h200": 90,
    }


@pytest.mark.parametrize("name", ["a100", "h100", "b200"])
def test_every_figure_of_a_gpu_names_its_source(name: str) -> None:
    lines = load_target(name).description.splitlines()
    figures = [line for line in lines if ":" in line and not line.startswith("#") and line.startswith("  ")]
    own = [line for line in figures if not line.startswith("      ") and "version" not in line.split(":")[0]]
    assert len(own) > 25
    assert [line for line in own if "#" not in line] == []


def test_an_unknown_target_names_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"expected a target of a100, b200, h100, h200, .* but got `h1000`"):
        load_target("h1000")


def test_a_description_file_is_a_target(tmp_path: Path) -> None:
    path = tmp_path / "mine.pbtxt"
    path.write_text("gpu_device_info { cuda_compute_capability { major: 8 minor: 6 } }")
    target = load_target(str(path))
    assert (target.name, target.compute_capability, target.path) == ("mine", 86, path)


def test_a_file_without_a_gpu_is_not_a_target(tmp_path: Path) -> None:
    path = tmp_path / "mine.pbtxt"
    path.write_text("# cuda_compute_capability { major: 8 }\n")
    with pytest.raises(InputError, match="describes no CUDA GPU"):
        load_target(str(path))


def test_a_comment_ends_where_its_line_ends_and_quotes_hide_it() -> None:
    assert strip_comments('a: 1 # one\n\n# two\nb: "x # y"  # three') == 'a: 1\nb: "x # y"'


def test_a_comment_does_not_make_another_target(tmp_path: Path) -> None:
    text = "gpu_device_info { cuda_compute_capability { major: 8 } }"
    for name, added in (("one", ""), ("two", "  # a source")):
        (tmp_path / f"{name}.pbtxt").write_text(text + added)
    assert load_target(str(tmp_path / "one.pbtxt")).sha256 == load_target(str(tmp_path / "two.pbtxt")).sha256
