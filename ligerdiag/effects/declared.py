"""Parses the user's declarations of the operands that custom calls write, and applies them to calls whose effects are
unknown.

```toml
[tool.ligerdiag.effects.my_ffi_target]
writes = [0]  # numbers of the operands that the call overwrites
reads = [1, 2]  # optional; all operands if missing

[tool.ligerdiag.effects."my_library_*"]
writes = "aliased"  # only operands that an output of the call aliases
```

The name after `effects.` is the name of a custom call's target or of its kernel. If both are declared, the kernel's
declaration applies. If neither is declared, the first declaration applies whose pattern (`*`, `?`) matches the target; a
pattern must have `writes = "aliased"`.

A declaration decides the effects on an operand only where they are UNKNOWN. Known effects stay, and a declaration that
contradicts them is reported. A declared write implies neither that every element is overwritten nor that the old
contents do not matter. The outputs of a declared call count as written.

`"aliased"` trusts what the call itself tells XLA. It applies to library calls without side effects, never to a kernel
whose code could not be analysed, nor to a callback that receives the operands' own buffers.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import cast

from ligerdiag.effects.access import Access, CallEffects, OperandUse, WriteCoverage, compute_plain_use
from ligerdiag.errors import InputError
from ligerdiag.model.jobs import CaseSpec

KEYS = ("writes", "reads")
ALIASED = "aliased"
_ONLY_DECLARED = "was not analysed: its effects are those that you declared"
NOT_TRUSTED = f'`writes = "{ALIASED}"` is declared, but not trusted'
_REMEDY = "writes under [tool.ligerdiag.effects]"
"""Text in a reason for UNKNOWN effects that asks the user for a declaration."""
_NO_CALL = "the program does not contain the call"
LARGEST = 10_000
"""The largest operand number that a declaration may name; a larger one is taken for a typing error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredEffects:
    """The effects on operands that the user declares for one custom-call target or kernel."""

    name: str
    """Name of the custom-call target or of the kernel, or a pattern of targets."""
    writes: frozenset[int] | None
    """Numbers of the operands that the call may overwrite; it overwrites no others. None for `"aliased"`: the operands
    that an output aliases.
    """
    reads: frozenset[int] | None = None
    """Numbers of the operands that the call may read; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A contradiction between the user's declaration and the known effects of a call, about one operand."""

    target: str
    """The name in the declaration: a target, a kernel or a pattern."""
    kernel: str
    """Name of the call's kernel; its target if the kernel has no name."""
    operand: int
    declared: Access
    """The declared access to the operand."""
    found: Access
    """The access according to the call's own IR or the table of known targets; NONE if the call has no operand with
    this number.
    """


def parse_declarations(
    raw: Mapping[str, object], *, place: str = "[tool.ligerdiag.effects.{}]"
) -> tuple[DeclaredEffects, ...]:
    """Returns the declarations in the table `[tool.ligerdiag.effects]`, as a TOML or JSON parser gives it.

    place: how messages name the table; `{}` in it is the name of the target or kernel. Raises InputError if the table is
    malformed.
    """
    return tuple(_parse_declaration(name, value, place.replace("{}", name)) for name, value in raw.items())


def parse_declared(case: CaseSpec) -> tuple[DeclaredEffects, ...]:
    """Returns the declarations of a case about its custom calls, from the field `effects` of the case. Raises InputError if
    they are malformed.
    """
    return parse_declarations(case.effects, place=f"`effects` of case `{case.id}` for `{{}}`")


def _parse_declaration(name: str, value: object, where: str) -> DeclaredEffects:
    if not name:
        raise InputError("expected the name of a custom-call target or kernel in [tool.ligerdiag.effects] but got ''")
    if not isinstance(value, Mapping):
        raise InputError(f"expected a table such as {{ writes = [0] }} for {where} but got {value!r:.60}")
    fields = cast(Mapping[str, object], value)
    for key in fields:
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, 1)
            hint = f", did you mean `{near[0]}`" if near else ""
            raise InputError(f"expected `writes` or `reads` in {where} but got `{key}`{hint}")
    if "writes" not in fields:
        raise InputError(
            f"expected `writes` in {where}: the numbers of the operands that the call overwrites, [] for none"
        )
    is_trusted = fields["writes"] == ALIASED
    if not is_trusted and _is_pattern(name):
        raise InputError(
            f'expected `writes = "{ALIASED}"` in {where}: a pattern may match calls with different operands'
        )
    return DeclaredEffects(
        name=name,
        writes=None if is_trusted else _parse_numbers(where, "writes", fields["writes"]),
        reads=_parse_numbers(where, "reads", fields["reads"]) if "reads" in fields else None,
    )


