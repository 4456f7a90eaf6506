"""A file with choices of XLA's autotuner is refused before any compile unless XLA would use its entries."""

from hashlib import sha256
from pathlib import Path

import pytest

from ligerdiag.errors import InputError
from ligerdiag.model.tuning import TuningForm
from ligerdiag.toolchains.autotune_results_pb2 import AutotuneCache, AutotuneResults
from ligerdiag.toolchains.gpu_targets import Target, load_target
from ligerdiag.toolchains.tuning_file import compute_device_key, join_results, list_devices, load_tuning
from tests.compile.tuned import BOTH, CUBLAS, FIRST, H100, SECOND, TILES, render_entry, render_results

OLDER = H100.replace("9.19.0", "9.5.1")
A100 = "CUDA: 8.0, Cores: 108, GPU clock: 1.41 GHz, Memory bandwidth: 2039 GB/s, L2 cache: 40 MB, DNN version: 9.19.0"


def write(folder: Path, content: str | bytes, name: str = "tuned.pbtxt") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def pack(text: str) -> bytes:
    """Returns the entries of a file as a binary message, with a choice that our own record does not have."""
    from google.protobuf import text_format

    found = AutotuneResults()
    text_format.Parse(text, found, allow_unknown_field=True)
    choice = b"\x1a\x04\x32\x02\x08\x07"  # result { gemm { algorithm: 7 } }
    parts = [AutotuneResults(results=[one]).SerializeToString() for one in found.results]
    return AutotuneResults(version=3).SerializeToString() + b"".join(
        part[:1] + _length(len(part) - 3 + len(choice)) + part[3:] + choice for part in parts
    )


def _length(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80, number >> 7])


def test_the_words_for_a_target_are_those_of_xla(h100: Target) -> None:
    assert compute_device_key(h100) == H100
    assert compute_device_key(load_target("mi300")) == ""


def test_a_file_is_copied_whole(tmp_path: Path, h100: Target) -> None:
    found = load_tuning(write(tmp_path, BOTH), [h100], tmp_path / "cache")
    digest = sha256(BOTH.encode()).hexdigest()
    assert (found.name, found.sha256, found.copy_sha256, found.entries) == ("tuned.pbtxt", digest, digest, 2)
    assert (found.form, found.notes) == (TuningForm.RESULTS, ())
    assert Path(found.copy).read_text(encoding="utf-8") == BOTH
    assert Path(found.copy).parent == tmp_path / "cache" / "tuning"


def test_the_contents_say_whether_a_file_is_text_not_its_name(tmp_path: Path, h100: Target) -> None:
    binary = load_tuning(write(tmp_path, pack(BOTH)), [h100], tmp_path)
    text = load_tuning(write(tmp_path, BOTH, "tuned.pb"), [h100], tmp_path)
    assert (binary.entries, text.entries) == (2, 2)
    assert (Path(binary.copy).suffix, Path(text.copy).suffix) == (".pb", ".textproto")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "expected the results of XLA's autotuner"),
        ("no protobuf", "expected the results of XLA's autotuner"),
        (b"\x00\xff\x13", "expected the results of XLA's autotuner"),
        (b"\x89PNG\r\n\x1a\n" + bytes(64), "expected the results of XLA's autotuner"),
        ("device_description { }", "expected the results of XLA's autotuner"),
        ("version: 3\n", "has no entry: XLA tuned nothing when it wrote the file"),
        (AutotuneResults(version=3).SerializeToString(), "has no entry: XLA tuned nothing"),
        (render_results(render_entry(FIRST, TILES), version=2), "of version 2, and XLA reads version 3"),
        (render_results(render_entry(FIRST, TILES, A100)), f"no entry for target `h100`, which XLA calls `{H100}`"),
    ],
)
def test_a_file_of_no_use_is_refused(content: str | bytes, said: str, tmp_path: Path, h100: Target) -> None:
    with pytest.raises(InputError) as caught:
        load_tuning(write(tmp_path, content), [h100], tmp_path)
    assert said in str(caught.value)
    assert "tuned.pbtxt" in str(caught.value)


def test_a_file_that_is_missing_is_refused(tmp_path: Path, h100: Target) -> None:
    with pytest.raises(InputError, match=r"cannot read `.*gone.pbtxt`: No such file"):
        load_tuning(tmp_path / "gone.pbtxt", [h100], tmp_path)


def test_each_target_needs_an_entry(tmp_path: Path, h100: Target) -> None:
    a100 = load_target("a100")
    with pytest.raises(InputError, match="no entry for target `a100`"):
        load_tuning(write(tmp_path, BOTH), [h100, a100], tmp_path)
    both = render_results(render_entry(FIRST, TILES), render_entry(FIRST, TILES, compute_device_key(a100)))
    assert load_tuning(write(tmp_path, both), [h100, a100], tmp_path).entries == 2
    with pytest.raises(InputError, match="for GPUs of NVIDIA alone"):
        load_tuning(write(tmp_path, BOTH), [load_target("mi300")], tmp_path)


