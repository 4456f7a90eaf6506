"""Draws programs in the style of jax-triton 0.4 and later, from seeds from `REFS` on.

Their kernels get Refs, which are frozen or read, or are called with `call_in_place`; some have hidden writes. Of three
seeds one gives a derivative around a kernel (`custom_vjp` under `value_and_grad`), one a loop or a `jax.checkpoint`
around a kernel (a differentiated `scan`, a Ref that a loop overwrites, a recomputed forward pass), and the third any
program.

Differentiated code calls kernels in four ways: a loss whose kernel writes the gradient, a backward pass whose kernel
overwrites the cotangent, a layer that continues with the overwritten value, and a call whose operand does not depend on
the variable of the derivative.
"""

import random
from collections.abc import Callable, Sequence

from tools.fuzz.drawing import BlockScope, Drawer
from tools.fuzz.programs import (
    COLUMNS,
    FORMS,
    KINDS,
    LAYOUTS,
    PALLAS,
    PARTIAL,
    POLICIES,
    REF_MODES,
    SMOOTH,
    ZEROS,
    ArrayKind,
    Body,
    RandomProgram,
    Step,
    Variable,
    find_kind,
)

DIFFERENTIATED, REPEATED, _ANY = KINDS
_LAYERS = ("bend", "left", "upper")
_DECLARED = (*REF_MODES, "aliased", "out_of_place")
_WITHOUT_REF = ("in_place", "aliased", "out_of_place")
"""Modes of a kernel that is differentiated without its own rule: JAX would differentiate a call with a Ref."""


def draw_with_refs(seed: int) -> RandomProgram:
    """Returns the program of this seed."""
    pick, due = random.Random(seed), find_kind(seed)
    devices = pick.choice((1, 1, 1, 1, 1, 1, 2, 4))
    drawer = _RefDrawer(pick, devices, kernels=pick.choice((0.15, 0.3)), hidden=pick.choice((0.1, 0.4, 0.8)))
    dtypes = ("float32",) * 8 + (("bfloat16", "float16") if pick.random() < 0.3 else ())
    arguments = tuple(
        drawer.make(ArrayKind(pick.choice((16, 16, 8)), pick.choice(dtypes))) for _ in range(pick.choice((2, 3)))
    )
    donated = tuple(number for number in range(len(arguments)) if pick.random() < 0.15)
    layouts = tuple(pick.choice(LAYOUTS) if devices > 1 else "whole" for _ in arguments)
    scope = BlockScope(list(arguments))
    steps = list(drawer.draw_steps(scope, pick.randrange(1, 4)))
    if due in (DIFFERENTIATED, REPEATED):
        steps.append(drawer.draw_required_step(scope, due))
        scope.own += steps[-1].outputs
    steps += drawer.draw_steps(scope, pick.randrange(1, 5))
    results = tuple(dict.fromkeys([*scope.hot[-3:], *scope.own[-4:]]))
    block = Body(parameters=arguments, steps=tuple(steps), results=results)
    return RandomProgram(
        seed=seed, devices=devices, scale=pick.choice((1, 1, 1, 4)), donated=donated, layouts=layouts, block=block
    )