def _parse_numbers(where: str, key: str, value: object) -> frozenset[int]:
    if not isinstance(value, list | tuple):
        raise InputError(
            f"expected a list of operand numbers{_describe_other(key)} for `{key}` in {where} but got {value!r:.60}"
        )
    numbers: list[int] = []
    for item in cast(Sequence[object], value):
        if type(item) is not int or not 0 <= item <= LARGEST:
            raise InputError(f"expected operand numbers from 0 on for `{key}` in {where} but got {item!r:.60}")
        numbers.append(item)
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    if twice:
        raise InputError(f"expected each operand number only once for `{key}` in {where} but got {twice[0]} twice")
    return frozenset(numbers)


def _describe_other(key: str) -> str:
    return f' or "{ALIASED}"' if key == "writes" else ""


def _is_pattern(name: str) -> bool:
    return any(letter in name for letter in "*?[")


def find_declaration(declarations: Sequence[DeclaredEffects], *, target: str, kernel: str) -> DeclaredEffects | None:
    """Returns the declaration that applies to a call of `target` with the kernel `kernel`. Returns None if none applies.

    A declaration of the kernel's name has precedence over a declaration of the target, and both have precedence over a
    pattern.
    """
    by_name = {declaration.name: declaration for declaration in declarations}
    patterns = (one for one in declarations if _is_pattern(one.name) and fnmatchcase(target, one.name))
    return by_name.get(kernel) or by_name.get(target) or next(patterns, None)


def apply_declarations(
    effects: CallEffects,
    *,
    target: str,
    declarations: Sequence[DeclaredEffects],
    aliased: frozenset[int] | None = None,
    untrusted: str = "",
) -> tuple[CallEffects, tuple[Contradiction, ...]]:
    """Replaces the UNKNOWN effects of a call by declared ones. Returns the new effects, and the contradictions between the
    declaration and the known effects.

    target: the call's target. aliased: the operands that an output of the call aliases; None if a declaration `"aliased"`
    does not apply to this call. untrusted: why it does not apply.
    """
    declared = find_declaration(declarations, target=target, kernel=effects.kernel)
    if declared is None:
        return effects, ()
    if declared.writes is None:
        if Access.UNKNOWN not in effects.operands:
            return effects, ()
        if aliased is None:
            known = [reason for reason in effects.reasons if _REMEDY not in reason]
            return replace(effects, reasons=(f"{NOT_TRUSTED}: {untrusted or _NO_CALL}", *known)), ()
        declared = replace(declared, writes=aliased)
    count = len(effects.operands)
    named = (declared.writes or frozenset()) | (declared.reads or frozenset())
    contradictions = [
        _contradict(declared, effects, number, Access.NONE) for number in sorted(named) if number >= count
    ]
    # The declaration names operands that this call lacks, so it is for another call: only its writes count here.
    is_for_another_call = bool(contradictions)
    operands = list(effects.operands)
    uses = list(effects.operand_uses)
    for number, found in enumerate(effects.operands):
        stated = _get_declared(declared, number)
        if found is Access.UNKNOWN and is_for_another_call and not stated.writes:
            continue
        if found is Access.UNKNOWN:
            operands[number] = stated
            uses[number] = compute_plain_use(stated, f"`{declared.name}` {_ONLY_DECLARED}")
        elif _contradicts(declared, stated, found, uses[number]):
            contradictions.append(_contradict(declared, effects, number, found))
    outputs = tuple(Access.WRITE if output is Access.UNKNOWN else output for output in effects.outputs)
    output_uses = tuple(
        compute_plain_use(now, use.reason) if before is Access.UNKNOWN else use
        for now, before, use in zip(outputs, effects.outputs, effects.output_uses, strict=True)
    )
    return (
        replace(
            effects,
            operands=tuple(operands),
            outputs=outputs,
            operand_uses=tuple(uses),
            output_uses=output_uses,
            reasons=() if Access.UNKNOWN not in (*operands, *outputs) else effects.reasons,
        ),
        tuple(sorted(contradictions, key=lambda contradiction: contradiction.operand)),
    )


def _contradict(declared: DeclaredEffects, effects: CallEffects, number: int, found: Access) -> Contradiction:
    stated = _get_declared(declared, number)
    return Contradiction(target=declared.name, kernel=effects.kernel, operand=number, declared=stated, found=found)


def is_declared(use: OperandUse) -> bool:
    """Returns whether only the user's declaration says how the call uses an operand."""
    return use.reason.endswith(_ONLY_DECLARED)


def _get_declared(declared: DeclaredEffects, number: int) -> Access:
    reads = declared.reads is None or number in declared.reads
    access = Access.READ if reads else Access.NONE
    return access.cover(Access.WRITE) if number in (declared.writes or ()) else access


def _contradicts(declared: DeclaredEffects, stated: Access, found: Access, use: OperandUse) -> bool:
    """Returns whether a declaration contradicts the access found for one operand: a write is undeclared, or declared
    but absent, or a read is missing from a declaration that lists reads. stated, found: the declared and the found
    access.
    """
    if stated.writes != found.writes:
        return stated.writes or use.coverage is not WriteCoverage.NONE
    return declared.reads is not None and found.reads and not stated.reads
