"""Draws a nesting from its seed, and writes it as a case file that needs no other file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

FORMS = Path(__file__).with_name("forms.py")
_MODES = ("value", "grad", "grad", "grad", "vjp", "jvp", "linearize", "hvp")
_POLICIES = (
    "None",
    "POLICIES.everything_saveable",
    "POLICIES.nothing_saveable",
    "POLICIES.dots_saveable",
    "POLICIES.checkpoint_dots",
    "POLICIES.dots_with_no_batch_dims_saveable",
    "POLICIES.checkpoint_dots_with_no_batch_dims",
    "POLICIES.save_any_names_but_these('y')",
    "POLICIES.save_only_these_names('y')",
    "POLICIES.save_anything_except_these_names('y')",
    "POLICIES.save_from_both_policies(POLICIES.dots_saveable, POLICIES.save_only_these_names('y'))",
)
_WRITTEN = ("(0, 1)", "(1, 0)", "('p_ptr', 'm_ptr')", "['m_ptr', 0]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The surroundings of the place in the nesting that is drawn next."""

    order: int
    """How often it is differentiated."""
    forward: bool
    """It is differentiated in forward mode, or more than once: its functions have a rule for tangents."""
    reverse: bool
    """It is differentiated in reverse mode."""
    batched: bool = False
    sharded: bool = False
    mesh: bool
    refs: bool
    """A Ref that a kernel writes is possible here."""
    plain_refs: bool = True
    """JAX accepts a Ref that no kernel writes."""


def draw_line(seed: int, *, refs: bool) -> str:
    """Returns the expression that makes the case. refs: whether jax-triton takes Refs."""
    random = Random(seed)
    mode = random.choice(_MODES)
    mesh = random.random() < 0.25
    around = Surroundings(
        order={"value": 0, "hvp": 2}.get(mode, 1),
        forward=mode in ("jvp", "linearize", "hvp"),
        reverse=mode in ("grad", "vjp", "hvp"),
        mesh=mesh,
        refs=refs and mode == "value",
    )
    nesting = _draw(random, random.randint(2, 5), around)
    if mesh and "t.shard(" not in nesting:
        nesting = f"t.shard({_draw(random, 2, replace(around, sharded=True, refs=False))})"
    options = f", sharded={mesh}, donated={random.random() < 0.25}"
    return f"make_case({seed}, lambda t: {nesting}, {mode!r}{options})"


def write_program(seeds: Sequence[int], *, refs: bool) -> str:
    """Returns the text of a case file with a program for each seed."""
    lines = "".join(f"    {draw_line(seed, refs=refs)},\n" for seed in seeds)
    return f"{FORMS.read_text(encoding='utf-8')}\n\nCASES = (\n{lines})\n"


def _draw(random: Random, depth: int, around: Surroundings) -> str:
    if depth <= 0:
        return _draw_leaf(random, around)
    name = random.choice(_list_choices(around))
    inside = _enter(name, around)
    children = [_draw(random, depth - 1, inside)]
    if name in ("cond", "switch", "chain", "both"):
        children += [_draw(random, random.randint(0, 1), inside) for _ in range(2 if name == "switch" else 1)]
    return f"t.{name}({', '.join(children)}{_draw_options(random, name)})"


def _list_choices(around: Surroundings) -> list[str]:
    if around.order > 1:  # JAX loses a custom_jvp when it differentiates a construct again
        return ["chain", "both", "jvp"] + ([] if around.sharded else ["product"]) + ([] if around.batched else ["vmap"])
    names = ["jit", "checkpoint", "checkpoint", "checkpoint", "scan", "scan", "fori", "cond", "switch"]
    names += ["chain", "both", "jvp", "linearize", "grad"]
    names += [] if around.reverse else ["loop", "loop"]
    names += [] if around.forward else ["vjp", "vjp"]
    names += [] if around.batched else ["vmap"]
    names += [] if around.sharded else ["product"]
    names += ["shard"] * 4 if around.mesh and not (around.sharded or around.batched) else []
    return names


def _enter(name: str, around: Surroundings) -> Surroundings:
    match name:
        case "jit" | "cond" | "switch" | "chain" | "both" | "product":
            return around
        case "vmap":
            return replace(around, batched=True, refs=False)
        case "shard":
            return replace(around, sharded=True, refs=False)
        case "jvp":
            return replace(around, forward=True, refs=False, plain_refs=False)
        case "linearize":
            return replace(around, order=around.order + 1, forward=True, refs=False, plain_refs=False)
        case "grad":
            order = around.order + 1
            return replace(around, order=order, forward=order > 1, reverse=True, refs=False, plain_refs=False)
        case "vjp":
            return replace(around, reverse=True, refs=False, plain_refs=False)
        case _:
            return replace(around, refs=False)


def _draw_options(random: Random, name: str) -> str:
    match name:
        case "jit":
            return random.choice(("", "", ", inline=True", ", donate_argnums=(0,)"))
        case "checkpoint":
            return f", policy={random.choice(_POLICIES)}" + random.choice(("", "", ", prevent_cse=False"))
        case "scan":
            return random.choice(("", "", ", unroll=3", ", reverse=True", ", _split_transpose=True"))
        case "vmap":
            return random.choice((", both=True", ", both=False"))
        case "shard":
            return random.choice(("", ", check_vma=False"))
        case _:
            return ""


def _draw_leaf(random: Random, around: Surroundings) -> str:
    names = ["sine", "circle"] * 2 + (["ref"] if around.plain_refs else [])
    names += [] if around.forward else ["square", "momentum"] * 3
    name = random.choice(names)
    batched = f"batched={around.batched}"
    match name:
        case "sine":
            return f"t.sine({batched}, by_ref={around.refs and random.random() < 0.5})"
        case "circle":
            return f"t.circle({batched}, same={random.random() < 0.5})"
        case "square":
            return f"t.square({batched}, scales={random.random() < 0.5})"
        case "momentum":
            return f"t.momentum({batched}, written={random.choice(_WRITTEN)})"
        case _:
            return "t.ref()"
