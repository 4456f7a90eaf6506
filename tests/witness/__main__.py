"""Compares cases with the witness: python -m tests.witness SELECTOR... [--target h200] [--seconds 5]

Prints for each case the outputs whose intended value is not what Python computes, the verdicts that the schedule's
numbers contradict if Python's are the right ones, and the outputs that depend on an overwritten value that JAX's own
rules had saved. Run it where you would run `ligerdiag check SELECTOR`, with this repository in PYTHONPATH.
"""

import argparse

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import CompileResult, compile_cases, discover_cases
from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.replay.estimate import estimate_artifact
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tests.witness.comparing import Comparison, compare_in_process
from tests.witness.contradictions import list_contradictions
from tests.witness.process import open_interpreting_process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("selectors", nargs="+")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--seconds", type=float, default=5.0, help="skip cases with an estimate above this")
    options = parser.parse_args()
    cache = Cache()
    with Pool(cache=cache) as pool, open_interpreting_process() as witness:
        cases = discover_cases(options.selectors, pool=pool)
        for result in compile_cases(cases, [load_target(options.target)], pool=pool):
            if result.artifact is None:
                print(f"{result.case.id}: {result.error}", flush=True)
            elif estimate_artifact(result.artifact, 1).seconds > options.seconds:
                print(f"{result.case.id}: too large", flush=True)
            else:
                job = (result.case.source, result.case.id, str(result.artifact.directory))
                found = Comparison(**witness.submit(compare_in_process, *job).result())
                print(f"{result.case.id}: {'; '.join(_describe(result, found, cache)) or 'all agree'}", flush=True)


def _describe(result: CompileResult, found: Comparison, cache: Cache) -> list[str]:
    assert result.artifact is not None
    if found.not_covered:
        return [f"not covered: {found.not_covered}"]
    outputs = inspect_artifact(result.artifact, effects_cache=cache.root / "effects").outputs
    static = {name: verdict.value for name, verdict in outputs.items()}
    lines = [f"{name}: intended differs from eager by {error:.2g}" for name, error in found.disagreements.items()]
    lines += list_contradictions(static, found.attributions, "eager")
    lines += [f"{name}: reads what JAX saved and a kernel overwrote" for name in found.overwritten_saves]
    return lines


if __name__ == "__main__":
    main()
