"""Draws a program from a seed: the same seed gives the same program."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tools.fuzz.programs import (
    COLUMNS,
    CONSTRUCTS,
    DEPTH,
    DTYPES,
    FORMS,
    KERNELS,
    LAYOUTS,
    MODES,
    PARTIAL,
    REFS,
    SMOOTH,
    UNARY,
    ArrayKind,
    Body,
    RandomProgram,
    Step,
    Variable,
)


@dataclass(slots=True)
class BlockScope:
    """The values that a block can use."""

    own: list[Variable]
    """Values that it may overwrite."""
    passed: list[Variable] = field(default_factory=list[Variable])
    """Values of the caller, which only hidden writes of kernels overwrite."""
    around: list[Variable] = field(default_factory=list[Variable])
    """Values that it may only read."""
    hot: list[Variable] = field(default_factory=list[Variable])
    """Values that were overwritten."""
    depth: int = 0
    sharded: bool = False
    """Whether it is inside a `shard_map`."""
    batched: bool = False
    """Whether it is inside a `vmap`."""

    @property
    def readable(self) -> list[Variable]:
        return [*self.around, *self.passed, *self.own]


def draw_program(seed: int) -> RandomProgram:
    """Returns the program of this seed."""
    if seed >= REFS:
        from tools.fuzz.drawing_refs import draw_with_refs

        return draw_with_refs(seed)
    pick = random.Random(seed)
    devices = pick.choice((1, 1, 1, 1, 1, 2, 2, 4, 8))
    drawer = Drawer(pick, devices, kernels=pick.choice((0.08, 0.24)), hidden=pick.choice((0.4, 0.9)))
    narrow = ("bfloat16", "bfloat16", "float16", "float16", "float8_e4m3fn")
    dtypes = ("float32",) * 8 + (narrow if pick.random() < 0.5 else ())
    arguments = tuple(
        drawer.make(ArrayKind(pick.choice((16, 16, 8)), pick.choice(dtypes))) for _ in range(pick.choice((2, 3)))
    )
    donated = tuple(number for number in range(len(arguments)) if pick.random() < 0.15)
    layouts = tuple(pick.choice(LAYOUTS) if devices > 1 else "whole" for _ in arguments)
    scope = BlockScope(list(arguments))
    steps = drawer.draw_steps(scope, pick.randrange(5, 14))
    results = tuple(dict.fromkeys([*scope.hot[-3:], *scope.own[-3:]]))
    block = Body(parameters=arguments, steps=steps, results=results)
    scale = pick.choice((1, 1, 4))
    return RandomProgram(seed=seed, devices=devices, scale=scale, donated=donated, layouts=layouts, block=block)


class Drawer:
    """Draws steps and blocks. kernels: the fraction of steps that are kernels. hidden: the fraction of kernels with
    hidden writes."""

    def __init__(self, pick: random.Random, devices: int, *, kernels: float, hidden: float) -> None:
        self.pick, self.devices, self.kernels, self.hidden = pick, devices, kernels, hidden
        self.made = 0

    def make(self, kind: ArrayKind) -> Variable:
        self.made += 1
        return Variable(self.made, kind)

    def draw_steps(self, scope: BlockScope, count: int) -> tuple[Step, ...]:
        steps: list[Step] = []
        while len(steps) < count:
            step = self.draw_step(scope)
            if step is not None:
                steps.append(step)
                scope.own += step.outputs
        if not any(step.word in KERNELS or step.blocks for step in steps):
            steps.append(self.draw_kernel(scope))
            scope.own += steps[-1].outputs
        return tuple(steps)

    def choose(self, values: Sequence[Variable], hot: Sequence[Variable] = ()) -> Variable:
        warm = [value for value in hot if value in values]
        if warm and self.pick.random() < 0.4:
            return self.pick.choice(warm)
        return self.pick.choice(values[-5:] if self.pick.random() < 0.6 else values)

    def draw_step(self, scope: BlockScope) -> Step | None:
        if self.pick.random() < self.kernels:
            return self.draw_kernel(scope)
        kind = self.pick.uniform(0.24, 1)
        if kind < 0.40 and scope.depth < DEPTH:
            return self.draw_construct(scope)
        if kind < 0.46 and self.devices > 1 and not scope.batched:
            return self._draw_across(scope)
        if kind < 0.56:
            return self._draw_product(scope)
        if kind < 0.68:
            return self._draw_binary(scope)
        if kind < 0.78:
            return self._draw_other_kind(scope)
        return self.draw_unary(scope, UNARY)

    def number(self) -> int:
        return self.pick.randrange(100)

    def draw_unary(self, scope: BlockScope, words: Sequence[str]) -> Step:
        x = self.choose(scope.readable, scope.hot)
        word = self.pick.choice(words)
        return Step(word=word, inputs=(x,), outputs=(self.make(x.kind),), numbers=(self.number(),))

    def draw_kernel(self, scope: BlockScope) -> Step:
        word = "glow" if scope.batched else self.pick.choice(tuple(KERNELS))
        x = self.choose([*scope.passed, *scope.own], scope.hot)
        inputs = [x]
        if KERNELS[word] == 2:
            others = [
                v for v in (scope.own if word == "turn" else scope.readable) if v.kind.rows == x.kind.rows and v != x
            ]
            if others:
                inputs.append(self.choose(others, scope.hot))
            else:
                word = "bend"
        if word in ("add", "positive") and x.kind.dtype != "float32":
            word = "left"  # atomics need f32, and the sign would depend on rounding
        mode = "hidden" if self.pick.random() < self.hidden else self.pick.choice(MODES)
        if any(value in scope.passed for value in inputs):
            mode = "hidden"
        if mode == "out_of_place" and word in PARTIAL:
            mode = "aliased"
        written = inputs if word == "turn" else inputs[:1]
        for value in written:
            if value in scope.hot:
                scope.hot.remove(value)
            scope.hot.append(value)
        sums = self.make(ArrayKind(x.kind.rows, "float32"))
        return Step(word=word, inputs=tuple(inputs), outputs=(sums,), mode=mode)

    def _draw_product(self, scope: BlockScope) -> Step | None:
        readable = scope.readable
        square = [value for value in readable if value.kind.rows == COLUMNS]
        x = self.choose(readable, scope.hot)
        if self.pick.random() < 0.25:
            others = [value for value in readable if value.kind.rows == x.kind.rows]
            return Step(
                word="outer",
                inputs=(x, self.choose(others, scope.hot)),
                outputs=(self.make(ArrayKind(COLUMNS, "float32")),),
            )
        if not square:
            return None
        count = self.pick.choice((1, 1, 2))
        chosen = [self.choose(square, scope.hot) for _ in range(count)]
        factors = tuple(dict.fromkeys(chosen))
        outputs = tuple(self.make(ArrayKind(x.kind.rows, "float32")) for _ in factors)
        return Step(word="product", inputs=(x, *factors), outputs=outputs)

    def _draw_binary(self, scope: BlockScope) -> Step:
        x = self.choose(scope.readable, scope.hot)
        y = self.choose([value for value in scope.readable if value.kind.rows == x.kind.rows], scope.hot)
        dtype = x.kind.dtype if x.kind.dtype == y.kind.dtype else "float32"
        word = self.pick.choice(("sum", "sum", "multiply", "maximum", "select"))
        if word == "select" and (
            x == y or x.kind != y.kind
        ):  # the numbers of a value and itself, or its cast, are the same
            word = "sum"
        return Step(
            word=word, inputs=(x, y), outputs=(self.make(ArrayKind(x.kind.rows, dtype)),), numbers=(self.number(),)
        )

    def _draw_other_kind(self, scope: BlockScope) -> Step | None:
        x = self.choose(scope.readable, scope.hot)
        rows, dtype = x.kind.rows, x.kind.dtype
        words = ["cast"]
        words += ["top", "strided", "fold", "split"] if rows % 2 == 0 and rows > 2 else []
        words += ["join", "join"] if rows <= 16 else []
        words += ["transpose"] if rows == COLUMNS else []
        word = self.pick.choice(words)
        match word:
            case "cast":
                likely = DTYPES if self.pick.random() < 0.2 else DTYPES[:-1]
                others = [name for name in likely if name != dtype]
                return Step(word=word, inputs=(x,), outputs=(self.make(ArrayKind(rows, self.pick.choice(others))),))
            case "join":
                same = [value for value in scope.readable if value.kind == x.kind]
                other = self.choose(same, scope.hot)
                return Step(word=word, inputs=(x, other), outputs=(self.make(ArrayKind(rows * 2, dtype)),))
            case "transpose":
                return Step(word=word, inputs=(x,), outputs=(self.make(x.kind),))
            case _:
                count = 2 if word == "split" else 1
                outputs = tuple(self.make(ArrayKind(rows // 2, dtype)) for _ in range(count))
                return Step(word=word, inputs=(x,), outputs=outputs)

    def _draw_across(self, scope: BlockScope) -> Step | None:
        x = self.choose(scope.readable, scope.hot)
        rows, dtype = x.kind.rows, x.kind.dtype
        if not scope.sharded:
            if rows % self.devices:
                return None
            layout = self.pick.choice(LAYOUTS)
            return Step(
                word="annotate", inputs=(x,), outputs=(self.make(x.kind),), numbers=(self.number(),), mode=layout
            )
        words = ["psum", "permute"]
        words += ["gather"] if rows * self.devices <= 32 else []
        words += ["scatter"] if rows % self.devices == 0 else []
        word = self.pick.choice(words)
        after = {"gather": rows * self.devices, "scatter": rows // self.devices}.get(word, rows)
        return Step(word=word, inputs=(x,), outputs=(self.make(ArrayKind(after, dtype)),))

    def draw_construct(self, scope: BlockScope) -> Step | None:
        word = self.pick.choice(("scan", "map") if scope.batched else CONSTRUCTS)  # a batched branch takes both ways
        x = self.choose(scope.readable, scope.hot)
        numbers = (self.number(), self.number())
        match word:
            case "scan" | "map" | "vmap":
                y = self.choose(scope.readable, scope.hot)
                carry = (self.make(x.kind),) if word == "scan" else ()
                element = self.make(y.kind)
                kinds = tuple(v.kind for v in carry)
                block = self.draw_block(scope, (*carry, element), kinds=kinds, extra=1, batched=word == "vmap")
                last = block.results[-1].kind
                outputs = (*(self.make(v.kind) for v in carry), self.make(last))
                inputs = (x, y) if word == "scan" else (y,)
                return Step(word=word, inputs=inputs, outputs=outputs, numbers=numbers, blocks=(block,))
            case "while":
                block = self.draw_block(scope, (self.make(x.kind),), kinds=(x.kind,))
                return Step(word=word, inputs=(x,), outputs=(self.make(x.kind),), numbers=numbers, blocks=(block,))
            case "cond":
                y = self.choose(scope.readable, scope.hot)
                blocks = tuple(
                    self.draw_block(scope, (self.make(x.kind), self.make(y.kind)), kinds=(x.kind,)) for _ in range(2)
                )
                return Step(word=word, inputs=(x, y), outputs=(self.make(x.kind),), numbers=numbers, blocks=blocks)
            case "call":
                owned = [*scope.passed, *scope.own]
                count = min(len(owned), self.pick.choice((1, 2)))
                inputs = tuple(self.pick.sample(owned, count))
                parameters = tuple(self.make(v.kind) for v in inputs)
                block = self.draw_block(scope, parameters, passed=True, extra=1, hidden=inputs)
                outputs = tuple(self.make(v.kind) for v in block.results)
                overwritten = {step.inputs[0] for step in block.steps if step.word in KERNELS}
                scope.hot += [x for x, inner in zip(inputs, block.parameters, strict=True) if inner in overwritten]
                return Step(word=word, inputs=inputs, outputs=outputs, blocks=(block,), numbers=numbers)
            case "gradient":
                return self.draw_gradient(scope, x)
            case _:
                return self._draw_shard_map(scope, x, numbers)

    def draw_block(
        self,
        scope: BlockScope,
        parameters: tuple[Variable, ...],
        *,
        kinds: tuple[ArrayKind, ...] = (),
        extra: int = 0,
        passed: bool = False,
        alone: bool = False,
        batched: bool = False,
        hidden: tuple[Variable, ...] = (),
    ) -> Body:
        """Returns a block whose results have these kinds, followed by `extra` results of any kind.

        hidden: values around the block that it does not read.
        """
        around = [v for v in scope.readable if self.pick.random() < 0.4 and not alone and v not in hidden]
        inner = BlockScope(
            own=[] if passed else list(parameters),
            passed=list(parameters) if passed else [],
            around=around,
            depth=scope.depth + 1,
            sharded=scope.sharded or alone,
            batched=scope.batched or batched,
        )
        steps = list(self.draw_steps(inner, self.pick.randrange(1, 5)))
        results: list[Variable] = []
        for kind in kinds:
            fitting = [value for value in (*inner.passed, *inner.own) if value.kind == kind]
            results.append(self.choose(fitting[-2:], inner.hot))
        results += [self.choose(inner.own[-2:] or inner.passed, inner.hot) for _ in range(extra)]
        return Body(parameters=parameters, steps=tuple(steps), results=tuple(results))

    def draw_gradient(self, scope: BlockScope, x: Variable) -> Step:
        """Returns a step with the gradient by x of a loss whose kernel overwrites its operand."""
        parameter = self.make(x.kind)
        around = [value for value in scope.readable if value.kind.rows == COLUMNS]
        value, steps = parameter, list[Step]()
        for _ in range(self.pick.randrange(1, 5)):
            if around and self.pick.random() < 0.35:
                factor = self.choose(around, scope.hot)
                output = self.make(ArrayKind(value.kind.rows, "float32"))
                steps.append(Step(word="product", inputs=(value, factor), outputs=(output,)))
            elif self.pick.random() < 0.2:
                output = self.make(value.kind)
                steps.append(Step(word="squash", inputs=(value,), outputs=(output,)))
            else:
                output = self.make(value.kind)
                word = self.pick.choice(SMOOTH)
                steps.append(Step(word=word, inputs=(value,), outputs=(output,), numbers=(self.number(),)))
            value = output
        beside = self.make(value.kind)
        reader = Step(word="scale", inputs=(value,), outputs=(beside,), numbers=(self.number(),))
        loss = Step(word="loss", inputs=(value,), mode=self.pick.choice(FORMS))
        when = self.pick.choice(("none", "before", "after"))
        steps += {"none": [loss], "before": [reader, loss], "after": [loss, reader]}[when]
        results = () if when == "none" else (beside,)
        block = Body(parameters=(parameter,), steps=tuple(steps), results=results)
        outputs = (self.make(x.kind), *(self.make(v.kind) for v in results))
        mode = self.pick.choice(("plain", "plain", "checkpoint"))
        return Step(word="gradient", inputs=(x,), outputs=outputs, blocks=(block,), mode=mode)

    def _draw_shard_map(self, scope: BlockScope, x: Variable, numbers: tuple[int, ...]) -> Step | None:
        if self.devices == 1 or scope.sharded or scope.depth or x.kind.rows % self.devices:
            return None
        y = self.choose(scope.readable, scope.hot)
        whole = self.choose(scope.readable, scope.hot)
        if y.kind.rows % self.devices:
            y = x
        local = tuple(ArrayKind(v.kind.rows // self.devices, v.kind.dtype) for v in (x, y))
        parameters = (*(self.make(kind) for kind in local), self.make(whole.kind))
        block = self.draw_block(scope, parameters, kinds=(local[0],), extra=1, alone=True)
        block = replace(block, results=tuple(dict.fromkeys(block.results)))  # XLA would merge equal results
        outputs = tuple(self.make(ArrayKind(v.kind.rows * self.devices, v.kind.dtype)) for v in block.results)
        return Step(word="shard_map", inputs=(x, y, whole), outputs=outputs, blocks=(block,), numbers=numbers)
