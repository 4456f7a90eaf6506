"""Mutates the kernel inside a call: its Triton IR, its launch, and the bytes around both.

Each mutation has a claim about the call's effects afterwards, and one about the verdicts.
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ligerdiag.effects.triton_call_pb2 import TritonAnyKernelCall
from tools.claims.mutation import Claim
from tools.claims.stores import find_stores, list_pointers

_UNKNOWN_OPCODES = ("tt.stor", "tt.store2", "zz.store", '"zz.store"', "TT.STORE", "tt. store", "tt.store\u200b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A changed payload, and its effects."""

    payload: bytes
    written: frozenset[int] = frozenset()
    """Numbers of the buffers whose effects must say that they are, or may be, written."""
    is_kept: bool = False
    """Whether every earlier write must still be reported."""
    is_unreadable: bool = False
    """Whether nothing may be known of any buffer, unless the bytes still decode to the same content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadMutation:
    """One kind of change."""

    name: str
    claim: Claim | None
    """About the verdicts; None if it is another program."""
    weight: int
    apply: Callable[[TritonAnyKernelCall, Random], Changed | None]
    """Returns None if it has nothing to change."""


PAYLOADS: dict[str, PayloadMutation] = {}

type _Apply = Callable[[TritonAnyKernelCall, Random], Changed | None]


def _payload(claim: Claim | None, weight: int = 1) -> Callable[[_Apply], _Apply]:
    def register(function: _Apply) -> _Apply:
        name = function.__name__
        PAYLOADS[name] = PayloadMutation(name=name, claim=claim, weight=weight, apply=function)
        return function

    return register


def read_payload(payload: bytes) -> TritonAnyKernelCall:
    """Returns the message in a good payload."""
    return TritonAnyKernelCall.FromString(zlib.decompress(payload))


def _pack(call: TritonAnyKernelCall) -> bytes:
    return zlib.compress(call.SerializeToString(), 1)


def _set_ir(call: TritonAnyKernelCall, text: str) -> bytes:
    call.kernel_call.kernel.ttir = text
    return _pack(call)


@_payload(Claim.STALE_STAYS, weight=5)
def drop_store(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Removes one store, or all through one pointer; the other writes stay."""
    text = call.kernel_call.kernel.ttir
    stores = find_stores(text)
    if not stores:
        return None
    gone = random.choice(stores)
    dropped = [gone] if random.random() < 0.5 else [one for one in stores if one.root == gone.root]
    left = [one for one in stores if one not in dropped]
    lines = text.split("\n")
    for one in dropped:
        lines[one.line] = ""
    written = frozenset(one.root for one in left if one.root is not None)
    return Changed(payload=_set_ir(call, "\n".join(lines)), written=written)


