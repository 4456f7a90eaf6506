"""Cures of whole programs: each is compiled, judged and replayed."""

from pathlib import Path
from shutil import copy

import pytest

from ligerdiag.api import CheckOptions, check
from ligerdiag.errors import InputError
from ligerdiag.fix.cure_search import CURE_NAMES, FixOptions, find_fixes, rank_attempt
from ligerdiag.fix.records import Attempt, CaseFix, Cost, Proof
from ligerdiag.model.findings import Verdict

PROGRAMS = Path(__file__).parent / "programs"


def fix(path: Path, cache: Path, *cures: str, is_unsafe: bool = False) -> CaseFix:
    """Returns the answer for the only case of a file."""
    checked = CheckOptions(selectors=(str(path),), cache_directory=cache)
    (answer,) = find_fixes(FixOptions(check=checked, cures=cures, is_unsafe=is_unsafe))
    return answer


def test_a_hidden_write_gets_a_declared_alias(shared_cache: Path, tmp_path: Path) -> None:
    path = Path(copy(PROGRAMS / "hidden.py", tmp_path / "mine.py"))
    before = path.read_bytes()
    answer = fix(path, shared_cache, "declare", "copy")
    assert answer.verdicts["h100"]["loss"] is Verdict.STALE
    assert answer.best is not None
    assert (answer.best.cure, answer.best.proof, answer.best.is_compared) == ("declare", Proof.PROVED, True)
    assert "+    count, y = jax_triton.triton_call(" in answer.best.diff
    assert answer.best.costs["h100"].copied == 0
    assert path.read_bytes() == before
    copied = next(one for one in answer.attempts if one.cure == "copy")
    assert (copied.proof, copied.diff != "") == (Proof.OTHER_PROGRAM, True)  # the reader would read the unclipped array
    assert "`loss` would not be" in copied.reason
    path.write_bytes(answer.best.files[path])
    (report,) = check(CheckOptions(selectors=(str(path),), cache_directory=shared_cache)).cases
    assert set(report.outputs.values()) == {Verdict.FRESH}
    assert not report.findings


def test_callers_of_a_helper_read_what_it_returns(shared_cache: Path) -> None:
    answer = fix(PROGRAMS / "helper.py", shared_cache, "declare")
    assert answer.best is not None
    assert answer.best.proof is Proof.PROVED
    assert "+    sums, h = sum_and_double(h)" in answer.best.diff
    assert "+    return result, x" in answer.best.diff
    (unproved,) = answer.best.unproved_callers  # and not `step`, which the case runs
    assert unproved.startswith("`observe` (")
    assert f"{unproved} no longer sees `x` overwritten" in answer.best.remarks
    assert "all other callers of `sum_and_double` then get it as well" in answer.remedies[0]
    assert "ligerdiag fix" not in answer.remedies[0]  # which is what refuses them, where it prints this text


@pytest.mark.nightly
def test_a_method_that_is_a_value_stays_and_a_dict_gets_the_new_contents(shared_cache: Path) -> None:
    answer = fix(PROGRAMS / "looked_up.py", shared_cache, "declare")
    assert answer.best is not None
    assert answer.best.proof is Proof.PROVED
    assert '+    rms, state["y"] = layer.norm_in_place(state["y"])' in answer.best.diff
    assert "+        return self.norm_in_place(x)[0]" in answer.best.diff
    assert any("its other users no longer see it overwritten: `layer.norm` (" in one for one in answer.best.remarks)


def test_a_branch_on_the_numbers_hides_no_difference(shared_cache: Path, tmp_path: Path) -> None:
    """`kept` is `y` by another name, and is read only if the sum of `x` is positive, which it is not in the first draw."""
    text = (PROGRAMS / "hidden.py").read_text(encoding="utf-8")
    text = text.replace("    rows, columns", "    kept = keep(y)\n    rows, columns")
    text = text.replace(
        'return {"count"', 'picked = jax.numpy.where(x.sum() > 0, kept.sum(), 0.0)\n    return {"count"'
    )
    text = text.replace('"loss":', '"picked": picked, "loss":')
    path = tmp_path / "mine.py"
    path.write_text(text.replace("def program", "def keep(a):\n    return [a][0]\n\n\ndef program"), encoding="utf-8")
    answer = fix(path, shared_cache, "declare")
    assert answer.best is None
    assert answer.attempts[0].reason == "`picked` would not be what the program as written computes"


