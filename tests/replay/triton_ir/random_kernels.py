"""Random kernels: a few arithmetic steps on blocks in f32 and integers, masks, loops, branches, reductions.

`write_kernels` writes their source into one file; each is a function `kernel_N` with the same parameters:

    x, y: f32[rows * BLOCK]; k, l: i32[rows * BLOCK]; o: f32[2 * rows * BLOCK]; p: i32[rows * BLOCK]; n; BLOCK

Every value is a block, or a scalar that depends on the program. Triton's own interpreter is right on all steps: there
is no bf16 arithmetic, no division by zero, no shift by the width or more, and no NaN in a minimum or maximum.
"""

import random
from pathlib import Path
from typing import Any

import numpy as np

from tests.replay.triton_ir.oracle import Launch

BLOCK = 32
_HEAD = '''"""Drawn at random; see `random_kernels`."""

import triton
import triton.language as tl

'''


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.floats = ["a", "b"]
        self.integers = ["i", "c", "d"]
        self.number = 0
        self.depth = 1
        self.stores = 0

    def say(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def name(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}{self.number}"

    def pick_float(self) -> str:
        return self.random.choice([*self.floats, *self.floats[-2:], f"{self.random.uniform(-2, 2):.3f}"])

    def pick_integer(self) -> str:
        return self.random.choice([*self.integers, *self.integers[-2:], str(self.random.randint(-20, 20)), "pid", "n"])

    def pick_truth(self) -> str:
        comparison = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        if self.random.random() < 0.5:
            return f"({self.random.choice(self.floats)} {comparison} {self.pick_float()})"
        one = f"({self.random.choice(self.integers)} {comparison} {self.pick_integer()})"
        return f"({one} {self.random.choice('&|^')} (i < {self.random.randint(1, BLOCK)}))" if self.depth == 1 else one

    def make_float(self) -> str:
        a, b = self.random.choice(self.floats), self.pick_float()
        return self.random.choice(
            [
                f"{a} + {b}",
                f"{a} - {b}",
                f"{a} * {b}",
                f"{a} / (tl.abs({a}) + 1.5)",
                f"tl.where({self.pick_truth()}, {a}, {b})",
                f"tl.exp2(-tl.abs({a}))",
                f"tl.sin({a})",
                f"tl.sqrt(tl.abs({a}))",
                f"tl.log(tl.abs({a}) + 1)",
                f"tl.floor({a})",
                f"tl.maximum({a}, {b})",
                f"tl.minimum({a}, {b})",
                f"{a}.to(tl.float16).to(tl.float32)",
                f"{self.random.choice(self.integers)}.to(tl.float32) * 0.001",
                f"{a} - tl.sum({a}) * 0.01",
                f"{a} - tl.max({a})",
                f"tl.cumsum({a}, 0) * 0.1",
                f"tl.sum(tl.reshape({a}, (4, 8)), 1)[:, None].broadcast_to((4, 8)).reshape((BLOCK,))"
                if self.random.random() < 0.3
                else f"tl.reshape(tl.trans(tl.reshape({a}, (4, 8))), (BLOCK,))",
                f"tl.flip({a}, 0)" if self.random.random() < 0.2 else f"-{a}",
            ]
        )

    def make_integer(self) -> str:
        a, b = self.random.choice(self.integers), self.pick_integer()
        return self.random.choice(
            [
                f"{a} + {b}",
                f"{a} - {b}",
                f"{a} * {b}",
                f"{a} & {b}",
                f"{a} | {b}",
                f"{a} ^ {b}",
                f"{a} // {self.random.choice([3, 7, 16])}",
                f"{a} % {self.random.choice([3, 7, 16])}",
                f"{a} >> {self.random.randint(0, 9)}",
                f"{a} << {self.random.randint(0, 9)}",
                f"tl.where({self.pick_truth()}, {a}, {b})",
                f"tl.maximum({a}, {b})",
                f"({a} & 1023).to(tl.int64).to(tl.int32)",
                f"{a}.to(tl.int8).to(tl.int32)",
                f"{self.pick_truth()}.to(tl.int32) + {a}",
                f"tl.sum({a}) + {a}",
                f"tl.cumsum({a}, 0)",
                f"tl.argmax({self.random.choice(self.floats)}, 0) + {a}",
            ]
        )

    def write_step(self) -> None:
        kind = self.random.random()
        if kind < 0.42:
            value = self.make_float()
            new = self.name("f")
            self.say(f"{new} = {value}")
            self.floats.append(new)
        elif kind < 0.7:
            value = self.make_integer()
            new = self.name("k_")
            self.say(f"{new} = {value} + tl.zeros((BLOCK,), tl.int32)")
            self.integers.append(new)
        elif kind < 0.78:
            new = self.name("f")
            index = self.random.choice(self.integers)
            self.say(f"{new} = tl.load(x + ({index} & {BLOCK - 1}) + pid * BLOCK, mask={self.pick_truth()}, other=0.5)")
            self.floats.append(new)
        elif kind < 0.83:
            new = self.name("f")
            self.say(f"{new} = tl.load(y + (pid + {self.random.randint(0, 9)}) % rows * BLOCK + (BLOCK - 1 - i))")
            self.floats.append(new)
        elif self.depth < 3:
            self.write_nested(kind)

    def write_nested(self, kind: float) -> None:
        carried = self.name("f")
        self.say(f"{carried} = {self.random.choice(self.floats)}")
        floats, integers = self.floats, self.integers
        self.floats, self.integers = [*floats, carried], list(integers)
        condition = self.random.choice(
            [f"pid % 3 == {self.random.randint(0, 2)}", f"tl.sum({floats[-1]}) > 0", "n > 3"]
        )
        if kind < 0.9:
            self.say(f"if {condition}:")
        elif kind < 0.96:
            rounds = self.random.choice(["pid + 1", "3", "n", "tl.load(k + pid * BLOCK) & 3"])
            self.say(f"for r{self.number} in range(0, {rounds}):")
        else:
            self.say(f"w{self.number} = tl.load(k + pid * BLOCK + 1) & 7")
            self.say(f"while w{self.number} > 1:")
            self.say(f"    w{self.number} = w{self.number} // 2")
        self.depth += 1
        for _ in range(self.random.randint(1, 3)):
            self.write_step()
        self.say(f"{carried} = {self.make_float()}")
        self.depth -= 1
        if kind < 0.9 and self.random.random() < 0.5:
            self.say("else:")
            self.floats, self.integers = [*floats, carried], list(integers)
            self.depth += 1
            self.say(f"{carried} = {self.make_float()}")
            self.depth -= 1
        self.floats, self.integers = [*floats, carried], integers

    def write(self, number: int) -> str:
        for _ in range(self.random.randint(4, 12)):
            self.write_step()
        if self.random.random() < 0.15:
            self.say(f"if pid == {self.random.randint(0, 3)}:")
            self.say("    return")
        mask = "" if self.random.random() < 0.5 else f", mask={self.pick_truth()}"
        self.say(f"tl.store(o + pid * BLOCK + i, {self.floats[-1]}{mask})")
        self.say(
            f"tl.store(o + (rows + pid) * BLOCK + (BLOCK - 1 - i), {self.random.choice(self.floats[2:] or ['a'])})"
        )
        self.say(f"tl.store(p + pid * BLOCK + i, {self.integers[-1]})")
        body = "\n".join(self.lines)
        return f"""
@triton.jit
def kernel_{number}(x, y, k, l, o, p, n, BLOCK: tl.constexpr):
    pid, rows = tl.program_id(0), tl.num_programs(0)
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + pid * BLOCK + i), tl.load(y + pid * BLOCK + i)
    c, d = tl.load(k + pid * BLOCK + i), tl.load(l + pid * BLOCK + i)
{body}
"""


def write_kernels(file: Path, seeds: range) -> None:
    """Writes one kernel for each seed."""
    file.write_text(_HEAD + "".join(_Writer(seed).write(seed) for seed in seeds))


def make_launch(seed: int) -> Launch:
    """Returns a launch of the kernel with that seed."""
    numbers = np.random.default_rng(seed)
    rows = int(numbers.integers(1, 8))
    size = rows * BLOCK
    arguments: dict[str, Any] = {
        "x": numbers.standard_normal(size).astype(np.float32),
        "y": numbers.standard_normal(size).astype(np.float32),
        "k": numbers.integers(-100, 100, size).astype(np.int32),
        "l": numbers.integers(-(2**31), 2**31, size).astype(np.int32),
        "o": np.zeros(2 * size, np.float32),
        "p": np.zeros(size, np.int32),
        "n": int(numbers.integers(2, 9)),
    }
    return Launch(kernel=f"kernel_{seed}", arguments=arguments, constants={"BLOCK": BLOCK}, grid=(rows, 1, 1))
