"""Child side: `python -m ligerdiag.sandbox.child` looks at one module after another, for its parent.

1. It gives up what it can before it imports anything that reads a file: see `confinement`.
2. It writes to the folder that it stands in and nowhere else. So nothing that it works out is kept: it reads what kernels
   do from the cache, and what it adds is its own and goes with it.
3. Questions come on stdin, answers go into files; to what was stdout goes one line for each. What a library prints, up to
   the message of an abort, goes to stderr, a file of the parent's.
4. It ends with its parent (see `ending`).
"""

import os
import sys
from pathlib import Path
from typing import TextIO

from ligerdiag.ending import end_group_with_parent
from ligerdiag.sandbox.confinement import confine, limit_processor


def main() -> None:
    """Answers questions until stdin closes."""
    refused = confine(Path.cwd())
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    end_group_with_parent(questions.fileno())
    _answer(questions, answers, refused)


def _answer(questions: TextIO, answers: TextIO, refused: tuple[str, ...]) -> None:
    from ligerdiag.artifacts.cache import Cache
    from ligerdiag.codec import parse_record
    from ligerdiag.dumps.translate import Translator
    from ligerdiag.inspection.module import ModuleInspector, compute_budget_seconds
    from ligerdiag.sandbox.messages import Done, Question, Ready, Setup, render_message

    def say(record: object) -> None:
        answers.write(render_message(record))
        answers.flush()

    say(Ready(refused=refused))
    setup = parse_record(Setup, questions.readline())
    cache = Cache(Path("cache"))
    effects = cache.root / "effects"
    link_entries(setup.cache / "effects", effects)
    with Translator(cache=cache, timeout=setup.request.timeout) as translator:
        inspector = ModuleInspector(request=setup.request, translate=translator.translate, effects_cache=effects)
        for line in questions:
            question = parse_record(Question, line)
            limit_processor(compute_budget_seconds(setup.request, question.subject))
            if isinstance(question.subject, Path):
                outcome = inspector.inspect_artifact(question.subject)
            else:
                outcome = inspector.inspect_module(question.subject)
            question.answer.write_text(render_message(outcome), encoding="ascii")
            say(Done(answer=question.answer))


def link_entries(known: Path, own: Path) -> None:
    """What is known so far is found in the own folder, too; what is written there replaces a link, not an entry."""
    own.mkdir()
    for entry in known.glob("*.json"):
        (own / entry.name).symlink_to(entry)


if __name__ == "__main__":
    sys.exit(main())
