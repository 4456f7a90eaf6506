"""Payloads that no compiler wrote: each gives an answer or a one-line error, in bounded time and memory."""

import random
import zlib

import pytest

from ligerdiag.effects.access import Access
from ligerdiag.effects.call import compute_call_effects
from ligerdiag.effects.payload import PAYLOAD_LIMIT, parse_pallas_call, parse_triton_call, parse_triton_ffi_call
from ligerdiag.errors import ArtifactError


def compress_zeros(mebibytes: int) -> bytes:
    """Returns a payload a thousandth as long as its contents."""
    compressor = zlib.compressobj(level=1)
    block = bytes(2**20)
    return b"".join([*(compressor.compress(block) for _ in range(mebibytes)), compressor.flush()])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (b"", "truncated"),
        (b"not zlib", "not zlib-compressed"),
        (zlib.compress(b"\xff" * 100), "not a serialized"),
        (zlib.compress(b""), "has no kernel call"),
        (zlib.compress(b"\x12\x00"), "has no kernel call"),
        (zlib.compress(b"\x0a\x00"), "has no Triton IR"),
        (zlib.compress(b"\x0a\x06\x0a\x04\x2a\x02\xff\xfe"), "not a serialized"),
    ],
)
def test_a_malformed_payload_is_a_one_line_error(config: bytes, message: str) -> None:
    with pytest.raises(ArtifactError, match=message) as error:
        parse_triton_call(config)
    assert "\n" not in str(error.value)


def test_a_payload_that_grows_beyond_the_limit_is_a_one_line_error() -> None:
    bomb = compress_zeros(4 * PAYLOAD_LIMIT // 2**20)
    with pytest.raises(ArtifactError, match="larger than 64 MiB") as error:
        parse_triton_call(bomb)
    assert "\n" not in str(error.value)


def test_a_payload_truncated_anywhere_is_an_error(payload: bytes) -> None:
    for size in range(0, len(payload), 97):
        with pytest.raises(ArtifactError):
            parse_triton_call(payload[:size])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (b"", "not an attribute dictionary"),
        (b"{}", "no string attribute `opaque`"),
        (b"{opaque = 3 : i32}", "no string attribute `opaque`"),
        (b'{opaque = "', "not an attribute dictionary"),
        (b'{opaque = "\\q"}', "an escape sequence that MLIR does not define"),
        (b'{opaque = "\\9', "not an attribute dictionary"),
        (b'{"opaque', "neither JSON nor"),
        (b'{"a":' * 100000, "neither JSON nor"),
        (b'{"custom_call_backend_config": {"attributes": 3}}', "lacks `custom_call_backend_config.attributes`"),
        (b"{" + b'"' * 200001 + b"}", "neither JSON nor"),
        (b"{ " + b"a" * 200000 + b"}", "no string attribute `opaque`"),
        (b"{ " + b'a = "' * 100000 + b"}", "no string attribute `opaque`"),
    ],
)
def test_a_backend_config_that_is_not_a_dictionary_is_a_one_line_error(config: bytes, message: str) -> None:
    with pytest.raises(ArtifactError, match=message) as error:
        parse_triton_ffi_call(config)
    assert "\n" not in str(error.value)


def test_a_pallas_call_without_its_module_is_an_error() -> None:
    with pytest.raises(ArtifactError, match="lacks the string attributes"):
        parse_pallas_call(b'{name = "k"}')


def test_random_damage_raises_no_exception(payload: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    plain = zlib.decompress(payload)
    chance = random.Random(7)
    for _ in range(60):
        damaged = bytearray(plain)
        for _ in range(chance.randint(1, 8)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        effects = compute_call_effects(
            target="triton_kernel_call", backend_config=zlib.compress(bytes(damaged)), operands=1, outputs=1
        )
        assert len(effects.operands) == 1
        assert (Access.UNKNOWN in effects.operands + effects.outputs) == bool(effects.reasons)
        assert all("\n" not in reason for reason in effects.reasons)
