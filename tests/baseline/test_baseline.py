"""The baseline file: equal content is equal text, and any other file is refused in one line."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ligerdiag.codec import FieldError
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import Fate, Origin, ReadTime
from ligerdiag.report.baseline import MAX_BYTES, Baseline, EntryKey, load_baseline, parse_baseline, render_baseline
from tests.analysis.neighbourhoods_by_hand import make_facts, make_neighbourhood, make_reader

KEY = EntryKey(case="step[a-b]", target="h100", toolchain="default")
FULL = make_neighbourhood(
    make_reader(),
    make_reader(source=None, side=ReadTime.ACROSS, origin=Origin.RECOMPUTED, op_name=""),
    copied_by=("all-gather",),
    shares=("a constant",),
)
GONE = make_neighbourhood(kernel="other", fate=Fate.GONE, shape="", size=0)
BASELINE = Baseline(
    ligerdiag="1",
    toolchains={"default": {"jax": "0.11.2"}},
    entries={KEY: make_facts(FULL, GONE, loss=Verdict.FRESH, w=Verdict.UNKNOWN)},
)


def change(path: str, value: Any) -> str:
    """Returns the text with one value replaced; `path` is such as `cases.0.id`."""
    top = json.loads(render_baseline(BASELINE))
    *steps, last = path.split(".")
    at: Any = top
    for step in steps:
        at = at[int(step) if isinstance(at, list) else step]
    at[int(last) if isinstance(at, list) else last] = value
    return json.dumps(top)


def test_a_baseline_is_read_again_without_folders() -> None:
    text = render_baseline(BASELINE)
    assert "/home/me" not in text
    assert render_baseline(parse_baseline(text)) == text
    facts = parse_baseline(text).entries[KEY]
    assert facts.outputs == {"loss": Verdict.FRESH, "w": Verdict.UNKNOWN}
    first, second = facts.neighbourhoods
    assert (first.copied_by, first.shares, first.size, second.fate) == (
        ("all-gather",),
        ("a constant",),
        1024,
        Fate.GONE,
    )
    assert first.readers[0].source is not None
    assert (first.readers[0].source.file, first.readers[0].source.line) == ("train.py", 41)
    assert (first.readers[1].side, first.readers[1].origin) == (ReadTime.ACROSS, Origin.RECOMPUTED)


def test_entries_are_sorted_whatever_the_order_of_the_run() -> None:
    keys = [EntryKey(case=case, target=target, toolchain="default") for case in "ba" for target in ("h100", "a100")]
    texts = [
        render_baseline(Baseline(ligerdiag="1", entries=dict.fromkeys(them, make_facts())))
        for them in (keys, keys[::-1])
    ]
    assert texts[0] == texts[1]
    assert [(case["id"], case["target"]) for case in json.loads(texts[0])["cases"]] == [
        ("a", "a100"), ("a", "h100"), ("b", "a100"), ("b", "h100"),
    ]  # fmt: skip


def test_joined_baselines_keep_entries_that_the_newer_one_lacks() -> None:
    other = EntryKey(case="other", target="h100", toolchain="seed")
    newer = Baseline(
        ligerdiag="2", toolchains={"seed": {"jax": "0.4.34"}}, entries={KEY: make_facts(), other: make_facts()}
    )
    kept = EntryKey(case="kept", target="h100", toolchain="default")
    older = replace(BASELINE, entries={**BASELINE.entries, kept: make_facts(FULL)})
    joined = older.join(newer)
    assert joined.ligerdiag == "2"
    assert set(joined.toolchains) == {"default", "seed"}
    assert set(joined.entries) == {KEY, kept, other}
    assert joined.entries[KEY] == make_facts()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected JSON"),
        ("[" * 100_000, "expected JSON"),
        ("[]", "expected an object for `document`"),
        ("{}", "expected an integer for `format`"),
        (change("format", 2), "expected format 1 but got 2, which another version of ligerdiag wrote"),
        (change("cases", {}), "expected an array for `cases`"),
        (change("cases.0.outputs", {"loss": "fine"}), "expected one of fresh, latent"),
        (change("cases.0.writes.0.readers.0", {"side": "never"}), "`line`"),
        (change("cases.0.writes.0.bytes", "many"), "expected an integer for `bytes`"),
        (change("cases.0.writes.0.operand", -1), "expected a number of at least 0 for `operand`"),
        (change("cases.0.writes.0.readers.0.line", -(1 << 63)), "expected a number of at least 0 for `line`"),
        (change("cases.0.writes.0.shares", [1]), "expected a string for `shares`"),
        (change("toolchains", {"default": {"jax": 1}}), "expected a string for `default`"),
        (change("cases", json.loads(render_baseline(BASELINE))["cases"] * 2), "the file has two entries for"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_a_baseline_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FieldError, match=message):
        parse_baseline(text)
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(InputError, match="is no baseline that can be read") as caught:
        load_baseline(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a\n::error::b", "\x1b[31m", "a" * 100_000])
def test_a_name_in_the_file_cannot_break_the_error_line(name: str, tmp_path: Path) -> None:
    for text in (change("cases.0.outputs", {name: 1}), change("cases.0.outputs", {"loss": name})):
        (tmp_path / "b.json").write_text(text)
        with pytest.raises(InputError, match="is no baseline that can be read") as caught:
            load_baseline(tmp_path / "b.json")
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 2000


def test_the_error_for_a_missing_file_says_how_to_record_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no baseline `.*b.json`: record one with `ligerdiag check --record"):
        load_baseline(tmp_path / "b.json")


def test_a_folder_a_pipe_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, Path("/dev/null"), tmp_path / "pipe"):
        with pytest.raises(InputError, match="is no regular file: record one"):
            load_baseline(path)
    (tmp_path / "b.json").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is no baseline"):
        load_baseline(tmp_path / "b.json")


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    with path.open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(InputError, match="too large for a baseline"):
        load_baseline(path)
