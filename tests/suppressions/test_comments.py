"""The rules and lines that a comment allows."""

from pathlib import Path

import pytest

from ligerdiag.report.allowed.suppressions import AllowComment, load_comments, parse_comments
from ligerdiag.source_text import MAX_FILE_BYTES


def parse(code: str) -> list[AllowComment]:
    return list(parse_comments(code.encode()))


def places(code: str) -> list[tuple[int, int]]:
    return [(comment.line, comment.allows) for comment in parse(code)]


def test_a_comment_after_code_applies_to_its_line() -> None:
    (comment,) = parse("x = 1\ny = f(x)  # ligerdiag: allow LD003 because the reader only logs\n")
    assert (comment.line, comment.allows) == (2, 2)
    assert (comment.rules, comment.reason, comment.unknown) == (("LD003",), "because the reader only logs", ())


def test_a_comment_alone_on_its_line_applies_to_the_line_below() -> None:
    assert places("def f(x):\n    # ligerdiag: allow LD003 only logged\n    return x\n") == [(2, 3)]


def test_several_comments_apply_to_one_line_and_a_reason_continues() -> None:
    code = "# ligerdiag: allow LD003 a reason that\n# continues\n# ligerdiag: allow LD012 another\nx = 1\n"
    assert places(code) == [(1, 4), (3, 4)]


def test_a_comment_does_not_apply_across_a_blank_line() -> None:
    assert places("# ligerdiag: allow LD003 only logged\n\nx = 1\n") == [(1, 2)]


def test_a_comment_after_the_code_of_the_line_above_is_not_alone() -> None:
    assert places("y = 1  # ligerdiag: allow LD003 only logged\nx = 1\n") == [(1, 1)]


def test_a_comment_after_the_end_of_a_long_string_is_after_code() -> None:
    assert places('y = """\nabc\n"""  # ligerdiag: allow LD003 only logged\nx = 1\n') == [(3, 3)]


@pytest.mark.parametrize(
    "code",
    [
        's = "# ligerdiag: allow LD003 only logged"\n',
        '"""\n# ligerdiag: allow LD003 only logged\n"""\n',
        "f'# ligerdiag: allow LD003 {s}'\n",
        "# ligerdiag allow LD003 only logged\n",
        "# my_ligerdiag: allow LD003 only logged\n",
        "# ligerdiag: allowed LD003 only logged\n",
        "x = (\n# ligerdiag: allow LD003 a file that is no Python\n",
        "\x00# ligerdiag: allow LD003 only logged\n",
    ],
)
def test_other_comments_allow_nothing(code: str) -> None:
    assert parse(code) == []


@pytest.mark.parametrize(
    ("words", "rules", "unknown", "reason"),
    [
        ("LD003, LD012 both are logged", ("LD003", "LD012"), (), "both are logged"),
        ("latent-order only logged", ("LD003",), (), "only logged"),
        ("ld003: only logged", ("LD003",), (), "only logged"),
        ("LD003 (only logged)", ("LD003",), (), "only logged"),
        ("LD003, because it is only logged", ("LD003",), (), "because it is only logged"),
        ("LD003 see issue #272  # noqa: E501", ("LD003",), (), "see issue #272"),
        ("LD003 LD012 is named without a comma", ("LD003",), (), "LD012 is named without a comma"),
        ("LD003,LD003 twice", ("LD003",), (), "twice"),
        ("LD003", ("LD003",), (), ""),
        ("LD003 -- ", ("LD003",), (), ""),
        ("LD003  # noqa", ("LD003",), (), ""),
        ("LD003, LD999 one of them", ("LD003",), ("LD999",), "one of them"),
        ("everything for now", (), ("everything",), "for now"),
        ("", (), (), ""),
    ],
)
def test_rules_come_first_and_the_rest_is_the_reason(
    words: str, rules: tuple[str, ...], unknown: tuple[str, ...], reason: str
) -> None:
    (comment,) = parse(f"x = 1  # ligerdiag: allow {words}\n")
    assert (comment.rules, comment.unknown, comment.reason) == (rules, unknown, reason)


def test_the_comment_can_follow_another_comment() -> None:
    (comment,) = parse("x = 1  # noqa: E501  # ligerdiag: allow LD003 only logged\n")
    assert (comment.rules, comment.reason) == (("LD003",), "only logged")


def test_a_file_s_declared_encoding_is_used() -> None:
    code = "# -*- coding: latin-1 -*-\nx = 1  # ligerdiag: allow LD003 für später\n".encode("latin-1")
    assert [comment.reason for comment in parse_comments(code)] == ["für später"]


LINE = "x = 1  # ligerdiag: allow LD003 only logged\n"


def test_files_that_are_not_read_allow_nothing(tmp_path: Path) -> None:
    good, text, large, folder = (tmp_path / name for name in ("good.py", "notes.txt", "large.py", "folder.py"))
    good.write_text(LINE)
    text.write_text(LINE)
    large.write_text(LINE + "#" * MAX_FILE_BYTES)
    folder.mkdir()
    assert len(load_comments(str(good), [str(tmp_path)])) == 1
    for path in (text, large, folder, tmp_path / "not_there.py", Path("a\x00.py"), Path("/dev/zero")):
        assert load_comments(str(path), ["/"]) == ()
