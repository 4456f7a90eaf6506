"""A file of JSON that a user gives and that cannot be read: the message has our words, the file, the key and the place."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ligerdiag.config import load_config
from ligerdiag.errors import InputError
from ligerdiag.report.allowed.known_findings import load_known
from ligerdiag.report.baseline import load_baseline
from ligerdiag.report.compared.report_reading import load_side

READERS: dict[str, Callable[[Path], object]] = {
    "baseline": load_baseline,
    "known findings": load_known,
    "report": lambda path: load_side(path, "old"),
}
FOREIGN = ("Expecting", "codec", "char ", "None", "Error", "Traceback")
"""Words of Python's json and of its decoder."""


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "expected JSON but got an empty text"),
        (b'{\n "a": 1,\n}', "expected JSON, but line 3 has an error at column 1"),
        (b"[" * 100_000, "expected JSON, but it is nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}", "expected JSON, but it is nested too deeply, or a number in it is too long"),
        (b"{}\xff", "expected text in UTF-8, but byte 3 is invalid"),
        (b"[]", "expected an object for `document` but got []"),
        (b"{}", "but got nothing"),
        (b'{"format": 1, "cases": "x", "findings": "x"}', "expected an array for `"),
    ],
)
def test_the_message_has_no_words_of_the_parser(kind: str, data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        READERS[kind](path)
    message = str(caught.value)
    assert f"`{path}`" in message
    assert said in message
    assert not [word for word in FOREIGN if word in message.replace(str(path), "")]
    assert "\n" not in message


def test_a_configuration_that_is_not_utf_8_says_which_byte(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(b"[tool.ligerdiag]\n\xff")
    with pytest.raises(
        InputError, match=r"pyproject\.toml` is not TOML: expected text in UTF-8, but byte 18 is invalid"
    ):
        load_config(path, tmp_path)
