"""A compile worker tells cuTile and CuTe DSL the architecture, and registers FFI handlers without one of their stages.

The packages themselves compile in `tests/effects/test_library_programs.py`, where they are installed.
"""

import os
import sys
from types import ModuleType
from typing import Any

import jax
import pytest

from ligerdiag.compile.lowering.other_kernels import CUTILE_COMPILER, assume_gpu_of_other_kernels, drop_instantiation

ARCHITECTURE = "CUTE_DSL_ARCH"


@pytest.mark.parametrize(("capability", "name"), [(80, "sm_80"), (90, "sm_90a"), (100, "sm_100a")])
def test_cute_dsl_gets_the_architecture_of_the_target(
    capability: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ARCHITECTURE, raising=False)
    with assume_gpu_of_other_kernels(capability):
        assert os.environ[ARCHITECTURE] == name
    assert ARCHITECTURE not in os.environ


def test_the_user_s_architecture_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ARCHITECTURE, "sm_90")
    with assume_gpu_of_other_kernels(100):
        assert os.environ[ARCHITECTURE] == "sm_90"
    assert os.environ[ARCHITECTURE] == "sm_90"


def test_cutile_gets_the_architecture_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_sm_arch(device_id: int = 0) -> str:
        raise RuntimeError(f"no driver for GPU {device_id}")

    compiler: Any = ModuleType(CUTILE_COMPILER)
    compiler.get_sm_arch = get_sm_arch
    monkeypatch.setitem(sys.modules, CUTILE_COMPILER, compiler)
    with assume_gpu_of_other_kernels(90):
        assert (compiler.get_sm_arch(), compiler.get_sm_arch(device_id=1)) == ("sm_90", "sm_90")
    assert compiler.get_sm_arch is get_sm_arch


@pytest.mark.parametrize(
    ("platform", "handler", "registered"),
    [
        ("CUDA", {"instantiate": 1, "execute": 2}, {"execute": 2}),
        ("gpu", {"instantiate": 1, "prepare": 3, "execute": 2}, {"prepare": 3, "execute": 2}),
        ("cpu", {"instantiate": 1, "execute": 2}, {"instantiate": 1, "execute": 2}),
        ("CUDA", "capsule", "capsule"),
    ],
)
def test_a_handler_for_gpus_is_registered_without_instantiation(
    platform: str, handler: Any, registered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, Any, str, dict[str, Any]]] = []
    monkeypatch.setattr(jax.ffi, "register_ffi_target", lambda *words, **options: seen.append((*words, options)))
    monkeypatch.setitem(sys.modules, "jax.extend.ffi", None)
    drop_instantiation()
    jax.ffi.register_ffi_target("target", handler, platform=platform, api_version=1)
    assert seen == [("target", registered, platform, {"api_version": 1})]


def test_a_handler_is_registered_without_instantiation_by_the_names_of_older_releases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[Any, ...]] = []
    old: Any = ModuleType("jax.extend.ffi")  # the only place before JAX 0.5
    old.register_ffi_target = lambda *words, **options: seen.append(words)
    monkeypatch.delattr(jax, "ffi")
    monkeypatch.setitem(sys.modules, "jax.ffi", None)
    monkeypatch.setitem(sys.modules, "jax.extend.ffi", old)
    drop_instantiation()
    old.register_ffi_target("target", {"instantiate": 1, "execute": 2}, "CUDA", 1)
    assert seen == [("target", {"execute": 2}, "CUDA", 1)]


def test_a_handler_is_registered_without_instantiation_by_both_names_of_jax_0_5(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[Any, ...]] = []
    new, old = ModuleType("jax.ffi"), ModuleType("jax.extend.ffi")
    for library in (new, old):
        monkeypatch.setattr(library, "register_ffi_target", lambda *words, **_: seen.append(words), raising=False)
        monkeypatch.setitem(sys.modules, library.__name__, library)
    drop_instantiation()
    for library in (new, old):
        library.register_ffi_target("target", {"instantiate": 1, "execute": 2}, "CUDA")
    assert seen == [("target", {"execute": 2}, "CUDA")] * 2
