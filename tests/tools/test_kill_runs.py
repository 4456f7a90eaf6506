"""A few moments; the nightly size is 50."""

from pathlib import Path

import pytest

from tools.kill_runs import check, interrupt, list_left

TINY = "from ligerdiag import Arg, Case\nCASE = Case(name='tiny', function=lambda x: x + 1, args=(Arg(shape=(4,)),))\n"


@pytest.mark.usefixtures("own_templates")
@pytest.mark.parametrize(("kind", "moment", "size"), [("parent", 2.5, 0), ("worker", 3.5, 0), ("full", 0.0, 200)])
def test_the_run_after_one_that_was_ended_is_as_if_nothing_had_been(
    kind: str, moment: float, size: int, tmp_path: Path
) -> None:
    (tmp_path / "tiny.py").write_text(TINY)
    interrupt([str(tmp_path / "tiny.py")], kind, moment, size, tmp_path)
    answer = check([str(tmp_path / "tiny.py")], tmp_path)
    assert answer.keys() == {"tiny"}, answer
    status, outputs, error, findings = answer["tiny"]
    assert (status, list(outputs.values()), error, findings) == ("nothing to check", ["fresh"], "", [])
    assert list_left(tmp_path) == ()
