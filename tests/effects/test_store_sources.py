"""From which buffers a kernel computes what it stores: answers by hand for kernels, built by Triton's front end."""

import pytest

from ligerdiag.effects.store_sources import compute_store_sources
from ligerdiag.effects.ttir_module import parse_ttir
from tests.effects import ttir_kernels
from tests.oracle.frontend import build_ttir

F, I = "*fp32", "i32"


@pytest.mark.parametrize(
    ("kernel", "signature", "sources"),
    [
        pytest.param("adds_up_beside", {"w": F, "g": F, "s": F}, {"w": "wg", "g": "g", "s": "gs"}, id="other-values"),
        pytest.param("adds_up_in_a_loop", {"w": F, "g": F, "s": F}, {"w": "wg", "g": "g", "s": "gs"}, id="in-a-loop"),
        pytest.param("adds_up_under", {"w": F, "g": F, "s": F}, {"w": "wg", "g": "g", "s": "wgs"}, id="condition"),
        pytest.param(
            "adds_up_times", {"w": F, "g": F, "s": F}, {"w": "wg", "g": "g", "s": "wgs"}, id="bound-of-a-loop"
        ),
        pytest.param("adds_up_at", {"w": F, "g": F, "s": F}, {"w": "wg", "g": "g", "s": "wgs"}, id="address"),
        pytest.param(
            "adds_up_through", {"w": F, "g": F, "s": F}, {"w": "wg", "g": "g", "s": "wgs"}, id="through-memory"
        ),
        pytest.param("store_in_while", {"x": F, "y": F, "n": I}, None, id="while"),
        pytest.param("atomic_add", {"x": F, "o": F}, None, id="atomic"),
        pytest.param("stores_through_call", {"x": F, "y": F, "n": I}, None, id="call-that-stores"),
        pytest.param("early_return", {"x": F, "y": F, "o": F, "n": I}, None, id="branches"),
        pytest.param("read_from_integer", {"x": F, "o": F, "a": "i64"}, None, id="address-of-unknown-origin"),
    ],
)
def test_sources(kernel: str, signature: dict[str, str], sources: dict[str, str] | None) -> None:
    names = list(signature)
    module = parse_ttir(build_ttir(getattr(ttir_kernels, kernel), signature))
    found = compute_store_sources(module, kernel)
    if sources is None:
        assert found is None
    else:
        assert found is not None
        read = ["".join(name for at, name in enumerate(names) if bits & (1 << (at + 1))) for bits in found]
        assert dict(zip(names, read, strict=True)) == sources