def test_a_right_program_has_nothing_to_fix(shared_cache: Path) -> None:
    answer = fix(PROGRAMS / "cured.py", shared_cache)
    assert (answer.hazards, answer.attempts, answer.best, answer.error) == ((), (), None, "")


def test_a_call_with_unpacked_arguments_has_no_known_cure(shared_cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    text = (PROGRAMS / "hidden.py").read_text(encoding="utf-8").replace("        y,\n", "        *[y],\n")
    path.write_text(text, encoding="utf-8")
    answer = fix(path, shared_cache)
    assert answer.best is None
    assert {one.proof for one in answer.attempts} == {Proof.NOT_APPLICABLE}
    assert answer.attempts[0].reason == f"the source does not show the arguments that `*` unpacks ({path}:22)"


def test_a_file_that_does_not_import_is_an_error(shared_cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("CASE = 1\n", encoding="utf-8")
    with pytest.raises(InputError, match="expected a Case"):
        fix(path, shared_cache)


def test_an_unknown_cure_is_refused_before_anything_compiles(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected the name of a cure"):
        fix(tmp_path / "none.py", tmp_path, "barier")
    assert "barrier" in CURE_NAMES


def test_a_cure_that_saves_memory_comes_before_a_smaller_diff() -> None:
    def make(cure: str, reserved: int, changed_lines: int) -> Attempt:
        cost = Cost(reserved=reserved, peak=0, copied=0, milliseconds=0.0)
        verdicts = {"h100": {"x": Verdict.FRESH}}
        return Attempt(
            cure=cure,
            is_safe=True,
            proof=Proof.PROVED,
            costs={"h100": cost},
            verdicts=verdicts,
            changed_lines=changed_lines,
        )

    saves, equal = make("declare", -1264, 16), make("out-of-place", 0, 15)
    assert min(equal, saves, key=rank_attempt) is saves


def test_a_pallas_kernel_gets_a_reference_for_the_aliased_output(shared_cache: Path) -> None:
    answer = fix(PROGRAMS / "pallas.py", shared_cache, "declare")
    assert answer.best is not None
    assert answer.best.proof is Proof.PROVED
    assert "+def double_kernel(x_ref, total_ref, spare_ref):" in answer.best.diff


def test_an_output_that_is_updated_before_it_is_written_is_zeroed(shared_cache: Path) -> None:
    answer = fix(PROGRAMS / "unwritten.py", shared_cache)
    assert [one.cure for one in answer.attempts] == ["zero-outputs"]
    assert answer.best is not None
    assert answer.best.reason == "`total` had no defined value before"
    assert "+            zeroed_outputs=(0,)," in answer.best.diff or "zeroed_outputs=(0,), grid" in answer.best.diff


def test_opaque_functions_show_what_numbers_cannot(shared_cache: Path, tmp_path: Path) -> None:
    """Nothing is above a million, so that `again` is 0 whichever contents the second call reads; XLA merges the calls."""
    text = (PROGRAMS / "hidden.py").read_text(encoding="utf-8").replace("(x > 1.0)", "(x > 1e6)")
    head, _, rest = text.partition("    count = jax_triton")
    call, _, end = f"    count = jax_triton{rest}".partition("    return")
    end = end.replace('"count": count', '"count": count, "again": again')
    path = tmp_path / "mine.py"
    path.write_text(f"{head}{call}{call.replace('count =', 'again =')}    return{end}", encoding="utf-8")
    answer = fix(path, shared_cache, "declare")
    assert answer.verdicts["h100"]["again"] is Verdict.STALE
    assert answer.best is not None
    assert answer.best.proof is Proof.PROVED
    assert answer.best.reason.startswith("`again` compared with opaque functions in place of `clip_kernel` as well")
