"""The one loop: forward, draw, commit, for any number of texts side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from constrained.decoding.answer import Answer
from constrained.models import LanguageModel
from constrained.sampling import TokenSampler


def run(model: LanguageModel, answers: Sequence[Answer], sampler: TokenSampler) -> Iterator[Answer]:
    """Writes texts to their ends.

    Every pass of the model reads what each unfinished text has not read yet: first its prompt, then its last token.
    A finished text leaves the batch. Texts do not influence each other: a token is drawn from its own logits with
    the noise of its own place.

    Args:
        model: reads the texts.
        answers: fresh ones; they are changed.
        sampler: draws their tokens.

    Yields:
        An answer, each time it got a token or ended; the answers that end without a token come first.
    """
    yield from (answer for answer in answers if answer.finish)
    writing = [answer for answer in answers if not answer.finish]
    if not writing:
        return
    cache = model.cache(len(writing))
    while writing:
        logits = model.forward([answer.unread for answer in writing], cache)
        for answer, row in zip(writing, logits, strict=True):
            answer.step(row, sampler)
            yield answer
        rows = [i for i, answer in enumerate(writing) if not answer.finish]
        if len(rows) < len(writing):
            cache.keep(rows)
            writing = [writing[i] for i in rows]
