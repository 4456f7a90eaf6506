"""A program that XLA does not compile for a described GPU may compile with other options."""

import pytest

from ligerdiag.compile.lowering.compile_job import find_remedy

UNTUNED = "INTERNAL: No supported config found for HLO: %gemm_fusion_dot = bf16[4096,6144] fusion(...)"
LEVEL = "xla_gpu_autotune_level"


def test_a_product_without_a_configuration_is_tuned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    assert find_remedy(UNTUNED, {LEVEL: 0}, {}) == {LEVEL: 4}
    assert find_remedy(UNTUNED, {LEVEL: 4}, {}) is None  # tuning has already failed
    assert find_remedy("INTERNAL: something else", {LEVEL: 0}, {}) is None


def test_the_user_s_own_option_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    assert find_remedy(UNTUNED, {LEVEL: 0}, {LEVEL: 0}) is None
    monkeypatch.setenv("XLA_FLAGS", f"--{LEVEL}=0")
    assert find_remedy(UNTUNED, {}, {}) is None
