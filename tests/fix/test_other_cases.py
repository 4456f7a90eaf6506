"""A cure of one case is refused if it makes another case that loads the changed file worse."""

from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.api import CheckOptions
from ligerdiag.fix.cure_search import FixOptions, find_fixes
from ligerdiag.fix.other_cases import choose_varied
from ligerdiag.fix.records import CaseFix, OtherCases, Proof
from ligerdiag.fix.words import render_fix
from ligerdiag.model.jobs import CaseSpec, Source

HELPER = Path(__file__).parent / "programs" / "helper.py"
BY_TEXT = 'globals()["sum_and_double"](h) * 2'
"""A call that no search for callers finds: it gets a pair once the helper returns more."""
BY_NAME = "sum_and_double(h) * 2"


def fix(folder: Path, cache: Path, call: str) -> CaseFix:
    """Returns the answer for a case whose file has another one, `other`, that calls the same helper by `call`."""
    text = HELPER.read_text(encoding="utf-8").replace("CASE = Case(", "ONE = Case(")
    text += (
        f"\n\ndef other_step(x, w):\n    h = x @ w\n    return {{'sums': {call}}}\n\n\n"
        "OTHER = Case(name='other', function=other_step, args=ONE.args)\nCASES = (ONE, OTHER)\n"
    )
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    checked = CheckOptions(selectors=(f"{path}::helper",), cache_directory=cache)
    (answer,) = find_fixes(FixOptions(check=checked, cures=("declare",)))
    return answer


def test_a_cure_that_breaks_another_case_is_refused(shared_cache: Path, tmp_path: Path) -> None:
    answer = fix(tmp_path, shared_cache, BY_TEXT)
    assert answer.best is None
    (attempt,) = answer.attempts
    assert (attempt.proof, attempt.verdicts["h100"]["back"].value) == (Proof.REFUTED, "fresh")
    assert attempt.reason == "it makes another case worse: `other` has other outputs"


@pytest.mark.nightly
def test_a_cure_that_leaves_another_case_right_names_it(shared_cache: Path, tmp_path: Path) -> None:
    answer = fix(tmp_path, shared_cache, BY_NAME)
    assert answer.best is not None
    assert answer.best.others == OtherCases(judged=("other",))
    text = render_fix(answer, is_unsafe=False, is_written=False)
    assert "  the changed files: 1 other case compiled with the change, none is worse\n" in text
    beside = replace(answer.best, others=OtherCases(judged=("a", "b"), left=3, copied={"b": 2048}))
    text = render_fix(replace(answer, best=beside), is_unsafe=False, is_written=False)
    assert "2 other cases compiled with the change, none is worse; `b` copies 2.0 KiB more; 3 not judged\n" in text


def test_cases_of_all_names_are_judged() -> None:
    source = Source(file="/mine.py", root="/")
    cases = [
        CaseSpec(id=f"{name}[{n}]", name=name, params=(), source=source, mesh={}, expected=None, about="", draws="")
        for name in ("own", "b", "c")
        for n in range(3)
    ]
    chosen = [one.id for one in choose_varied(cases, "own", 5)]
    assert chosen == ["own[0]", "b[0]", "own[1]", "c[0]", "own[2]"]
    assert len(choose_varied(cases, "own", 20)) == 9
