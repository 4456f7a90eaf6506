"""Only fields that an older XLA does not know are removed from a target description."""

import pytest

from ligerdiag.errors import InputError
from ligerdiag.toolchains.gpu_targets import drop_fields


def test_a_field_is_removed_by_path_and_its_namesakes_stay() -> None:
    text = "info { name: 1 version: 2 inner { version: 3 } }\nversion { major: 4 }\n"
    assert drop_fields(text, ["info.version", "version"]) == "info {\n  name: 1\n  inner {\n    version: 3\n  }\n}\n"


def test_a_message_is_removed_with_all_its_fields() -> None:
    text = 'a: 1  # kept\nb { c: "} # {" d < e: 2 > }\nb { c: "again" }\nf: 3\n'
    assert drop_fields(text, ["b"]) == "a: 1\nf: 3\n"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a: [1, 2, 3], b: 4;", "b: 4\n"),
        ("b: { c: -1.5e+3 } a: 'x'", "b {\n  c: -1.5e+3\n}\n"),
        ("b <c: INFINITY> a: 1", "b {\n  c: INFINITY\n}\n"),
        ('b: "quoted \\" { a: 1" a: 2', 'b: "quoted \\" { a: 1"\n'),
    ],
)
def test_the_forms_of_the_text_format_are_understood(text: str, kept: str) -> None:
    assert drop_fields(text, ["a"]) == kept


def test_a_description_without_unknown_fields_is_unchanged() -> None:
    assert drop_fields("a :1 # anything {", []) == "a :1 # anything {"


@pytest.mark.parametrize("text", ["a {", "a: ", "a { b: 1 > }", "}", "a: [1", "a: @"])
def test_a_malformed_description_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError, match="in the target description but got"):
        drop_fields(text, ["x"])
