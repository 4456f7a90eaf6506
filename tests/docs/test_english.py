"""Pages, docstrings, comments and messages keep clear of the wordings that readers stumble over; see tools/english.py."""

import pytest

from tools.english import NUMBERED, PATTERNS, Hit, find_hits
from tools.texts import Kind, Text, parse_python


@pytest.fixture(scope="module")
def found() -> tuple[Hit, ...]:
    return tuple(find_hits())


def test_no_text_has_a_wording_to_avoid(found: tuple[Hit, ...]) -> None:
    assert not found, "\n".join(map(str, found))


def list_patterns(words: str, kind: Kind = Kind.DOCSTRING) -> list[str]:
    return [hit.pattern.name for hit in find_hits([Text(path="a/b.py", line=1, kind=kind, text=words)])]


CAUGHT = {
    "headless what": "What XLA takes for one value.",
    "what as a noun": "Returns what is meant.",
    "hangs on": "The answer hangs on the schedule.",
    "held against": "Verdicts are held\n    against the GPU.",
    "is told": "The reason is told in the report.",
    "told from": "A copy cannot be told from the original.",
    "counter for service": "The compiler's counter.",
    "stands for": "An instruction that stands for no operation.",
    "where it is not known": "None where it is not known.",
    "left alone": "Rows that are left alone.",
    "has to do with": "An operand that has to do with no kernel.",
    "in the place of": "Put in the place of the loop.",
    "is none of": "The comment is none of its words.",
    "of one's own": "A package of one's own.",
    "as it is": "The file is left as it is.",
    "behind for after": "Reads behind the call.",
    "goes on": "The loop goes on.",
    "makes it that": "This makes it that outputs differ.",
    "rooms": "The room of rules.",
    "cited rule number": "A write by (2) and (6).",
    "glued docstrings": "Worker side: reads.\n\nWorker side: writes.",
    "numbered rules": "Reads a file.\n\n1. It is bounded.\n2. It is closed.",
}


def test_each_pattern_has_an_example() -> None:
    assert sorted(CAUGHT) == sorted(pattern.name for pattern in (*PATTERNS, NUMBERED))


@pytest.mark.parametrize(("name", "words"), CAUGHT.items())
def test_a_pattern_finds_its_example(name: str, words: str) -> None:
    assert name in list_patterns(words)


@pytest.mark.parametrize(
    "words",
    [
        "What does a finding mean?",
        "Returns what the kernel wrote.",
        "The process must not hang. It hangs, then exits.",
        "Two copies can be told apart. The worker was told to stop.",
        "The loop's counter. A program counter.",
        "An interpreter stands in for the GPU.",
        "A write behind XLA's back.",
        "There is room for two.",
        "As it is traced, each operation gets a number.",
        "Version 1.2 of JAX.",
        "The name is `goes on` or `rooms`.",
    ],
)
def test_plain_english_is_not_reported(words: str) -> None:
    assert list_patterns(words) == []


def test_docstrings_comments_and_messages_of_a_file_are_read_with_their_lines() -> None:
    source = '"""Adds."""\nX = 1\n"""In bytes."""\nraise ValueError(f"no such {X} here")  # because\n# one\n# two\n'
    texts = [(one.kind, one.line, one.text.strip()) for one in parse_python("a.py", source)]
    assert sorted(texts, key=lambda one: one[1]) == [
        (Kind.DOCSTRING, 1, "Adds."),
        (Kind.DOCSTRING, 3, "In bytes."),
        (Kind.MESSAGE, 4, "no such {} here"),
        (Kind.COMMENT, 4, "because"),
        (Kind.COMMENT, 5, "one\n two"),
    ]
