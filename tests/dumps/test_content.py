"""File contents are unpacked within limits and recognised by their first bytes."""

import gzip
import os
from pathlib import Path

import pytest

from ligerdiag.dumps import content
from ligerdiag.dumps.content import Form, compute_form, is_whole, read_content, split_modules, strip_paste, unpack
from ligerdiag.errors import ArtifactError
from ligerdiag.untrusted_files import SMALL_UNPACKED_BYTES

TEXT = b"HloModule m\n\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n"
CALLED = b"HloModule m\n\nc {\n  ROOT p = f32[] parameter(0)\n}\n\n"
ENTRY = b"ENTRY e {\n  q = f32[] parameter(0)\n  ROOT r = f32[] call(q), to_apply=c\n}\n"
PACKED = gzip.compress(TEXT, mtime=0)


def test_a_gzip_file_of_any_number_of_members_is_unpacked() -> None:
    assert unpack(TEXT) == TEXT
    assert unpack(gzip.compress(TEXT)) == TEXT
    assert unpack(gzip.compress(TEXT) + gzip.compress(TEXT) + b"\x00" * 512) == TEXT + TEXT
    assert unpack(gzip.compress(b"")) == b""
    large = os.urandom(3 << 20)
    assert unpack(gzip.compress(large)) == large


def test_a_large_file_may_unpack_to_more_than_a_small_one() -> None:
    half = os.urandom(SMALL_UNPACKED_BYTES * 3 // 4)
    assert len(unpack(gzip.compress(half + bytes(len(half)), 1))) == 2 * len(half)


@pytest.mark.parametrize("unit", [b"\x00", b"\x1a\x00", b"HloModule m\n"])
def test_a_bomb_ends_in_an_error_before_it_is_unpacked(unit: bytes) -> None:
    bomb = gzip.compress(unit * ((64 << 20) // len(unit)), 9)
    assert len(bomb) < SMALL_UNPACKED_BYTES // 8
    with pytest.raises(ArtifactError, match="unpacks to more than"):
        unpack(bomb)
    with pytest.raises(ArtifactError, match="unpacks to more than"):
        unpack(gzip.compress(unit * ((2 << 20) // len(unit)), 9) * 20)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (PACKED[:-12], "ends too early"),
        (PACKED[:5], "ends too early"),
        (PACKED[:-8] + b"\x00" * 8, "damaged"),
        (PACKED + b"rest", "damaged"),
        (gzip.compress(PACKED, mtime=0), "inside a gzip file"),
    ],
    ids=("cut off", "cut off in its head", "another checksum", "trailing bytes", "packed twice"),
)
def test_a_damaged_gzip_file_is_reported(data: bytes, said: str) -> None:
    with pytest.raises(ArtifactError, match=said):
        unpack(data)


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (TEXT, Form.TEXT),
        (b"// by hand\n\n  " + TEXT, Form.TEXT),
        (b"\xef\xbb\xbf" + TEXT, Form.TEXT),
        (ENTRY, Form.TEXT),
        (b"// CHECK: a {\n" + CALLED.partition(b"\n")[2] + ENTRY, Form.TEXT),
        (b"\x0a\x02\x12\x05\nENTRY e {\n}\n", Form.PROTO),
        (b"BufferAssignment:\nallocation 0: size 4:\n", Form.BUFFERS),
        (b"\x0a\x03abc", Form.PROTO),
    ],
)
def test_the_first_bytes_decide_the_form(data: bytes, form: Form) -> None:
    assert compute_form(data) is form


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"module @jit_f attributes {}", "StableHLO"),
        (b"#loc1 = loc(unknown)\nmodule @f {", "StableHLO"),
        (b"ML\xefR\x01", "MLIR bytecode"),
        (b"\xfd7zXZ\x00...", "xz file"),
        (b"PK\x03\x04", "zip file"),
        (b"PAR1\x15\x00", "Parquet table"),
        (b"dump/".ljust(257, b"\0") + b"ustar\x0000", "tar archive: unpack it"),
        (b"int main() {\n  return 0;\n}\n" * 9, "text in which no line begins with `HloModule` or `ENTRY`"),
    ],
)
def test_known_other_formats_are_named(data: bytes, said: str) -> None:
    with pytest.raises(ArtifactError, match=said):
        compute_form(data)


def test_only_files_can_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", Path("/dev/zero")):
        with pytest.raises(ArtifactError, match=r"not a file|cannot read"):
            read_content(path)


def test_a_file_above_the_bound_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MAXIMUM_FILE_BYTES", len(TEXT))
    path = tmp_path / "m.txt"
    path.write_bytes(TEXT)
    assert read_content(path) == TEXT
    path.write_bytes(TEXT + b"\n")
    with pytest.raises(
        ArtifactError, match=f"`m.txt` has {len(TEXT) + 1} bytes, more than the {len(TEXT)} that are allowed"
    ):
        read_content(path)


@pytest.mark.parametrize(
    "pasted",
    [
        b"\xef\xbb\xbf" + TEXT,
        TEXT.decode().encode("utf-16"),
        b"# what my colleague sent\n" + TEXT,
        b"Hi,\n\nhere it is:\n```\n" + TEXT + b"```\nthanks\n",
        b"".join(b"> " + line + b"\n" for line in TEXT.splitlines()),
        b"On Monday she wrote:\n" + b"".join(b">> " + line + b"\n" for line in TEXT.splitlines()),
        b"\xef\xbb\xbf> he wrote\n" + b"".join(b"> " + line + b"\r\n" for line in TEXT.splitlines()),
    ],
    ids=("mark", "utf-16", "line before", "fenced", "quoted", "quoted twice", "all"),
)
def test_additions_of_a_paste_to_hlo_text_are_removed(pasted: bytes, tmp_path: Path) -> None:
    (tmp_path / "pasted.txt").write_bytes(pasted)
    data = read_content(tmp_path / "pasted.txt")
    assert compute_form(data) is Form.TEXT
    assert data.replace(b"\r", b"").rstrip() == TEXT.rstrip()
    assert is_whole(data)


