"""The one loop: forward, draw, commit, for any number of texts side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from constrained.decoding.sequence import TokenSequence
from constrained.decoding.speculation import DraftScheduler, TreeLogits, forward_pass
from constrained.models import LanguageModel
from constrained.sampling import TokenSampler


def decode_sequences(
    model: LanguageModel,
    sequences: Sequence[TokenSequence],
    sampler: TokenSampler,
    speculation: DraftScheduler | None = None,
) -> Iterator[TokenSequence]:
    """Writes texts to their ends.

    Every pass of the model reads what each unfinished text has not read yet, first its prompt, then its last token,
    and what is guessed to follow. Tokens are drawn as long as what was drawn is what was guessed. A finished text
    leaves the batch. Texts do not influence each other: a token is drawn from its own logits with the noise of its
    own place.

    Args:
        model: reads the texts.
        sequences: fresh ones; they are changed.
        sampler: draws their tokens.
        speculation: guesses what follows, where the answers have drafters; None to read one token at a time.

    Yields:
        An answer, each time it got a token or ended; the answers that end without a token come first.
    """
    yield from (answer for answer in sequences if answer.finish)
    writing = [answer for answer in sequences if not answer.finish]
    if not writing:
        return
    cache = model.cache(len(writing))
    while writing:
        branches = forward_pass(model, cache, writing, speculation, sampler.top_count(writing[0].params.warp))
        nodes, came = [], 0
        for answer, branch in zip(writing, branches, strict=True):
            answer.stats.forwards += 1
            nodes.append(0)
            for node in verify_draft(answer, branch, sampler):
                nodes[-1] = node
                came += node > 0
                yield answer
        if speculation is not None and came:
            speculation.record_accepted(model, len(writing), came)
        rows = [i for i, answer in enumerate(writing) if not answer.finish]
        if not rows:
            return
        if any(branch.tree is not None for branch in branches):
            cache.keep_paths(rows, [branches[i].path(nodes[i]) for i in rows])
        elif len(rows) < len(writing):
            cache.keep(rows)
        writing = [writing[i] for i in rows]


def verify_draft(sequence: TokenSequence, branch: TreeLogits, sampler: TokenSampler) -> Iterator[int]:
    """Draws tokens along what was guessed; yields the node of each place where one was drawn."""
    node, sequence.tree_logits = 0, branch
    while node >= 0:
        sequence.node = node
        if sequence.drafter is not None and sequence.drafter.active:
            sequence.drafter.observe_top_tokens(branch.top_tokens(node))
        sequence.step(branch.distribution(node, sequence.params.warp), sampler)
        yield node
        if sequence.finish:
            return
        node = branch.child(node, sequence.tokens[-1])
