"""`Generator`: a model under a constraint."""

from __future__ import annotations

import codecs
import contextlib
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from constrained.automaton.cache import compile_cached
from constrained.decoding import limits
from constrained.decoding.backtrack import backtrack_decode
from constrained.decoding.output import Chunk, Output
from constrained.decoding.partial_json import partial_json
from constrained.decoding.request import DecodingRequest, dead_end_error, restart_decode
from constrained.decoding.samples import Samples
from constrained.decoding.sequence import DecodingParams, TokenSequence
from constrained.decoding.speculation import (
    DraftScheduler,
    Speculation,
    resolve_speculation,
    speculation_obstacle,
)
from constrained.decoding.step import decode_sequences
from constrained.errors import InvalidArgument, PromptError, RejectedValue
from constrained.models import LanguageModel, Prompt, load
from constrained.sampling import Sampler, TokenSampler, resolve_sampler

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from constrained.automaton import Automaton
    from constrained.constraint import Constraint


class GenerationSettings(TypedDict, total=False):
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
        speculation: how tokens are guessed ahead, if they are.
        automaton: the constraint, compiled for the model's vocabulary.
    """

    constraint: Constraint
    automaton: Automaton

    def __init__(
        self,
        model: Any,
        constraint: Any,
        *,
        sampler: str | Sampler | None = None,
        speculation: str | Speculation | None = None,
        chat: bool = True,
    ) -> None:
        """Compiles the constraint.

        Args:
            model: a `LanguageModel`, or what `constrained.load` makes one of.
            constraint: a `Constraint`, a Python type, a JSON Schema, or an automaton that is compiled already.
            sampler: a name out of `constrained.sampling.SAMPLERS`, or a configured sampler. By default ``"local"``;
                under a `predicate` ``"awrs"``, which draws the same tokens and asks about few of them.
            speculation: guess tokens ahead, so that one pass of the model gives several: ``"auto"`` or a configured `Speculation`.
                The tokens are the same as without. ``"auto"`` guesses where it pays, by what passes are measured to
                take, and not at all for a model that is loaded with ``isolate=True``. By default nothing is guessed:
                which passes read a tree depends on time then, and with it the last bits of `Output.logprob`.
            chat: put prompts that are texts into the tokenizer's chat template, if it has one.

        Raises:
            ConstraintError, ConstraintTooLarge: the constraint cannot be enforced.
            InvalidArgument: the sampler is not known, `speculation` is neither a `Speculation` nor ``"auto"``, or a configured `Speculation` was passed for a model
                that reads no guesses (``"auto"`` does without them there, and `stats.no_speculation` says why).
            ModelError: the model cannot be loaded, or is no causal one.
        """
        if sampler is not None:
            self.sampler = resolve_sampler(sampler)
        self.speculation = resolve_speculation(speculation)
        self.model: LanguageModel = load(model)
        self.chat = chat
        # Two types can share an automaton and still read its texts into different values: the constraint is kept.
        self.constraint, self.automaton = compile_cached(constraint, self.model.vocabulary)
        if sampler is None:
            self.sampler = resolve_sampler("awrs" if self.automaton.expensive_membership else "local")
        self._drafting: DraftScheduler | None = None
        self._no_speculation: str | None = None
        if self.speculation is not None:
            self._no_speculation = speculation_obstacle(self.model, self.automaton)
            if speculation == "auto" and self._no_speculation is None and self.model.bitwise_reproducible:
                self._no_speculation = "logits that are the same bits in every pass are asked for"
            if self._no_speculation is None:
                chains = self.model.no_trees is not None
                self._drafting = DraftScheduler(
                    self.speculation, self.automaton, self.constraint, chains=chains
                )
            elif speculation != "auto":
                raise InvalidArgument(
                    f"nothing can be guessed ahead: {self._no_speculation}",
                    action='pass speculation=None, or speculation="auto", which guesses where it can',
                )

    def __call__(
        self,
        prompt: Prompt,
        *,
        sequence: int = 0,
        seed: int | None = None,
        **settings: Unpack[GenerationSettings],
    ) -> Output:
        """Writes one text.

        Args:
            prompt: a text, a list of messages, or token ids.
            sequence: number of the text among those with this prompt and seed: others are independent draws.
            seed: makes sampling repeatable; without one a fresh seed is drawn, and recorded in the stats.
            settings: see `GenerationSettings`.

        Raises:
            PromptError: the prompt is empty, too long or cannot be read.
            DoesNotFit: no complete text is as short as `max_tokens`.
            InvalidArgument: a setting is out of range.
                BudgetExhausted: the sampler's budget was spent before there was a text.
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
        **settings: Unpack[GenerationSettings],
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
            ConstrainedError: as `__call__`, before the first token, naming the prompt by its index where there are several.
        """
        began = time.perf_counter()
        tasks = self._tasks(prompts, sequences, seed, **settings)
        answers = self._written(tasks, began)
        outputs = []
        for i, answer in enumerate(answers):
            with _naming(i, len(answers)):
                outputs.append(self._output(answer))
        return outputs

    def stream(
        self,
        prompt: Prompt,
        *,
        sequence: int = 0,
        seed: int | None = None,
        **settings: Unpack[GenerationSettings],
    ) -> Iterator[Chunk]:
        """Writes one text, token by token.

        Args:
            prompt: as in `__call__`, like all that follows; it is checked at once, not at the first chunk.
            sequence: number of the text among those with this prompt and seed.
            seed: makes sampling repeatable.
            settings: see `GenerationSettings`.

        Returns:
            An iterator of chunks; the last one carries the `Output`. Closing it early stops the model.
        """
        began = time.perf_counter()
        (task,) = self._tasks([prompt], [sequence], seed, **settings)
        return self._chunks(task, began)

    def sample(
        self,
        prompt: Prompt,
        n: int,
        *,
        sequence: int = 0,
        seed: int | None = None,
        **settings: Unpack[GenerationSettings],
    ) -> Samples:
        """Draws several texts for one prompt together: they share work, and say what they know of the law.

        Args:
            prompt: as in `__call__`.
            n: how many; of weighted texts those of weight 0 are left out.
            sequence: number of the set among those with this prompt and seed.
            seed: makes sampling repeatable.
            settings: see `GenerationSettings`; samplers other than ``"local"`` and ``"awrs"`` draw at temperature 1 unless
                another is given.

        Raises:
            InvalidArgument: a setting is out of range, or the texts would be greedy: n times the same one.
            BudgetExhausted: the sampler's budget was spent before there were n texts.
            ConstrainedError: as `__call__`.
        """
        began = time.perf_counter()
        if limits.nonnegative_int("n", n) < 1:
            raise InvalidArgument(f"n is {n!r}", action="pass a whole number >= 1")
        (task,) = self._tasks([prompt], [sequence], seed, **settings)
        if task.params.warp.greedy:
            raise InvalidArgument(
                "a set of greedy texts is one text several times", action="pass temperature=1.0"
            )
        pool = task.particle_batch(self.model)
        drawn = self.sampler.draw(pool, n)
        texts: list[TokenSequence] = [text for text in drawn.texts if text.log_weight > -math.inf]
        if not texts:
            raise dead_end_error(drawn.attempts, self.constraint)
        seconds = time.perf_counter() - began
        for text in texts:
            text.stats.seed, text.stats.sequence, text.stats.seconds = task.seed, task.sequence, seconds
        return Samples(
            outputs=tuple(self._output(text) for text in texts),
            distribution=self.sampler.distribution(task.params.warp),
            log_evidence=drawn.log_evidence,
            log_evidence_error=drawn.log_evidence_error,
            bounds=drawn.bounds,
            attempts=drawn.attempts,
            accepted=drawn.accepted,
            forwards=pool.cost.forwards,
            passes=pool.cost.passes,
            checks=pool.cost.checks,
            tokens=pool.cost.tokens,
            seconds=seconds,
        )

    def _written(self, tasks: Sequence[DecodingRequest], began: float) -> list[TokenSequence]:
        """The finished text of each task."""
        if isinstance(self.sampler, TokenSampler):
            answers = [task.new_sequence() for task in tasks]
            for answer in decode_sequences(self.model, answers, self.sampler, self._drafting):
                if answer.finish:
                    answer.stats.seconds = time.perf_counter() - began
            for i, task in enumerate(tasks):
                if answers[i].finish == "dead" and task.params.warp.greedy:
                    answers[i] = backtrack_decode(self.model, task, self.sampler, answers[i])
                elif answers[i].finish == "dead":
                    answers[i] = restart_decode(self.model, task, self.sampler)
                else:
                    continue
                answers[i].stats.seconds = time.perf_counter() - began
            return answers
        answers = []
        for task in tasks:
            pool = task.particle_batch(self.model)
            (text,) = self.sampler.draw(pool, 1).texts
            if text.finish == "dead":
                raise dead_end_error(pool.cost.attempts)
            answers.append(text)
            stats = text.stats
            stats.seed, stats.sequence = task.seed, task.sequence
            stats.forwards, stats.checks, stats.attempts = (
                pool.cost.forwards,
                pool.cost.checks,
                pool.cost.attempts,
            )
            stats.seconds = time.perf_counter() - began
        return answers

    def _chunks(self, task: DecodingRequest, began: float) -> Iterator[Chunk]:
        if not isinstance(self.sampler, TokenSampler):  # such a text is known only when it is finished
            (answer,) = self._written([task], began)
            output = self._output(answer)
            yield Chunk(output.text, output.text, output.tokens, output=output)
            return
        answer = task.new_sequence()
        decoder = codecs.getincrementaldecoder("utf-8")()
        read = partial_json if self.constraint.is_json else str
        text, seen = "", 0
        for _ in decode_sequences(self.model, [answer], self.sampler, self._drafting):
            if answer.finish == "dead":
                raise dead_end_error(1, self.constraint)
            tokens = tuple(answer.tokens[seen:])
            seen = len(answer.tokens)
            delta = decoder.decode(self.automaton.vocabulary.decode(tokens), final=bool(answer.finish))
            text += delta
            answer.stats.seconds = time.perf_counter() - began
            yield Chunk(delta, text, tokens, read, self._output(answer) if answer.finish else None)

    def _tasks(
        self,
        prompts: Sequence[Prompt],
        sequences: Sequence[int] | None,
        seed: int | None,
        *,
        max_tokens: int | None = None,
        **warp: Any,
    ) -> list[DecodingRequest]:
        rules = DecodingParams(self.automaton, self.sampler.warper(**warp))
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
        keys = limits.make_noise(seed, 0, greedy=rules.warp.greedy)
        tasks = []
        for i, (tokens, sequence) in enumerate(zip(ids, sequences, strict=True)):
            with _naming(i, len(prompts)):
                limit = limits.token_limit(self.model, self.automaton, len(tokens), max_tokens)
            noise = limits.make_noise(keys.seed, sequence, greedy=rules.warp.greedy)
            tasks.append(DecodingRequest(rules, tokens, limit, noise.seed, noise.sequence, self._drafting))
        return tasks

    def _output(self, answer: TokenSequence) -> Output:
        assert answer.finish
        answer.close()
        answer.stats.no_speculation = self._no_speculation
        text = self.automaton.vocabulary.decode(answer.tokens).decode("utf-8")
        return Output(
            value=self.constraint.parse(text),
            text=text,
            tokens=tuple(answer.tokens),
            logprob=answer.logprob,
            log_weight=answer.log_weight,
            distribution=self.sampler.distribution(answer.params.warp),
            finish=answer.finish,
            stats=answer.stats,
            automaton=self.automaton,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The automaton is compiled again where it is unpickled: it belongs to a process.
        speculation: str | Speculation | None = (
            None if self.speculation is None else replace(self.speculation, memory=None)
        )
        if self._no_speculation is not None:
            speculation = "auto"
        return _restore, (self.model, self.constraint, self.sampler, speculation, self.chat)

    def __repr__(self) -> str:
        return f"Generator({self.model!r}, {self.constraint!r}, sampler={self.sampler!r})"


def _restore(
    model: LanguageModel, constraint: Any, sampler: Sampler, speculation: str | Speculation | None, chat: bool
) -> Generator:
    return Generator(model, constraint, sampler=sampler, speculation=speculation, chat=chat)


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
