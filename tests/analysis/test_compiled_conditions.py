"""What XLA makes of a program's own conditionals and loops is no condition that the schedule adds."""

from tests.analysis.compiled import Compiler


def test_no_condition_of_the_programs_own_is_one_more(compiler: Compiler) -> None:
    programs = compiler.compile("conditional_calls.py")
    assert len(programs) == 10
    for name, program in programs.items():
        assert set(program.verdicts.values()) == {"fresh"}, name
        assert not [line for line in program.inspection.coverage.not_covered if "may not run" in line], name