@_payload(None, weight=3)
def exchange_pointers(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Exchanges two pointers of one type in the signature."""
    text = call.kernel_call.kernel.ttir
    pointers = list_pointers(text)
    pairs = [(a, b) for a in pointers for b in pointers if a.index < b.index and a.type == b.type]
    if not pairs:
        return None
    one, other = random.choice(pairs)
    place = {one.index: other.index, other.index: one.index}
    written = frozenset(place.get(store.root, store.root) for store in find_stores(text) if store.root is not None)
    head, start, rest = text.partition("tt.func public @")
    signature, end, body = rest.partition(") attributes")
    swapped = re.sub(
        rf"%(?:{re.escape(one.name)}|{re.escape(other.name)})(?=: )",
        lambda found: f"%{other.name if found[0] == f'%{one.name}' else one.name}",
        signature,
    )
    return Changed(payload=_set_ir(call, head + start + swapped + end + body), written=written)


@_payload(Claim.NOT_FRESH, weight=2)
def misspell_store(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Replaces the stores by unknown operations."""
    text = call.kernel_call.kernel.ttir
    word = random.choice(_UNKNOWN_OPCODES)
    count = random.choice((1, -1))
    return Changed(payload=_set_ir(call, text.replace("tt.store ", f"{word} ", count)), is_unreadable=True)


@_payload(Claim.NOT_BETTER, weight=4)
def store_to_derived_pointer(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Makes a store go to an address that was an integer in between: it may hit any buffer."""
    text = call.kernel_call.kernel.ttir
    stores = [one for one in find_stores(text) if one.address and one.type]
    if not stores:
        return None
    one = random.choice(stores)
    integer = re.sub(r"!tt\.ptr<\w+>", "i64", one.type)
    lines = text.split("\n")
    extra = [f"%ld_a = tt.ptr_to_int {one.address} : {one.type} -> {integer}"]
    if random.random() < 0.5:
        extra.append(f"%ld_b = arith.addi %ld_a, %ld_a : {integer}")
        extra.append(f"%ld_c = arith.subi %ld_b, %ld_a : {integer}")
    source = "%ld_c" if len(extra) > 1 else "%ld_a"
    extra.append(f"%ld_d = tt.int_to_ptr {source} : {integer} -> {one.type}")
    lines[one.line] = "\n".join([*extra, lines[one.line].replace(one.address, "%ld_d", 1)])
    return Changed(payload=_set_ir(call, "\n".join(lines)), is_kept=True)


@_payload(Claim.NOT_BETTER, weight=3)
def store_by_foreign_code(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Replaces a store by a library call that gets its pointer, unchanged or as an integer."""
    text = call.kernel_call.kernel.ttir
    stores = [one for one in find_stores(text) if one.address and one.type]
    if not stores:
        return None
    one = random.choice(stores)
    integer = re.sub(r"!tt\.ptr<\w+>", "i64", one.type)
    pure = random.choice(("true", "false"))
    named = f'{{libname = "", libpath = "", pure = {pure}, symbol = "write"}}'
    given, type_ = one.address, one.type
    made = ""
    if random.random() < 0.5:
        made, given, type_ = f"%ld_a = tt.ptr_to_int {one.address} : {one.type} -> {integer}\n", "%ld_a", integer
    lines = text.split("\n")
    lines[one.line] = f"{made}%ld_e = tt.extern_elementwise {given} {named} : ({type_}) -> {integer}"
    return Changed(payload=_set_ir(call, "\n".join(lines)), is_kept=True)


@_payload(Claim.NOT_BETTER, weight=2)
def strip_attributes(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Removes everything from the IR that does not compute: alignment, locations, comments."""
    text = call.kernel_call.kernel.ttir
    if random.random() < 0.6:
        text = re.sub(r" \{tt\.divisibility = \d+ : i32\}", "", text)
    if random.random() < 0.6:
        text = re.sub(r"^#loc.*\n", "", re.sub(r" loc\((?:[^()]|\([^()]*\))*\)", "", text), flags=re.MULTILINE)
    if random.random() < 0.6:
        text = re.sub(r" +//.*$", "", text, flags=re.MULTILINE)
    if random.random() < 0.3:
        text = text.replace("\n", "\r\n")
    return Changed(payload=_set_ir(call, text), is_kept=True)


@_payload(Claim.NOT_FRESH, weight=3)
def cut_ir(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Cuts off the end or the beginning of the IR, or replaces it."""
    text = call.kernel_call.kernel.ttir
    body = text.rindex("tt.return")
    ir = random.choice(
        (text[: random.randrange(body)], text[text.index("module") + 3 :], "", "module {}", "garbage", "\0" * 40)
    )
    return Changed(payload=_set_ir(call, ir), is_unreadable=True)


@_payload(Claim.NOT_FRESH, weight=3)
def damage_bytes(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Cuts the compressed bytes off, or changes a few of them."""
    payload = bytearray(zlib.compress(call.SerializeToString(), random.choice((1, 6))))
    if random.random() < 0.5:
        del payload[random.randrange(len(payload)) :]
    else:
        for _ in range(random.choice((1, 3))):
            payload[random.randrange(len(payload))] ^= 1 << random.randrange(8)
    return Changed(payload=bytes(payload), is_unreadable=True)


@_payload(Claim.NOT_FRESH, weight=2)
def replace_bytes(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Replaces the payload by compressed nonsense, a bomb, or bytes that are not compressed."""
    plain = call.SerializeToString()
    payload = random.choice((
        plain, zlib.compress(plain[: random.randrange(1, len(plain) - 1)]), zlib.compress(random.randbytes(500)),
        zlib.compress(b""), zlib.compress(bytes(80 << 20), 1), zlib.compress(zlib.compress(plain)), random.randbytes(200),
    ))  # fmt: skip
    return Changed(payload=payload, is_unreadable=True)


@_payload(Claim.NOT_BETTER)
def append_bytes(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Adds bytes after the compressed ones, or fields of a later version inside."""
    if random.random() < 0.5:
        return Changed(payload=_pack(call) + random.randbytes(20), is_kept=True)
    return Changed(payload=zlib.compress(call.SerializeToString() + b"\xba\x3e\x05extra"), is_kept=True)


@_payload(Claim.NOT_FRESH, weight=2)
def misname_kernel(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Launches a function that the IR does not have, or has without a body."""
    kernel = call.kernel_call.kernel
    own = kernel.kernel_name
    kernel.kernel_name = random.choice(("other", "", own.upper(), f"{own} ", f"@{own}", "tt.store", own[:-1]))
    if random.random() < 0.4:
        signature = "(!tt.ptr<f32>, !tt.ptr<i32>, !tt.ptr<f32>, !tt.ptr<f32>)"
        kernel.ttir = kernel.ttir.replace("module {", f"module {{\n  tt.func private @other{signature}", 1)
    return Changed(payload=_pack(call), is_unreadable=True)


@_payload(Claim.NOT_FRESH, weight=2)
def change_parameters(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Passes another number of parameters, or other parameters."""
    parameters = call.kernel_call.parameters
    one = random.randrange(len(parameters))
    match random.randrange(4):
        case 0:
            del parameters[one]
        case 1:
            parameters.add().i32 = 7
        case 2:
            parameters[one].i64 = 1 << 62
        case _:
            parameters[one].Clear()
    return Changed(payload=_pack(call), is_unreadable=True)


@_payload(Claim.NOT_BETTER, weight=2)
def enlarge_launch(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Gives an impossibly large grid, or size to be zeroed."""
    huge = random.choice((0, (1 << 32) - 1, 1 << 20))
    call.kernel_call.grid_0 = huge
    call.kernel_call.grid_1 = random.choice((1, huge))
    if random.random() < 0.4:
        random.choice(call.kernel_call.parameters).array.bytes_to_zero = random.choice((1, (1 << 64) - 1))
    return Changed(payload=_pack(call), is_kept=True)


@_payload(Claim.NOT_BETTER, weight=2)
def autotune(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Makes the kernel one of several configurations; another one lacks a store, or everything."""
    made = TritonAnyKernelCall()
    configs = made.autotuned_kernel_call.configs
    configs.add().kernel_call.CopyFrom(call.kernel_call)
    for _ in range(random.choice((1, 3))):
        other = TritonAnyKernelCall()
        other.CopyFrom(call)
        if random.random() < 0.2:
            other.kernel_call.kernel.ttir = "module {}"
        else:
            drop_store(other, random)
        configs.add().kernel_call.CopyFrom(other.kernel_call)
    if random.random() < 0.5:
        configs.reverse()
    return Changed(payload=_pack(made), is_kept=True)


@_payload(None)
def flip_ir(call: TritonAnyKernelCall, random: Random) -> Changed | None:
    """Changes characters of the IR: the result is read or refused."""
    text = list(call.kernel_call.kernel.ttir)
    for _ in range(random.choice((1, 2, 8))):
        text[random.randrange(len(text))] = random.choice('%@!<>{}()",:=xi0129 \n\0')
    return Changed(payload=_set_ir(call, "".join(text)))