@pytest.mark.parametrize("is_text", [True, False])
def test_another_version_of_cudnn_is_noted_and_allowed(is_text: bool, tmp_path: Path, h100: Target) -> None:
    text = BOTH.replace(H100, OLDER)
    found = load_tuning(write(tmp_path, text if is_text else pack(text)), [h100], tmp_path)
    (note,) = found.notes
    assert "recorded with cuDNN 9.5.1, and target `h100` has cuDNN 9.19.0" in note
    copy = Path(found.copy).read_bytes()
    assert copy == (BOTH.encode() if is_text else pack(BOTH))
    assert found.sha256 != found.copy_sha256


def test_entries_of_the_right_version_of_cudnn_are_preferred(tmp_path: Path, h100: Target) -> None:
    text = render_results(render_entry(FIRST, TILES, OLDER), render_entry(FIRST, CUBLAS))
    found = load_tuning(write(tmp_path, text), [h100], tmp_path)
    assert (found.notes, Path(found.copy).read_text(encoding="utf-8")) == ((), text)


def test_two_other_versions_of_cudnn_are_ambiguous(tmp_path: Path, h100: Target) -> None:
    text = render_results(
        render_entry(FIRST, TILES, OLDER), render_entry(FIRST, CUBLAS, H100.replace("9.19.0", "9.6.0"))
    )
    with pytest.raises(InputError, match="no entry for target `h100`"):
        load_tuning(write(tmp_path, text), [h100], tmp_path)


def test_the_form_with_fingerprints_is_read_without_a_look_at_the_gpu(tmp_path: Path, h100: Target) -> None:
    entry = AutotuneCache.Entry(
        key=AutotuneCache.Key(target=AutotuneCache.TargetKey(device="0123", hlo_fingerprint="4567"))
    )
    binary = AutotuneCache(entries=[entry, entry]).SerializeToString()
    text = (
        'entries { key { target { device: "0123" hlo_fingerprint: "4567" } } value { optimal_backend_version: "x" } }\n'
    )
    for content, entries in ((binary, 2), (text, 1)):
        found = load_tuning(write(tmp_path, content), [h100], tmp_path)
        assert (found.form, found.entries) == (TuningForm.CACHE, entries)
        assert Path(found.copy).read_bytes() == (content if isinstance(content, bytes) else content.encode())
        for targets in ([load_target("mi300")], [h100, load_target("mi300")]):
            with pytest.raises(
                InputError, match="no entry for target `mi300`: XLA reads such files for GPUs of NVIDIA"
            ):
                load_tuning(write(tmp_path, content), targets, tmp_path)


def test_a_copy_that_cannot_be_kept_leaves_no_file(tmp_path: Path, h100: Target) -> None:
    name = sha256(BOTH.encode()).hexdigest()
    (tmp_path / "tuning" / f"{name}.textproto").mkdir(parents=True)
    with pytest.raises(InputError, match="cannot keep a copy of the autotuning results"):
        load_tuning(write(tmp_path, BOTH), [h100], tmp_path)
    assert [one.name for one in (tmp_path / "tuning").iterdir()] == [f"{name}.textproto"]


@pytest.mark.parametrize("name", ["joined.pbtxt", "joined.pb"])
def test_files_are_joined_entry_by_entry(name: str, tmp_path: Path, h100: Target) -> None:
    is_text = name.endswith("txt")
    texts = [render_results(render_entry(FIRST, TILES)), BOTH, render_results()]
    parts = [write(tmp_path, text if is_text else pack(text), f"{n}-{name}") for n, text in enumerate(texts)]
    joined = join_results(parts, Path(name))
    assert list_devices(joined) == {H100: 2}
    assert load_tuning(write(tmp_path, joined, name), [h100], tmp_path).entries == 2
    if is_text:
        assert joined.decode().splitlines()[0] == "version: 3"
        assert sorted(joined.decode().splitlines()) == sorted(BOTH.splitlines())
    else:
        assert sorted(joined) == sorted(pack(BOTH))


def test_the_first_choice_for_an_instruction_stays(tmp_path: Path) -> None:
    parts = [
        write(tmp_path, render_results(render_entry(SECOND, choice)), f"{number}.pbtxt")
        for number, choice in enumerate((CUBLAS, TILES))
    ]
    joined = join_results(parts, Path("joined.pbtxt")).decode()
    assert CUBLAS in joined
    assert TILES not in joined


def test_nothing_has_no_devices() -> None:
    assert list_devices(b"") == {}
