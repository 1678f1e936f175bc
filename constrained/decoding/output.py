"""What generation returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, Generic

from constrained.decoding.cut import Cut, OnLimit, truncated_error
from constrained.decoding.partial_json import partial_json
from constrained.decoding.repetition import Repair
from constrained.decoding.stats import AnnotatedToken, Finish, Stats

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from constrained.automaton.captures import Capture

    ValueT = TypeVar("ValueT", default=Any)
else:  # a default needs Python 3.13 at run time
    from typing import TypeVar

    ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, repr=False)
class Output(Generic[ValueT]):
    """A finished completion. Its `repr` is a line without the token ids.

    Attributes:
        value: the typed value.
        text: the completion that it was parsed from; where a grammar names tokens that end inside of a character, and what
            follows does not complete it, with U+FFFD in place of these bytes.
        tokens: its token ids, without an end of sequence.
        logprob: log-probability of the completion under the model after temperature (greedy: temperature 1), in nats:
            of its tokens and of its end, all EOS tokens together. With certain ends (`constrained.sampling.ends`;
            `Local(weights=False)`, `extract`, `generate`) the end counts only where something else could have followed.
            Without weights text that is forced counts 0, too: no logits are computed for it.
        log_weight: importance weight of the completion under the model's conditional distribution, see
            `constrained.sampling`: the mean of exp(log_weight) h(text) estimates the model's mean of h over valid
            completions, times P(L). For ``local`` it is log P(text) / Q(text), or (`AWRS`) the log of an unbiased estimate
            of that; where the distribution is the conditional one, or tends to it, 0 for a single completion. Under
            ``local-truncated`` this holds over the completions that truncation leaves; for ``greedy`` it only tells how
            much mass the constraint left. NaN with `Local(weights=False)`.
        distribution: that the completion was drawn from: ``greedy``, ``local``, ``local-truncated``, ``conditional``
            (exactly the model's), ``asap``, ``mcmc``, ``smc`` (the model's in the limit). A greedy completion with
            `stats.backtracked_tokens` is the first in the order of the model's preferences, position by position, that
            reaches no dead end.
        finish: why the completion ended, see `Finish`.
        stats: the work done for it.
        cut: where the token limit first changed or ended it; None unless `finish` is ``limit``. Samplers that weigh or reject
            whole texts have one only where the limit made the end certain, see `constrained.decoding.cut`.
        repairs: the values that were closed because the model repeated itself, see `Repair`.
        automaton: of its constraint, for `show`; it is not compared, and not pickled.
    """

    value: ValueT
    text: str
    tokens: tuple[int, ...]
    logprob: float
    log_weight: float
    distribution: str
    finish: Finish
    stats: Stats
    cut: Cut | None = None
    repairs: tuple[Repair, ...] = ()
    automaton: Any = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        said = (
            f"{self.value!r}, finish={self.finish!r}, logprob={self.logprob:.2f}, {len(self.tokens)} tokens"
        )
        repairs = f", repairs={list(self.repairs)}" if self.repairs else ""
        return f"Output({said} in {self.stats.forwards} forward passes{repairs})"

    @property
    def canonical(self) -> bool | None:
        """Whether the tokens are those that the tokenizer writes for the text; None where the vocabulary is not known any more."""
        if self.automaton is None:
            return None
        vocabulary = self.automaton.vocabulary
        return bool(vocabulary.encode(vocabulary.decode(self.tokens)) == list(self.tokens))

    def raise_if_cut(self, on_limit: OnLimit = "raise") -> None:
        """Raises `Truncated` if the token limit changed or ended the completion, unless `on_limit` is ``"close"``."""
        if on_limit == "raise" and self.cut is not None:
            raise truncated_error(self.text, self.cut)

    @property
    def annotated_tokens(self) -> list[AnnotatedToken]:
        """Its tokens, each with where it came from and what else was allowed; found by going along the automaton."""
        from constrained.decoding.display import annotate_tokens

        return [] if self.automaton is None else annotate_tokens(self.automaton, self.tokens, self.stats)

    @property
    def captures(self) -> dict[str, list[Capture]]:
        """The parts of the text that rules with ``[capture]`` have read; see `constrained.captures`, also for errors."""
        from constrained.automaton.captures import token_captures

        return {} if self.automaton is None else token_captures(self.automaton, self.tokens)

    def show(self, *, details: bool = False, file: IO[str] | None = None) -> None:
        """Prints the text, its tokens coloured by where they came from, and what it cost.

        Before each line of a text of several lines stands how many forward passes began there.

        Args:
            details: print the tokens too, one a line, with what else was allowed.
            file: where to; standard output by default. Colours are for terminals only.
        """
        from rich.console import Console

        from constrained.decoding import display

        tokens = self.annotated_tokens
        console = Console(file=file, highlight=False)
        console.print(display.render_terminal(tokens) if tokens else self.text, soft_wrap=True, markup=False)
        if details and tokens:
            console.print(display.render_table(tokens))
        console.print(display.render_summary(tokens, self.stats, self._ending), soft_wrap=True, markup=False)

    def _repr_html_(self) -> str:
        from constrained.decoding.display import render_html

        return render_html(self.annotated_tokens, self.stats, self._ending)

    @property
    def _ending(self) -> tuple[str, str]:
        return self.distribution, f"ended: {self.finish}"

    def __reduce__(self) -> tuple[Any, ...]:
        # An automaton belongs to a process.
        return type(self), tuple(getattr(self, one.name) for one in fields(self) if one.name != "automaton")


@dataclass(frozen=True)
class Chunk(Generic[ValueT]):
    """A step of a stream.

    Attributes:
        delta: the new characters. Half characters are held back until their other bytes come.
        text: all characters so far: the deltas, concatenated.
        tokens: token ids of this step.
        output: the finished completion, in the last chunk.
    """

    delta: str
    text: str
    tokens: tuple[int, ...]
    parse_partial: Callable[[str], Any] = partial_json
    output: Output[ValueT] | None = None

    @cached_property
    def value(self) -> Any:
        """The valid partial value so far, and in the last chunk the typed value.

        For JSON: what has been said, closed: containers and strings as far as they go, numbers and names only when
        they are finished; None while there is nothing. For other constraints: the text so far.
        """
        return self.parse_partial(self.text) if self.output is None else self.output.value
