"""Runs a compile worker that does not tag: `python -m tools.untagged_worker` leaves the modules as a user's own XLA
dump has them.

Start it as any compile worker (`Pool(module=..., environment={"PYTHONPATH": ...})`), with a cache of its own: an
artifact without tags has the same cache key as one with tags.
"""

from functools import partial

from ligerdiag.workers.loop import Answerer, serve

FRAMES = 10
"""JAX's own limit for the locations of an operation; a compile worker keeps more."""


def prepare() -> Answerer:
    """Prepares as a compile worker does, with modules as JAX lowers them."""
    import jax

    from ligerdiag.compile import compile_worker
    from ligerdiag.compile.lowering import compile_job
    from ligerdiag.compile.lowering.lowered_case import lower_case

    answer = compile_worker.prepare()
    compile_job.lower_case = partial(lower_case, tagged=False)
    jax.config.update("jax_traceback_in_locations_limit", FRAMES)
    return answer


if __name__ == "__main__":
    serve(prepare)
