"""The decoding step: forward pass, draws along the draft trees, commit, and what the cache keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from constrained.decoding.departure import departure
from constrained.decoding.forward import ask_forward, forward_pass
from constrained.decoding.sequence import TokenSequence
from constrained.decoding.speculation import DraftScheduler
from constrained.decoding.text_tree import TextTree
from constrained.decoding.tree_logits import TreeLogits
from constrained.models import Cache, LanguageModel
from constrained.sampling import Distribution, TokenSampler


class DecodingStep:
    """The rows of a cache and the logits that the last forward pass computed for them.

    A step is `forward`, draws from `distribution` with `follow` after each of them, and `settle`. `Generator`, the
    server's batch and the particle batch take the same steps; they differ in which sequences they admit and in which
    of them share a row.

    Attributes:
        cache: one row for each distinct prefix; None before the first pass.
    """

    def __init__(
        self,
        model: LanguageModel,
        speculation: DraftScheduler | None = None,
        cache: Cache | None = None,
        between: Callable[[], None] | None = None,
    ) -> None:
        """A step that has read nothing.

        Args:
            model: computes the logits.
            speculation: None to draft nothing; otherwise all sequences have drafters.
            cache: its rows.
            between: called between the passes that questions of a prompt take; None: nobody waits for that.
        """
        self.cache = cache
        self._between = between
        self._model = model
        self._speculation = speculation
        self._rows: list[TreeLogits] = []

    def forward(
        self,
        rows: Sequence[Sequence[TokenSequence]],
        top_counts: Sequence[int] = (),
        *,
        speculate: bool = True,
    ) -> None:
        """One forward pass.

        Args:
            rows: for each row of the cache, the sequences with this prefix; the first of them is read.
            top_counts: for each row, how the next token is drawn: see `forward_pass`.
            speculate: read draft trees too.
        """
        assert self.cache is not None
        firsts = [sequences[0] for sequences in rows]
        speculation = self._speculation if speculate else None
        if len(rows) == 1 and firsts[0].params.questions is not None:
            self._rows = [self._ask(rows[0])]
        else:
            self._rows = forward_pass(self._model, self.cache, firsts, speculation, top_counts)
            for sequences, logits in zip(rows, self._rows, strict=True):
                left = sequences[0].unread[logits.chain :]
                for sequence in sequences:
                    sequence.unread[:] = left
                    sequence.stats.forwards += 1
        for row, (sequences, logits) in enumerate(zip(rows, self._rows, strict=True)):
            for sequence in sequences:
                sequence.cache_row, sequence.node, sequence.tree_logits = row, 0, logits
                if isinstance(logits.tree, TextTree) and logits.nodes and sequence.slot is None:
                    sequence.plan(departure(sequence, logits.tree, logits.logits, logits.begin))

    def _ask(self, sequences: Sequence[TokenSequence]) -> TreeLogits:
        """Reads a prompt with the options of its questions, which narrow the constraint of its sequences."""
        questions = sequences[0].params.questions
        assert self.cache is not None
        assert questions is not None
        row, scores, reader = ask_forward(self._model, self.cache, sequences[0], questions, self._between)
        for sequence in sequences:
            sequence.stats.forwards += sequence is not sequences[0]  # the reader has counted its own
            sequence.unread.clear()
            sequence.answer(scores, reader)
        return row

    def distribution(self, sequence: TokenSequence) -> Distribution:
        """The model's distribution of a sequence's next token."""
        logits = self._rows[sequence.cache_row]
        return logits.distribution(sequence.node, sequence.params.warp)

    def follow(self, sequences: Sequence[TokenSequence]) -> bool:
        """Moves each sequence to the node of its last token; where that of one was not read, each to a node before its last token.

        Returns:
            Whether all tokens were read, and the value of a slot that begins there is known: then the next ones need no forward pass.
        """
        paths = [self._rows[one.cache_row].read_nodes(one.node, one.unread) for one in sequences]
        read = not any(
            one.avoids or len(path) < len(one.unread) for one, path in zip(sequences, paths, strict=True)
        )
        accepted = {one.cache_row for one, path in zip(sequences, paths, strict=True) if path}
        for sequence, path in zip(sequences, paths, strict=True):
            nodes = path if read else path[: len(sequence.unread) - 1]
            sequence.node = [sequence.node, *nodes][-1]
            del sequence.unread[: len(nodes)]
        for one in sequences if read else ():
            read &= one.slot is None or one.read_slot(self._rows[one.cache_row])
        drafter = sequences[0].drafter
        if read and accepted and self._speculation is not None and drafter is not None and drafter.active:
            self._speculation.record_accepted(self._model, len(self._rows), len(accepted))
        return read

    def settle(self, sequences: Sequence[TokenSequence]) -> None:
        """Keeps in the cache what these sequences have read, a row for each of them, in this order."""
        assert self.cache is not None
        rows = [sequence.cache_row for sequence in sequences]
        for sequence in sequences if self._rows else ():  # none: rows leave between two passes
            if sequence.drafter is not None and sequence.drafter.active:
                self._rows[sequence.cache_row].teach(sequence.drafter)
        if any(logits.tree is not None for logits in self._rows):
            self.cache.keep_paths(rows, [self._rows[one.cache_row].path(one.node) for one in sequences])
        elif rows != list(range(len(self.cache.lengths))):
            self.cache.keep(rows)
        self._rows = []


def decode_sequences(
    model: LanguageModel,
    sequences: Sequence[TokenSequence],
    sampler: TokenSampler,
    speculation: DraftScheduler | None = None,
) -> Iterator[TokenSequence]:
    """Decodes sequences until each of them is finished.

    A forward pass reads the unread tokens of each unfinished sequence (first its prompt, then its last token) and its
    draft tree. Tokens are drawn as long as the drawn token is one of the draft tokens. A finished sequence leaves the
    batch. Sequences do not influence each other: a token is drawn from its own logits with the noise of its position.

    Args:
        model: computes the logits.
        sequences: without tokens; they are changed.
        sampler: draws their tokens.
        speculation: None to draft nothing; otherwise all sequences have drafters.

    Yields:
        A sequence, each time it got tokens or ended; first the sequences that have some, or are finished, without a forward pass.
    """
    yield from (sequence for sequence in sequences if sequence.tokens or sequence.finish)
    unfinished = [sequence for sequence in sequences if not sequence.finish]
    if not unfinished:
        return
    step = DecodingStep(model, speculation, model.cache(len(unfinished)))
    while True:
        step.forward(
            [[sequence] for sequence in unfinished],
            [sampler.top_count(sequence.params.warp) for sequence in unfinished],
        )
        for sequence in unfinished:
            if sequence.unread:  # what the answers to questions leave no choice of
                yield sequence
            while not sequence.finish and step.follow([sequence]):
                sequence.step(step.distribution(sequence), sampler)
                yield sequence
        unfinished = [sequence for sequence in unfinished if not sequence.finish]
        if not unfinished:
            return
        step.settle(unfinished)