class _RefDrawer(Drawer):
    _in_descent = False
    """Whether a differentiated loop is being drawn: JAX takes a Ref of zeros out of it, and fails."""

    def draw_required_step(self, scope: BlockScope, due: str) -> Step:
        x = self.choose(scope.readable, scope.hot)
        ways: Sequence[Callable[[], Step]] = (
            lambda: self.draw_gradient(scope, x, policies=tuple(POLICIES)[1:] if due == REPEATED else ("plain",)),
            lambda: self._draw_descent(scope, x),
            *([lambda: self._draw_ref_loop(scope, x)] if due == REPEATED else []),
        )
        return self.pick.choice(ways)()

    def draw_kernel(self, scope: BlockScope) -> Step:
        step = super().draw_kernel(scope)
        if step.mode == "hidden" or step.word in PALLAS or self.pick.random() < 0.2:
            return step
        return Step(
            word=step.word, inputs=step.inputs, outputs=step.outputs, mode=self._vary(self.pick.choice(REF_MODES))
        )

    def draw_construct(self, scope: BlockScope) -> Step | None:
        chance = self.pick.random()
        if chance < 0.25 and not scope.batched:
            x = self.choose(scope.readable, scope.hot)
            return self._draw_descent(scope, x) if chance < 0.15 else self._draw_ref_loop(scope, x)
        return super().draw_construct(scope)

    def draw_gradient(self, scope: BlockScope, x: Variable, policies: Sequence[str] = ("plain", *POLICIES)) -> Step:
        """Returns a step with the gradient by x of a chain with one or two kernels and, usually, a loss."""
        parameter = self.make(x.kind)
        steps, value = self._draw_chain(scope, parameter, self.pick.randrange(1, 5))
        copy = self.make(value.kind)
        steps.append(Step(word="scale", inputs=(value,), outputs=(copy,), numbers=(self.number(),)))
        has_layer = any(step.word in ("layer", "squash") for step in steps)
        if not has_layer or self.pick.random() < 0.7:
            steps.append(Step(word="loss", inputs=(copy,), mode=f"{self.pick.choice(FORMS)}:{self._draw_mode()}"))
        block = Body(parameters=(parameter,), steps=(*steps, *self._draw_rest(value)), results=(value,))
        outputs = (self.make(x.kind), self.make(value.kind))
        return Step(word="gradient", inputs=(x,), outputs=outputs, blocks=(block,), mode=self.pick.choice(policies))

    def _draw_descent(self, scope: BlockScope, x: Variable) -> Step:
        """Returns a step with a scan that is differentiated by its first state; its body adds an element of a stack."""
        y = self.choose([value for value in scope.readable if value.kind.rows == x.kind.rows], scope.hot)
        state, element = self.make(x.kind), self.make(y.kind)
        dtype = x.kind.dtype if x.kind.dtype == y.kind.dtype else "float32"
        joined = self.make(ArrayKind(x.kind.rows, dtype))
        word = self.pick.choice(("sum", "multiply"))
        steps = [Step(word=word, inputs=(state, element), outputs=(joined,), numbers=(self.number(),))]
        self._in_descent = True
        more, value = self._draw_chain(scope, joined, self.pick.randrange(1, 4), must_call=True)
        self._in_descent = False
        steps += more
        if value.kind != x.kind:
            cast = self.make(x.kind)
            steps.append(Step(word="cast", inputs=(value,), outputs=(cast,)))
            value = cast
        block = Body(parameters=(state, element), steps=(*steps, *self._draw_rest(value)), results=(value,))
        return Step(
            word="descent",
            inputs=(x, y),
            outputs=(self.make(x.kind), self.make(x.kind)),
            numbers=(self.number(), self.number()),
            blocks=(block,),
            mode=self.pick.choice(("plain", *POLICIES)),
        )

    def _draw_chain(
        self, scope: BlockScope, value: Variable, count: int, *, must_call: bool = False
    ) -> tuple[list[Step], Variable]:
        """Returns steps from one value to the next, all of them differentiated, and the last value."""
        steps: list[Step] = []
        square = [one for one in scope.readable if one.kind.rows == COLUMNS]
        for number in range(count):
            chance = self.pick.random()
            if must_call and number == count - 1 and not any(step.word in ("layer", "squash") for step in steps):
                chance = 0.3
            if chance < 0.2 and square:
                output = self.make(ArrayKind(value.kind.rows, "float32"))
                steps.append(Step(word="product", inputs=(value, self.choose(square, scope.hot)), outputs=(output,)))
            elif chance < 0.45:
                output = self.make(value.kind)
                mode = f"{self.pick.choice(_LAYERS)}:{self._draw_declared()}"
                steps.append(Step(word="layer", inputs=(value,), outputs=(output,), mode=mode))
            elif chance < 0.6:
                output = self.make(value.kind)
                steps.append(Step(word="squash", inputs=(value,), outputs=(output,), mode=self._draw_mode()))
            elif chance < 0.75:
                beside, output = self._draw_beside(scope, value)
                steps += beside
            else:
                output = self.make(value.kind)
                word = self.pick.choice(SMOOTH)
                steps.append(Step(word=word, inputs=(value,), outputs=(output,), numbers=(self.number(),)))
            value = output
        return steps, value

    def _draw_beside(self, scope: BlockScope, value: Variable) -> tuple[list[Step], Variable]:
        """Returns steps with a kernel on a value from around the chain, and the chain's value times the overwritten
        one."""
        fitting = [one for one in scope.readable if one.kind.rows == value.kind.rows]
        if not fitting:
            output = self.make(value.kind)
            return [Step(word="tanh", inputs=(value,), outputs=(output,), numbers=(self.number(),))], output
        other = self.choose(fitting, scope.hot)
        copy, sums = self.make(other.kind), self.make(ArrayKind(other.kind.rows, "float32"))
        dtype = value.kind.dtype if value.kind.dtype == other.kind.dtype else "float32"
        output = self.make(ArrayKind(value.kind.rows, dtype))
        word, mode = self.pick.choice(_LAYERS), self._draw_mode(_WITHOUT_REF)
        if mode == "out_of_place" and word in PARTIAL:
            mode = "aliased"
        return [
            Step(word="scale", inputs=(other,), outputs=(copy,), numbers=(self.number(),)),
            Step(word=word, inputs=(copy,), outputs=(sums,), mode=mode),
            Step(word="multiply", inputs=(value, copy), outputs=(output,), numbers=(self.number(),)),
        ], output

    def _draw_rest(self, value: Variable) -> Sequence[Step]:
        """Returns, for some blocks, a reader of the last value whose result only the loss needs."""
        if self.pick.random() < 0.6:
            return ()
        return (Step(word="weigh", inputs=(value,), numbers=(self.number(),)),)

    def _draw_ref_loop(self, scope: BlockScope, x: Variable) -> Step:
        y = self.choose(scope.readable, scope.hot)
        before, after, element = self.make(x.kind), self.make(x.kind), self.make(y.kind)
        block = self.draw_block(scope, (before, after, element), extra=1)
        return Step(
            word="ref_loop",
            inputs=(x, y),
            outputs=(self.make(x.kind), self.make(block.results[-1].kind)),
            numbers=(self.number(), self.number()),
            blocks=(block,),
            mode=self.pick.choice(_LAYERS),
        )

    def _draw_mode(self, declared: Sequence[str] = _DECLARED) -> str:
        return "hidden" if self.pick.random() < self.hidden else self._vary(self.pick.choice(declared))

    def _draw_declared(self) -> str:
        return self._vary(self.pick.choice(tuple(mode for mode in _DECLARED if mode != "out_of_place")))

    def _vary(self, mode: str) -> str:
        return ZEROS if mode == "ref" and self.made % 3 == 0 and not self._in_descent else mode
