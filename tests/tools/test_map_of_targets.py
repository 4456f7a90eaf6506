"""The page of targets has each target, and from a report a column for each set of equal verdicts."""

from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.model.findings import Attribution, Verdict
from ligerdiag.report.json import render_json
from ligerdiag.toolchains.gpu_targets import list_targets
from tests.report.samples import make_case, make_numbers, make_replay, make_report
from tools import map_of_targets

PAGE = Path(__file__).parents[2] / "docs" / "targets.md"


def test_the_page_lists_the_targets_and_describes_them_as_their_files_do() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for line in map_of_targets.list_target_lines():
        assert line in text, "run `make targets`"


@pytest.mark.parametrize("target", list_targets(), ids=lambda one: one.name)
def test_the_page_has_verdicts_for_each_gpu(target: object) -> None:
    verdicts = PAGE.read_text(encoding="utf-8").partition("## Verdicts")[2]
    assert f"| {target.name} | " in verdicts  # type: ignore[attr-defined]


def test_each_toolchain_has_a_section_and_that_for_amd_says_that_no_gpu_confirmed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lucky = {"input": Verdict.LATENT}
    for name, toolchain, target in (("a", "jax-0.11.2", "h100"), ("b", "rocm", "mi300")):
        report = replace(make_report(make_case(id="one", target=target, outputs=lucky)), toolchain=toolchain)
        (tmp_path / f"{name}.json").write_text(render_json(report))
    page = tmp_path / "page.md"
    page.write_text(map_of_targets.GENERATED)
    monkeypatch.setattr("sys.argv", ["", str(tmp_path / "a.json"), str(tmp_path / "b.json"), str(page)])
    map_of_targets.main()
    nvidia, amd = page.read_text().partition("## Verdicts\n")[2].split("## Verdicts for AMD\n")
    assert "| h100 | input latent |" in nvidia
    assert "toolchain `jax-0.11.2`" in nvidia
    assert "AMD" not in nvidia
    assert "| mi300 | input latent |" in amd
    assert "toolchain `rocm`" in amd
    assert "none of them on a GPU, and no AMD GPU has confirmed one." in amd


def test_programs_with_equal_verdicts_share_a_column_and_fresh_ones_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"loss": Verdict.FRESH, "input": Verdict.STALE}
    lucky = {"loss": Verdict.FRESH, "input": Verdict.LATENT}
    cases = [
        make_case(id=name, target=target, outputs=outputs)
        for name, outputs in (("one", wrong), ("two", wrong), ("three", lucky), ("right", {"loss": Verdict.FRESH}))
        for target in ("h100", "a100")
    ]
    cases.append(make_case(id="three", target="p100", outputs={}, error="aborted"))
    cases.append(make_case(id="right", target="p100", outputs={"loss": Verdict.FRESH}))
    cases.append(make_case(id="here alone", target="h100", outputs={"loss": Verdict.FRESH}))
    kinds = (Attribution.FRESH, Attribution.LOSSY, Attribution.UNDECIDED)
    cases[:3] = [
        replace(case, replay=make_replay({"loss": make_numbers(kind)}))
        for case, kind in zip(cases[:3], kinds, strict=True)
    ]
    (tmp_path / "report.json").write_text(render_json(make_report(*cases)))
    page = tmp_path / "page.md"
    page.write_text(f"# Kept\n\n{map_of_targets.GENERATED}\nold\n")
    monkeypatch.setattr("sys.argv", ["", str(tmp_path / "report.json"), str(page)])
    map_of_targets.main()
    text = page.read_text()
    assert text.startswith("# Kept\n\n## The targets\n")
    assert "old" not in text
    assert "fresh on every target: `right`." in text
    assert "1 agree, 1 lossy, 1 undecided." in text
    assert "- **1**: `one`, `two`\n- **2**: `three`\n- **3**: `here alone`\n" in text
    assert text.endswith(
        "| target | 1 | 2 | 3 |\n|---|---|---|---|\n| h100 | input stale | input latent | fresh |\n"
        "| a100 | input stale | input latent | — |\n| p100 | — | — | — |\n"
    )
