"""The one loop: forward, draw, commit, for any number of texts side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from constrained.decoding.sequence import Answer
from constrained.decoding.speculation import Branch, Speculation, read
from constrained.models import LanguageModel
from constrained.sampling import TokenSampler


def run(
    model: LanguageModel,
    answers: Sequence[Answer],
    sampler: TokenSampler,
    drafting: Speculation | None = None,
) -> Iterator[Answer]:
    """Writes texts to their ends.

    Every pass of the model reads what each unfinished text has not read yet, first its prompt, then its last token,
    and what is guessed to follow. Tokens are drawn as long as what was drawn is what was guessed. A finished text
    leaves the batch. Texts do not influence each other: a token is drawn from its own logits with the noise of its
    own place.

    Args:
        model: reads the texts.
        answers: fresh ones; they are changed.
        sampler: draws their tokens.
        drafting: guesses what follows, where the answers have drafters; None to read one token at a time.

    Yields:
        An answer, each time it got a token or ended; the answers that end without a token come first.
    """
    yield from (answer for answer in answers if answer.finish)
    writing = [answer for answer in answers if not answer.finish]
    if not writing:
        return
    cache = model.cache(len(writing))
    while writing:
        branches = read(model, cache, writing, drafting, sampler.looks_at(writing[0].rules.warp))
        nodes, came = [], 0
        for answer, branch in zip(writing, branches, strict=True):
            answer.stats.forwards += 1
            nodes.append(0)
            for node in walk(answer, branch, sampler):
                nodes[-1] = node
                came += node > 0
                yield answer
        if drafting is not None and came:
            drafting.came(model, len(writing), came)
        rows = [i for i, answer in enumerate(writing) if not answer.finish]
        if not rows:
            return
        if any(branch.tree is not None for branch in branches):
            cache.settle(rows, [branches[i].path(nodes[i]) for i in rows])
        elif len(rows) < len(writing):
            cache.keep(rows)
        writing = [writing[i] for i in rows]


def walk(answer: Answer, branch: Branch, sampler: TokenSampler) -> Iterator[int]:
    """Draws tokens along what was guessed; yields the node of each place where one was drawn."""
    node, answer.branch = 0, branch
    while node >= 0:
        answer.node = node
        if answer.drafter is not None and answer.drafter.awake:
            answer.drafter.see(branch.favourites(node))
        answer.step(branch.law(node, answer.rules.warp), sampler)
        yield node
        if answer.finish:
            return
        node = branch.after(node, answer.tokens[-1])