@pytest.mark.parametrize(
    "data",
    [
        TEXT,
        TEXT[:-4],
        CALLED + ENTRY[:40],
        CALLED + b"ENTRY e {",
        CALLED + b"  ROOT p = f32[] parameter(0)",
        CALLED + ENTRY[:-3] + b"\n  q = f32",
        b"BufferAssignment:\nallocation 0\nHloModule m\n}\nrest",
        b"\x0a\x07\x12\x05\nHloModule m\n}\nrest",
        b"// a > b\n" + TEXT.replace(b"m\n", b"m, entry_computation_layout={()->f32[]}\n"),
        b"\xff\xfe",
        "no module".encode("utf-16"),
    ],
    ids=(
        "text",
        "cut off",
        "in its entry",
        "at its entry",
        "without a head",
        "in a line",
        "buffers",
        "protobuf",
        "comment",
        "only a mark",
        "utf-16 of something else",
    ),
)
def test_text_without_such_additions_is_unchanged(data: bytes) -> None:
    stripped = strip_paste(data)
    assert stripped == data or (data.startswith(b"//") and stripped == data[len(b"// a > b\n") :])


def test_a_text_of_several_modules_is_split_at_their_first_lines() -> None:
    noise = b"\n// -----\n// CHECK: HloModule n\n\n"
    assert split_modules(strip_paste(b"// RUN: x\n" + TEXT + noise + CALLED + ENTRY + noise)) == (TEXT, CALLED + ENTRY)
    assert split_modules(TEXT) == (TEXT,)
    assert split_modules(b"\x0a" + TEXT + TEXT) == (b"\x0a" + TEXT + TEXT,)  # not text: may be a protobuf


FENCED = b"HloModule m\n\nENTRY e {\n  p = f32[4]{0} parameter(0)\n  ROOT a = f32[4]{0} add(p, p)\n}\n"
SECOND = FENCED.replace(b" m", b" n")
HEADLESS = FENCED.partition(b"\n\n")[2]
LOWERED = b"module @jit_f {\n  func.func @f() {\n    return\n  }\n}\n"


def fence(text: bytes, *, word: bytes = b"", marks: bytes = b"```") -> bytes:
    return marks + word + b"\n" + text + marks + b"\n"


def push(text: bytes, by: bytes) -> bytes:
    return b"".join(by + line + b"\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("data", "modules"),
    [
        (b"# A\n\n" + fence(FENCED, word=b"hlo") + b"\n## Lowered\n" + fence(LOWERED) + b"<!-- x -->\n", (FENCED,)),
        (fence(FENCED, marks=b"~~~") + fence(LOWERED, word=b"mlir"), (FENCED,)),
        (fence(LOWERED, word=b"mlir") + fence(FENCED, word=b"hlo"), (FENCED,)),
        (b"1. run:\n" + push(fence(FENCED, word=b"hlo") + fence(LOWERED), b"    "), (FENCED,)),
        (push(fence(FENCED) + fence(LOWERED), b"> "), (FENCED,)),
        (fence(FENCED) + b"then\n" + fence(SECOND) + fence(LOWERED), (FENCED, SECOND)),
        (fence(FENCED, marks=b"````") + fence(LOWERED), (FENCED,)),
        (fence(HEADLESS) + fence(LOWERED), (HEADLESS,)),
        (b"see\n```hlo\n" + FENCED, (FENCED,)),
        (fence(b"$ run\n%a = 3\n") + fence(FENCED) + fence(b"%b = 4\n", word=b"console"), (FENCED,)),
        (b"<details>\n\n" + fence(FENCED) + b"</details>\n\n" + fence(b"def f(x) {\n", word=b"c"), (FENCED,)),
        (FENCED + b"\nLowered:\n" + fence(LOWERED, word=b"mlir"), (FENCED,)),
    ],
    ids=[
        *("another fence", "tildes", "the other first", "indented", "quoted", "two modules", "longer marks", "no head"),
        *("not closed", "a log", "details", "before all fences"),
    ],
)
def test_modules_between_markdown_fences_are_read(data: bytes, modules: tuple[bytes, ...]) -> None:
    assert tuple(one.rstrip() for one in split_modules(strip_paste(data))) == tuple(one.rstrip() for one in modules)
    assert all(map(is_whole, split_modules(strip_paste(data))))


def test_a_quoted_module_belongs_to_the_head_of_another() -> None:
    head = b'HloModule m, origin_recovery_table={\n  {"x \\"y"} : {"x__ovp0"},\n  "\n    ' + TEXT + b'"\n}\n'
    module = head + TEXT.partition(b"\n")[2]
    assert split_modules(strip_paste(module)) == (module,)
    assert split_modules(module + TEXT) == (module, TEXT)


def test_trailing_comments_do_not_make_a_text_look_truncated() -> None:
    checks = b"// CHECK: scf.for {\n// CHECK:   ENTRY e {\n// CHECK: }\n"
    for text in (TEXT, ENTRY):
        assert strip_paste(text + checks) == text
        assert is_whole(strip_paste(text + checks))
