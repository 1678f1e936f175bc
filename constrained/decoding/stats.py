"""`Stats`: the work done for a completion; `AnnotatedToken`: where a token came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Finish = Literal["complete", "end", "limit", "dead"]
"""``complete``: nothing could follow; ``end``: the model chose to end the completion here;
``limit``: the token limit changed or ended it, see `Output.cut`; it is complete, as always. ``dead``: a sequence that a
sampler rejected, or that reached a dead end of a predicate; samplers do not return it."""


TokenSource = Literal[
    "model",
    "forced",
    "literal",
    "prompt_lookup",
    "slot_ngrams",
    "ngram",
    "assistant",
    "slot_favourites",
]
"""``model``: the model chose the token among others, and it was not drafted; ``forced``: the constraint allows no other
characters; ``literal``: the constraint allows few, and all of them were drafted; the other names are the draft sources
that proposed an accepted token (of several, the first in this order)."""


@dataclass(slots=True, repr=False)
class Stats:
    """The work done for a completion. Its `repr` is a line with the most important counts.

    Attributes:
        prompt_tokens: tokens of the prompt.
        tokens: tokens of the completion, end of sequence not counted.
        forwards: forward passes that it took part in, the prompt's included.
        drafted: draft tokens that the model verified for it.
        accepted: draft tokens that were accepted.
        sources: per draft source: (drafted, accepted); a token that two sources drafted counts for both.
        draft_origins: by token: bit i is set if the i-th of `constrained.spec.sources.SOURCES` drafted it and the model had
            read it when it was drawn; 0 where it was drawn without a draft token.
        passes: for each token, the number of the pass it was drawn from, of those that this text itself took part in;
            0 where it was taken over from another text.
        draft_seconds: seconds spent on drafting, for the whole batch.
        forward_seconds: seconds spent in the model, likewise.
        no_speculation: why speculation was not possible although it was requested; None otherwise.
        no_engine: why the model's engine, where one was asked for, was not used; None otherwise.
        checks: queries of the automaton: masks and single tokens.
        attempts: sequences started for this completion; their work is counted here.
        backtracked_tokens: tokens that greedy decoding removed because they led into dead ends of a predicate.
        seconds: from the call to the end of this completion; those of a batch run side by side.
        seed: key of the noise; 0 for greedy decoding without one, which uses no noise.
        sequence: the other key, see `Generator.batch`.
    """

    prompt_tokens: int = 0
    tokens: int = 0
    forwards: int = 0
    drafted: int = 0
    accepted: int = 0
    sources: dict[str, tuple[int, int]] = field(default_factory=dict)
    draft_origins: tuple[int, ...] = ()
    passes: tuple[int, ...] = ()
    draft_seconds: float = 0.0
    forward_seconds: float = 0.0
    no_speculation: str | None = None
    no_engine: str | None = None
    checks: int = 0
    attempts: int = 1
    backtracked_tokens: int = 0
    seconds: float = 0.0
    seed: int = 0
    sequence: int = 0

    def __repr__(self) -> str:
        drafts = f", {self.accepted} of {self.drafted} draft tokens accepted" if self.drafted else ""
        return (
            f"Stats({self.prompt_tokens} prompt tokens, {self.tokens} tokens in {self.forwards} forward passes{drafts}, "
            f"{self.seconds:.2f} s)"
        )


@dataclass(frozen=True, slots=True)
class AnnotatedToken:
    """A token of a completion, and where it came from.

    Attributes:
        text: its characters; a character that several tokens encode belongs to the last of them.
        source: see `TokenSource`.
        allowed: number of tokens that the constraint allowed at this position (an end of sequence counts as one); None
            under a predicate, which would have to be called for each of them.
        alternative_tokens: some of the other allowed tokens.
        pass_index: number of the forward pass that it was drawn from; 0 if that is not known.
    """

    text: str
    source: TokenSource
    allowed: int | None
    alternative_tokens: tuple[str, ...]
    pass_index: int = 0
