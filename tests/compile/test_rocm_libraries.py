"""The libraries in place of ROCm's: what the dynamic linker of this machine finds in them."""

import ctypes
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from ligerdiag.codec import FieldError
from ligerdiag.errors import CompileError, InputError
from ligerdiag.toolchains.rocm_libraries import (
    FOLDER,
    MACHINE,
    load_libraries,
    parse_libraries,
    preload_libraries,
    write_libraries,
)
from ligerdiag.toolchains.shared_objects import StubLibrary, compute_hash, render_shared_object

needs_x86 = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != MACHINE, reason=f"the libraries are for Linux on {MACHINE}"
)
SMALL = StubLibrary(
    soname="libsmall.so.3",
    symbols={"": ("plain",), "small_1": ("first", "say"), "small_2": ("second",)},
    returns=77,
    texts=frozenset({"say"}),
)


def load(library: StubLibrary, folder: Path) -> ctypes.CDLL:
    path = folder / library.soname
    path.write_bytes(render_shared_object(library))
    return ctypes.CDLL(str(path))


def has_version(loaded: ctypes.CDLL, name: str, version: str) -> bool:
    """Returns whether the library has the symbol in that version."""
    find = ctypes.CDLL(None).dlvsym
    find.restype = ctypes.c_void_p
    find.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    return find(loaded._handle, name.encode(), version.encode()) is not None


@needs_x86
def test_every_function_returns_the_number_or_the_text(tmp_path: Path) -> None:
    loaded = load(SMALL, tmp_path)
    assert [loaded.plain(), loaded.first(), loaded.second()] == [77, 77, 77]
    loaded.say.restype = ctypes.c_char_p
    assert loaded.say() == StubLibrary.TEXT.rstrip(b"\0")
    with pytest.raises(AttributeError, match="undefined symbol: third"):
        _ = loaded.third


@needs_x86
def test_a_symbol_has_its_version_and_no_other(tmp_path: Path) -> None:
    loaded = load(SMALL, tmp_path)
    assert has_version(loaded, "first", "small_1")
    assert has_version(loaded, "second", "small_2")
    assert not has_version(loaded, "first", "small_2")
    assert not has_version(loaded, "plain", "small_1")


@needs_x86
def test_each_declared_library_has_each_of_its_symbols_in_its_version(tmp_path: Path) -> None:
    write_libraries(tmp_path)
    for library in load_libraries():
        loaded = ctypes.CDLL(str(tmp_path / FOLDER / library.soname))
        for version, names in library.symbols.items():
            for name in names:
                assert has_version(loaded, name, version) if version else loaded[name], (library.soname, name)
        numbers = {loaded[name]() for names in library.symbols.values() for name in names if name not in library.texts}
        assert numbers == {library.returns}


@needs_x86
def test_a_loaded_library_is_the_one_that_others_get_by_its_name(tmp_path: Path) -> None:
    write_libraries(tmp_path)
    program = (
        "import ctypes, pathlib\nfrom ligerdiag.toolchains.rocm_libraries import preload_libraries\n"
        f"preload_libraries(pathlib.Path({str(tmp_path)!r}))\nprint(ctypes.CDLL('libamdhip64.so.7').hipInit(0))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "100\n"


def test_a_library_that_is_gone_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"libamd_smi\.so\.26.*remove the folder `.*`, and ligerdiag makes it again"):
        preload_libraries(tmp_path)


def test_another_machine_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(InputError, match=r"aarch64: the ROCm plugin of JAX exists only for Linux on x86_64"):
        write_libraries(tmp_path)


def test_the_hash_of_a_version_is_that_of_the_system_v_abi() -> None:
    # as `objdump --private-headers` shows them of libraries that a linker made
    assert [compute_hash("hip_4.2"), compute_hash("AMDSMI_1")] == [0x0F062772, 0x01981B41]


@pytest.mark.parametrize(
    "text",
    [
        "[library.a]\nreturns = -1\nsymbols.x = 'f'",
        "[library.a]\nreturns = 1\nsymbols.x = 'f'\nsymbols.y = 'f'",
        "[library.a]\nreturns = 1\ntexts = ['g']\nsymbols.x = 'f'",
        "[library.a]\nreturns = 1\nsymbols.x = ['f']",
        "library = 3",
        "[",
    ],
)
def test_a_damaged_table_is_refused(text: str) -> None:
    with pytest.raises(FieldError):
        parse_libraries(text)
