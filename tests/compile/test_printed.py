"""Text on `sys.stdout` counts as printed by the user's code, up to a limit."""

import io
import os
import sys

import pytest

from ligerdiag.compile.cases.printed import MAXIMUM_PRINTED, pause_prints, record_prints
from ligerdiag.errors import CaseError


def test_prints_are_recorded_and_still_written(capfd: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout
    with record_prints() as record:
        print("mine", 1)
        sys.stdout.writelines(["a", "b\n"])
        print("a warning", file=sys.stderr)
        sys.stdout.flush()
        os.write(1, b"XLA's\n")
    assert record.text == "mine 1\nab\n"
    assert sys.stdout is before
    assert capfd.readouterr().out == "mine 1\nab\nXLA's\n"


def test_a_further_trace_is_not_recorded_again() -> None:
    with record_prints() as record:
        print("once")
        with pause_prints():
            print("once")
        print("end")
    assert record.text == "once\nend\n"


def test_an_error_carries_what_was_printed_before() -> None:
    @record_prints()
    def fail() -> None:
        print("before")
        raise CaseError("no")

    with pytest.raises(CaseError) as raised:
        fail()
    assert raised.value.printed == "before\n"


def test_a_long_text_is_cut() -> None:
    with record_prints() as record:
        for _ in range(3):
            print("x" * (MAXIMUM_PRINTED // 2), end="")
    assert len(record.text) < MAXIMUM_PRINTED + 100
    assert record.text.endswith(f"\n... and {MAXIMUM_PRINTED // 2} more characters\n")


def test_a_stream_of_the_user_s_own_stays() -> None:
    before, own = sys.stdout, io.StringIO()
    try:
        with record_prints():
            sys.stdout = own
        assert sys.stdout is own
    finally:
        sys.stdout = before
