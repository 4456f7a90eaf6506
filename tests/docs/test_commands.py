"""Every command in README.md and docs/ behaves as the page says."""

import shutil
from pathlib import Path

import pytest

from tools.documents import (
    REASONS,
    ROOT,
    Block,
    iterate_runs,
    list_pages,
    matches,
    parse_blocks,
    parse_commands,
    prepare_folder,
)

PAGES = [page for page in list_pages() if any(one.is_shell for one in parse_blocks(page))]
NIGHTLY = {
    "bisect.md", "reduce.md", "how-to-several-gpus.md", "how-to-check-your-train-step.md", "drift.md", "how-to-loss.md",
    "how-to-norm.md", "agents.md", "how-to-optimizer.md",
}  # fmt: skip
"""The slowest pages. The bisections of the first two compile about 60 programs; tests/bisect has small ones.
test_plain_install follows the third page in a plain environment, and tests/analysis tests the drift of small cases.
"""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new folder at the same path for each page, so that a page finds the previous one's compiles in the cache."""
    folder = tmp_path_factory.getbasetemp() / "page"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    prepare_folder(folder)
    return folder


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.nightly) if page.name in NIGHTLY else page for page in PAGES],
    ids=lambda page: page.name,
)
def test_a_page_has_the_output_and_the_exit_code_that_it_shows(page: Path, folder: Path, shared_cache: Path) -> None:
    for block, command, outcome in iterate_runs(page, folder, shared_cache):
        said = f"{block.place}: {command.words}\n{outcome.out}{outcome.err}"
        assert outcome.code == int(block.find_word("exit") or 0), said
        if command.expected is not None:
            assert matches(command.expected, outcome.out), said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_that_is_not_run_has_a_known_reason(page: Path) -> None:
    for block in parse_blocks(page):
        reason = block.find_word("not-run")
        assert not reason or reason in REASONS, block.place


def test_only_an_ellipsis_matches_anything() -> None:
    assert matches("a … d\n", "a b\nc d\n")
    assert matches("a\n…\n", "a\n")
    assert matches("right  3.5e-07 input\n", "right  4e-07 input\n")
    assert matches("right  3.5e-07 input  +3  agrees\n", "right  8e-08 bias   +3  agrees\n")
    assert not matches("right  3.5e-07 input  +3  agrees\n", "right  8e-08 bias   +3  differs\n")
    assert not matches("right  3.5e-02 input  +3  agrees\n", "right  3.5e-02 bias   +3  agrees\n")
    assert not matches("right  3.5e-07 input\n", "right  4e-05 input\n")
    assert not matches("a d\n", "a b d\n")
    assert not matches("a … d\n", "a b d e\n")


def test_the_lines_after_a_command_are_its_output() -> None:
    block = Block(page=ROOT / "README.md", line=1, language="text", words=(), text="$ one\na\n\nb\n$ two\nc\n")
    assert [(one.words, one.expected) for one in parse_commands(block)] == [("one", "a\n\nb\n"), ("two", "c\n")]
    plain = Block(page=ROOT / "README.md", line=1, language="", words=(), text="uv run one\n\n# why\nuv run two\n")
    assert [(one.words, one.expected) for one in parse_commands(plain)] == [("uv run one", None), ("uv run two", None)]
