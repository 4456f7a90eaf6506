"""The schedule adds no condition to a program if XLA only transforms the program's own conditionals and loops."""

from tests.analysis.compiled import Compiler


def test_a_condition_of_the_program_does_not_count_as_added(compiler: Compiler) -> None:
    programs = compiler.compile("conditional_calls.py")
    assert len(programs) == 11
    for name, program in programs.items():
        assert set(program.verdicts.values()) == {"fresh"}, name
        assert not [line for line in program.inspection.coverage.not_covered if "may not run" in line], name
