"""Name the mistakes that the judge found in wrong outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fib_rmsnorm.evaluation.judging.judge_messages import PossibleMistake


def name_mistakes(suspects: Mapping[str, Sequence[PossibleMistake]], outputs: Sequence[str]) -> list[str]:
    """A sentence on each wrong output that one mistake explains, with the output's name if there are several `outputs`.

    `suspects` are the mistakes that would give each wrong output, by its name.
    """
    sentences = {name: name_mistake(each) for name, each in suspects.items()}
    return [f"{name}: {said}" if len(outputs) > 1 else said for name, said in sentences.items() if said]


def name_mistake(suspects: Iterable[PossibleMistake]) -> str | None:
    """The sentence on the one mistake that explains an output in all cases, the simplest; None if several do.

    None too if no case told it from the right answer.
    """
    sentences_by_parts: dict[int, set[str]] = {}
    for mistake in filter(lambda each: each.is_shown, suspects):
        sentences_by_parts.setdefault(mistake.parts, set()).add(mistake.sentence)
    simplest = sentences_by_parts.get(min(sentences_by_parts, default=0), set())
    return simplest.pop() if len(simplest) == 1 else None
