"""A call that JAX has taken out of a loop is another call to XLA: whether it does what the author's does is unknown."""

from pathlib import Path

from ligerdiag import api
from ligerdiag.model.findings import Attribution, Verdict

PROGRAMS = Path(__file__).parent / "programs" / "calls_out_of_loops.py"


def test_a_call_that_jax_took_out_of_a_loop_accuses_nobody(shared_cache: Path) -> None:
    (case,) = api.check(api.CheckOptions(selectors=(str(PROGRAMS),), cache_directory=shared_cache)).cases
    assert case.error == ""
    assert case.replay is not None
    assert {one.attribution for one in case.replay.outputs.values()} == {Attribution.FRESH}
    assert not {Verdict.STALE, Verdict.CLOBBERED} & set(case.outputs.values())
    assert [note for note in case.coverage.not_covered if "is not in the program as written" in note]
