"""`Generator`: a model under a constraint."""

from __future__ import annotations

import codecs
import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from constrained.decoding import limits
from constrained.decoding.answer import Answer, Rules
from constrained.decoding.compiled import compiled
from constrained.decoding.loop import run
from constrained.decoding.output import Chunk, Output
from constrained.decoding.partial import partial_json
from constrained.errors import InvalidArgument, PromptError, RejectedValue
from constrained.models import LanguageModel, Prompt, load
from constrained.sampling import Sampler, Warp, choose

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from constrained.automaton import TokenAutomaton
    from constrained.constraint import Constraint


class Settings(TypedDict, total=False):
    """What a call can set, all of it optional.

    Attributes:
        max_tokens: greatest number of tokens of the text; every text is complete within it. By default 512, more if
            the shortest text needs it, less if the model's context ends sooner.
        temperature: 0 or None is greedy; these four are explained in `constrained.sampling.Warp`.
        top_k: keep the k most likely tokens.
        top_p: keep the most likely tokens of this much mass.
        min_p: keep tokens with this fraction of the best one's probability.
    """

    max_tokens: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None


class Generator:
    """Writes texts that satisfy a constraint, with the value each of them stands for.

    A call is a function of its arguments: the same prompt, settings and seed give the same tokens, from `__call__`,
    `stream` and `batch` alike. (Numbers a model computes for a batch differ in their last bits from those for a
    single text. Only a near-tie of two tokens can tell; `load(..., isolate=True)` rules even that out.)
    Can be shared between threads, and pickled if its model can.

    Attributes:
        model: the language model.
        constraint: what texts satisfy.
        sampler: how tokens are drawn.
        automaton: the constraint, compiled for the model's vocabulary.
    """

    constraint: Constraint
    automaton: TokenAutomaton

    def __init__(
        self, model: Any, constraint: Any, *, sampler: str | Sampler = "local", chat: bool = True
    ) -> None:
        """Compiles the constraint.

        Args:
            model: a `LanguageModel`, or what `constrained.load` makes one of.
            constraint: a `Constraint`, a Python type, a JSON Schema, or an automaton that is compiled already.
            sampler: ``"local"``, or a configured sampler.
            chat: put prompts that are texts into the tokenizer's chat template, if it has one.

        Raises:
            ConstraintError, ConstraintTooLarge: the constraint cannot be enforced.
            InvalidArgument: the sampler is not known.
            ModelError: the model cannot be loaded.
        """
        self.sampler = choose(sampler)
        self.model: LanguageModel = load(model)
        self.chat = chat
        # Two types can share an automaton and still read its texts into different values: the constraint is kept.
        self.constraint, self.automaton = compiled(constraint, self.model.vocabulary)

    def __call__(
        self, prompt: Prompt, *, sequence: int = 0, seed: int | None = None, **settings: Unpack[Settings]
    ) -> Output:
        """Writes one text.

        Args:
            prompt: a text, a list of messages, or token ids.
            sequence: number of the text among those with this prompt and seed: others are independent draws.
            seed: makes sampling repeatable; without one a fresh seed is drawn, and recorded in the stats.
            settings: see `Settings`.

        Raises:
            PromptError: the prompt is empty, too long or cannot be read.
            DoesNotFit: no complete text is as short as `max_tokens`.
            InvalidArgument: a setting is out of range.
            RejectedValue: the wanted type's own code (a validator, say) refused the value of the text.
        """
        (output,) = self.batch([prompt], sequences=[sequence], seed=seed, **settings)
        return output

    def batch(
        self,
        prompts: Sequence[Prompt],
        *,
        sequences: Sequence[int] | None = None,
        seed: int | None = None,
        **settings: Unpack[Settings],
    ) -> list[Output]:
        """Writes the texts of several prompts side by side, each as if it were alone.

        Args:
            prompts: any number, of any lengths.
            sequences: one number per prompt, as in `__call__`. By default equal prompts are counted 0, 1, 2, ..., so
                n copies of one prompt give n independent texts, and different prompts what single calls give.
            seed: one for all; without one, a fresh one.
            settings: as in `__call__`.

        Returns:
            An output per prompt, in their order.

        Raises:
            Described: as `__call__`, before the first token, naming the prompt by its index where there are several.
        """
        began = time.perf_counter()
        answers = self._answers(prompts, sequences, seed, **settings)
        for answer in run(self.model, answers):
            if answer.finish:
                answer.stats.seconds = time.perf_counter() - began
        outputs = []
        for i, answer in enumerate(answers):
            with _naming(i, len(answers)):
                outputs.append(self._output(answer))
        return outputs

    def stream(
        self, prompt: Prompt, *, sequence: int = 0, seed: int | None = None, **settings: Unpack[Settings]
    ) -> Iterator[Chunk]:
        """Writes one text, token by token.

        Args:
            prompt: as in `__call__`, like all that follows; it is checked at once, not at the first chunk.
            sequence: number of the text among those with this prompt and seed.
            seed: makes sampling repeatable.
            settings: see `Settings`.

        Returns:
            An iterator of chunks; the last one carries the `Output`. Closing it early stops the model.
        """
        began = time.perf_counter()
        (answer,) = self._answers([prompt], [sequence], seed, **settings)
        return self._chunks(answer, began)

    def _chunks(self, answer: Answer, began: float) -> Iterator[Chunk]:
        decoder = codecs.getincrementaldecoder("utf-8")()
        read = partial_json if self.constraint.is_json else str
        text, seen = "", 0
        for _ in run(self.model, [answer]):
            tokens = tuple(answer.tokens[seen:])
            seen = len(answer.tokens)
            delta = decoder.decode(self.model.vocabulary.decode(tokens), final=bool(answer.finish))
            text += delta
            answer.stats.seconds = time.perf_counter() - began
            yield Chunk(delta, text, tokens, read, self._output(answer) if answer.finish else None)

    def _answers(
        self,
        prompts: Sequence[Prompt],
        sequences: Sequence[int] | None,
        seed: int | None,
        *,
        max_tokens: int | None = None,
        **warp: Any,
    ) -> list[Answer]:
        rules = Rules(self.automaton, self.sampler, Warp(**warp))
        if isinstance(prompts, str | bytes) or not isinstance(prompts, Sequence):
            raise InvalidArgument(
                f"prompts are a {type(prompts).__name__}",
                action="pass a list of prompts, or call with a single one",
            )
        if sequences is not None and len(sequences) != len(prompts):
            raise InvalidArgument(
                f"there are {len(prompts)} prompts and {len(sequences)} sequences", action="pass one for each"
            )
        ids = []
        for i, prompt in enumerate(prompts):
            with _naming(i, len(prompts)):
                ids.append(self.model.encode(prompt, chat=self.chat))
        sequences = _copies(ids) if sequences is None else sequences
        keys = limits.noise(seed, 0, greedy=rules.warp.greedy)
        answers = []
        for i, (tokens, sequence) in enumerate(zip(ids, sequences, strict=True)):
            with _naming(i, len(prompts)):
                limit = limits.limit(self.model, self.automaton, len(tokens), max_tokens)
            noise = limits.noise(keys.seed, sequence, greedy=rules.warp.greedy)
            answers.append(Answer(rules, tokens, noise, limit))
        return answers

    def _output(self, answer: Answer) -> Output:
        assert answer.finish
        text = self.model.vocabulary.decode(answer.tokens).decode("utf-8")
        return Output(
            value=self.constraint.parse(text),
            text=text,
            tokens=tuple(answer.tokens),
            logprob=answer.logprob,
            log_weight=answer.log_weight,
            law=self.sampler.law(answer.rules.warp),
            finish=answer.finish,
            stats=answer.stats,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The automaton is compiled again where it is unpickled: it belongs to a process.
        return _restore, (self.model, self.constraint, self.sampler, self.chat)

    def __repr__(self) -> str:
        return f"Generator({self.model!r}, {self.constraint!r}, sampler={self.sampler!r})"


def _restore(model: LanguageModel, constraint: Any, sampler: Sampler, chat: bool) -> Generator:
    return Generator(model, constraint, sampler=sampler, chat=chat)


def _copies(prompts: Sequence[Sequence[int]]) -> list[int]:
    """For each prompt, how many equal ones came before it."""
    seen: Counter[tuple[int, ...]] = Counter()
    numbers = []
    for prompt in map(tuple, prompts):
        numbers.append(seen[prompt])
        seen[prompt] += 1
    return numbers


@contextlib.contextmanager
def _naming(index: int, count: int) -> Iterator[None]:
    """Puts the index of a prompt into the message of an error, where there are several."""
    try:
        yield
    except (PromptError, RejectedValue) as error:
        if count > 1:
            error.summary = f"prompt {index}: {error.summary}"
            error.args = (f"prompt {index}: {error.args[0]}",)
        raise
