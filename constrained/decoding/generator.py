"""`Generator`: a language model whose completions satisfy a constraint."""

from __future__ import annotations

import codecs
import contextlib
import functools
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypedDict, overload

from constrained.automaton.cache import compile_cached
from constrained.automaton.closed_texts import closed_language
from constrained.decoding import limits
from constrained.decoding.backtrack import backtrack_decode
from constrained.decoding.cut import locate_cut
from constrained.decoding.healing import healed_automaton, split_prompt
from constrained.decoding.output import Chunk, Output, ValueT
from constrained.decoding.partial_json import partial_json
from constrained.decoding.prompt_questions import PromptQuestions
from constrained.decoding.reasoning import reasoning_budget
from constrained.decoding.repetition import (
    OnRepeat,
    check_on_repeat,
    repetition_error,
    repetition_guard,
)
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
from constrained.prompting.ids import is_chat
from constrained.sampling import AWRS, Exact, Local, Sampler, TokenSampler, resolve_sampler
from constrained.sampling.warpers import fit_settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from constrained.automaton import Automaton
    from constrained.constraint import Constraint


_SHORT_TEXT = 32
"""Tokens of a text that is an option among others; longer ones are written, and streamed, token by token."""


class GenerationSettings(TypedDict, total=False):
    """Optional settings of one call.

    Attributes:
        max_tokens: token limit of a completion; every completion is complete within it. By default 512, more if
            the shortest completion needs it, less if the model's context ends sooner.
        temperature: 0 or None is greedy; for this and the settings below see `constrained.sampling.LogitsWarper`.
    """

    max_tokens: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    logit_bias: Mapping[int, float] | None
    frequency_penalty: float | None
    presence_penalty: float | None
    repetition_penalty: float | None
    repetition_window: int | None


class Generator(Generic[ValueT]):
    """Generates completions that satisfy a constraint, and parses each into its value.

    A call is a function of its arguments and of the model's logits: equal prompts, settings and seeds give equal tokens in
    `__call__`, `stream` and `batch`, with and without speculation, where the logits are equal. Those of a batch or a draft
    tree are rounded otherwise than those of a single sequence, which changes a token where two nearly tie: hardly ever in
    float32, once in some dozens of tokens in bfloat16. `load(..., isolate=True)` without speculation rules it out.
    Safe to share between threads; can be pickled if its model can.

    Attributes:
        model: the language model.
        constraint: the constraint that every completion satisfies.
        sampler: draws the tokens.
        speculation: the configuration of speculation; None without it.
        automaton: the constraint, compiled for the model's vocabulary.
        defaults: settings of calls that do not say otherwise.
    """

    constraint: Constraint
    automaton: Automaton

    @overload
    def __init__(
        self,
        model: Any,
        constraint: type[ValueT],
        *,
        sampler: str | Sampler | None = None,
        speculation: str | Speculation | None = None,
        chat: bool = True,
        heal: bool = False,
        on_repeat: OnRepeat = None,
        thinking: int | None = None,
        **defaults: Unpack[GenerationSettings],
    ) -> None: ...

    @overload
    def __init__(
        self: Generator[Any],
        model: Any,
        constraint: Any,
        *,
        sampler: str | Sampler | None = None,
        speculation: str | Speculation | None = None,
        chat: bool = True,
        heal: bool = False,
        on_repeat: OnRepeat = None,
        thinking: int | None = None,
        **defaults: Unpack[GenerationSettings],
    ) -> None: ...

    def __init__(
        self,
        model: Any,
        constraint: Any,
        *,
        sampler: str | Sampler | None = None,
        speculation: str | Speculation | None = None,
        chat: bool = True,
        heal: bool = False,
        on_repeat: OnRepeat = None,
        thinking: int | None = None,
        **defaults: Unpack[GenerationSettings],
    ) -> None:
        """Compiles the constraint.

        Args:
            model: a `LanguageModel`, or anything that `constrained.load` accepts.
            constraint: a `Constraint`, a Python type, a JSON Schema, or a compiled automaton.
            sampler: a name in `constrained.sampling.SAMPLERS`, or a configured sampler. By default `Local(slots=True)`; for a
                `predicate` ``"awrs"``, which draws equal tokens and checks few of them; for a closed set of 2 to 512 short texts, such
                as a `choice`, ``"exact"``, which weighs each of them in one pass, where the model reads trees.
            speculation: ``"auto"`` or a configured `Speculation`: one forward pass can then give several tokens.
                With equal logits the tokens do not change. ``"auto"`` drafts where the measured time of forward passes shows a gain,
                and never for a model that is loaded with ``isolate=True``. By default there is no speculation,
                because measured time would decide which passes read a draft tree, and a draft tree changes the
                last bits of `Output.logprob`.
            chat: put string prompts into the tokenizer's chat template, if it has one.
            heal: strings and token ids are raw prompts, which may end in white space or inside a word: the completion is drawn given the
                text of the prompt, not given its last tokens. See `constrained.decoding.healing`. Messages are read as always.
            on_repeat: ``"close"``: a JSON value in which the model repeats itself is closed, and named in `Output.repairs`;
                ``"error"``: then `Truncated` is raised. For the sampler ``"local"`` without weights alone: others draw from
                the model's distribution, which this would change. See `constrained.decoding.repetition`.
            thinking: most tokens of the reasoning that the constraint begins with (`after`, or a reply); then its end is written.
                None: no limit. For the sampler ``"local"`` alone.
            defaults: settings of all calls that do not say otherwise, such as ``max_tokens=200``; see `GenerationSettings`.

        Raises:
            ConstraintError, ConstraintTooLarge: the constraint cannot be enforced.
            InvalidArgument: `heal` is joined to `on_repeat` or `thinking`, the sampler is not known, `speculation` is neither a `Speculation` nor ``"auto"``, or a
                configured `Speculation` was passed for a model that cannot verify draft tokens (``"auto"`` does not
                draft there, and `stats.no_speculation` gives the reason).
            ModelError: the model cannot be loaded, or is not a causal language model.
        """
        if sampler is not None:
            self.sampler = resolve_sampler(sampler)
        self.speculation = resolve_speculation(speculation)
        self.model: LanguageModel = load(model)
        self.chat = chat and not heal
        self.heal = heal
        if heal and (on_repeat is not None or thinking is not None):
            raise InvalidArgument(
                "heal=True is for raw prompts of texts without reasoning and guard",
                action="leave on_repeat and thinking out",
            )
        limits.check_names(defaults)
        self.defaults = defaults
        self.on_repeat: OnRepeat = check_on_repeat(on_repeat)
        # Two types can share an automaton and parse its completions into different values: keep the constraint.
        self.constraint, self.automaton = compile_cached(constraint, self.model.vocabulary)
        if sampler is None:
            self.sampler = _default_sampler(self.model, self.automaton)
        self.thinking: int | None = thinking
        self._reasoning = None if thinking is None else reasoning_budget(self.constraint, thinking)
        if thinking is not None and not isinstance(self.sampler, Local):
            raise InvalidArgument(
                "the reasoning is cut as it is written, and this sampler draws whole texts",
                action='leave thinking out, or sampler="local"',
            )
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
                    f"speculation is not possible: {self._no_speculation}",
                    action='pass speculation=None, or speculation="auto", which drafts where it can',
                )

    def __call__(
        self,
        prompt: Prompt,
        *,
        sequence: int = 0,
        seed: int | None = None,
        **settings: Unpack[GenerationSettings],
    ) -> Output[ValueT]:
        """Generates one completion.

        Args:
            prompt: a string, a list of messages, or token ids.
            sequence: number of the completion for this prompt and seed; different numbers give independent draws.
            seed: makes sampling repeatable; without one a fresh seed is drawn, and recorded in the stats.
            settings: see `GenerationSettings`.

        Raises:
            PromptError: the prompt is empty, too long or cannot be read.
            DoesNotFit: the shortest completion is longer than `max_tokens`.
            InvalidArgument: a setting is out of range.
            BudgetExhausted: the sampler's budget was spent before a completion was accepted.
            RejectedValue: code of the requested type (such as a validator) refused the parsed value.
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
    ) -> list[Output[ValueT]]:
        """Generates the completions of several prompts as one batch; each is the completion of a single call.

        Args:
            prompts: any number, of any lengths.
            sequences: one number per prompt, as in `__call__`. By default equal prompts are counted 0, 1, 2, ..., so
                n copies of one prompt give n independent completions, and different prompts those of single calls.
            seed: shared by all prompts; without one a fresh seed is drawn.
            settings: as in `__call__`.

        Returns:
            One output per prompt, in the order of the prompts.

        Raises:
            ConstrainedError: as `__call__`, before the first token; with several prompts it names the prompt's index.
        """
        began = time.perf_counter()
        tasks = self._tasks(prompts, sequences, seed, self.sampler, **settings)
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
    ) -> Iterator[Chunk[ValueT]]:
        """Generates one completion, token by token.

        Args:
            prompt: as in `__call__`; all arguments are checked at once, not at the first chunk.
            sequence: number of the completion for this prompt and seed.
            seed: makes sampling repeatable.
            settings: see `GenerationSettings`.

        Returns:
            An iterator of chunks; the last one carries the `Output`. Closing it early stops the model.
        """
        began = time.perf_counter()
        (task,) = self._tasks([prompt], [sequence], seed, self.sampler, **settings)
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
        """Draws several completions of one prompt together, with estimates of the conditional distribution.

        Args:
            prompt: as in `__call__`.
            n: number of completions; those of weight 0 are left out of the result.
            sequence: number of the set for this prompt and seed.
            seed: makes sampling repeatable.
            settings: see `GenerationSettings`; samplers other than ``"local"`` and ``"awrs"`` draw at temperature 1 by
                default.

        Raises:
            InvalidArgument: a setting is out of range, or decoding is greedy, so that all n completions would be equal.
            BudgetExhausted: the sampler's budget was spent before there were n completions.
            ConstrainedError: as `__call__`.
        """
        began = time.perf_counter()
        if limits.nonnegative_int("n", n) < 1:
            raise InvalidArgument(f"n is {n!r}", action="pass a whole number >= 1")
        sampler = self.sampler.weighted()
        (task,) = self._tasks([prompt], [sequence], seed, sampler, **settings)
        if task.params.warp.greedy:
            raise InvalidArgument(
                "all completions of a greedy set would be equal", action="pass temperature=1.0"
            )
        pool = task.particle_batch(self.model)
        drawn = sampler.draw(pool, n)
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
            independent=drawn.ess,
            moves=drawn.moves,
        )

    def _written(self, tasks: Sequence[DecodingRequest], began: float) -> list[TokenSequence]:
        """The finished sequence of each request."""
        if isinstance(self.sampler, TokenSampler):
            answers = [task.new_sequence() for task in tasks]
            for answer in decode_sequences(self.model, answers, self.sampler, self._drafting):
                if answer.finish:
                    answer.stats.seconds = time.perf_counter() - began
            return [self._revived(*pair, began) for pair in zip(tasks, answers, strict=True)]
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

    def _revived(self, task: DecodingRequest, answer: TokenSequence, began: float) -> TokenSequence:
        """The sequence, or if it reached a dead end, one that avoids it."""
        if answer.finish != "dead":
            return answer
        assert isinstance(self.sampler, TokenSampler)
        if task.params.warp.greedy:
            answer = backtrack_decode(self.model, task, self.sampler, answer)
        else:
            answer = restart_decode(self.model, task, self.sampler, answer)
        answer.stats.seconds = time.perf_counter() - began
        return answer

    def _request(
        self,
        prompt: Prompt,
        *,
        sequence: int = 0,
        seed: int | None = None,
        questions: PromptQuestions | None = None,
        **settings: Unpack[GenerationSettings],
    ) -> DecodingRequest:
        """The request of a call, checked and encoded, for a `RequestBatch`; arguments and errors as in `__call__`.

        `questions` are asked when the prompt is read.
        """
        (request,) = self._tasks([prompt], [sequence], seed, self.sampler, **settings)
        return (
            request
            if questions is None
            else replace(request, params=replace(request.params, questions=questions))
        )

    def _decode(self, request: DecodingRequest, began: float) -> Output[ValueT]:
        """Decodes one request; `began` (of `time.perf_counter`) is when the call began."""
        (answer,) = self._written([request], began)
        return self._output(answer)

    def _finish(self, request: DecodingRequest, answer: TokenSequence, began: float) -> Output[ValueT]:
        """The output of a request whose sequence has ended in a batch."""
        if answer.finish != "dead":
            answer.stats.seconds = time.perf_counter() - began
        return self._output(self._revived(request, answer, began))

    def _chunks(self, task: DecodingRequest, began: float) -> Iterator[Chunk[ValueT]]:
        if not isinstance(
            self.sampler, TokenSampler
        ):  # these samplers know a completion only when it is finished
            (answer,) = self._written([task], began)
            output = self._output(answer)
            yield Chunk(output.text, output.text, output.tokens, output=output)
            return
        answer = task.new_sequence()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        read = partial_json if self.constraint.is_json else str
        text, seen, left = "", 0, len(task.params.begin)
        for _ in decode_sequences(self.model, [answer], self.sampler, self._drafting):
            if answer.finish == "dead":
                raise dead_end_error(1, self.constraint)
            tokens = tuple(answer.tokens[seen:])
            seen = len(answer.tokens)
            data = self.automaton.vocabulary.decode(tokens)
            data, left = data[left:], max(0, left - len(data))
            delta = decoder.decode(data, final=bool(answer.finish))
            text += delta
            answer.stats.seconds = time.perf_counter() - began
            yield Chunk(delta, text, tokens, read, self._output(answer) if answer.finish else None)

    def _tasks(
        self,
        prompts: Sequence[Prompt],
        sequences: Sequence[int] | None,
        seed: int | None,
        sampler: Sampler,
        /,
        **settings: Any,
    ) -> list[DecodingRequest]:
        limits.check_names(settings)
        warp = {**self.defaults, **settings}
        max_tokens = warp.pop("max_tokens", None)
        warp = fit_settings(warp, self.automaton.vocabulary.size)
        guarded = self.on_repeat is not None and isinstance(sampler, Local) and not sampler.weights
        rules = DecodingParams(
            self.automaton,
            sampler.warper(**warp),
            sampler.certain_ends,
            self._reasoning,
            repetition_guard(self.constraint, self.automaton.vocabulary) if guarded else None,
            canonical=sampler.canonical,
            slots=_reads_trees(self.model) and isinstance(sampler, Local) and sampler.slots,
            weights=not isinstance(sampler, Local) or sampler.weights,
            jumps=isinstance(self.model, LanguageModel)
            and self.model.reads_prompts_in_parts
            and isinstance(sampler, Local)
            and not sampler.weights,
        )
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
                own = rules
                if self.heal and not is_chat(prompts[i]):
                    tokens, own = self._healed(tokens, rules)
                limit = limits.token_limit(self.model, own.automaton, len(tokens), max_tokens)
            noise = limits.make_noise(keys.seed, sequence, greedy=rules.warp.greedy)
            tasks.append(DecodingRequest(own, tokens, limit, noise.seed, noise.sequence, self._drafting))
        return tasks

    def _healed(self, ids: list[int], rules: DecodingParams) -> tuple[list[int], DecodingParams]:
        """The prompt without its last tokens, and the rules for completions that begin with their text."""
        ids, begin = split_prompt(ids, self.automaton.vocabulary)
        if not begin:
            return ids, rules
        automaton = healed_automaton(self.constraint, begin, self.automaton.vocabulary)
        return ids, replace(rules, automaton=automaton, begin=begin.encode())

    def _output(self, answer: TokenSequence) -> Output[ValueT]:
        assert answer.finish
        answer.close()
        answer.stats.no_speculation = self._no_speculation
        answer.stats.no_engine = self.model.no_engine
        begin = answer.params.begin
        automaton = answer.params.automaton if begin else self.automaton
        text = automaton.vocabulary.decode(answer.tokens)[len(begin) :].decode("utf-8", "replace")
        cut = None if answer.cut is None else locate_cut(automaton, answer.tokens, answer.limit, *answer.cut)
        repairs = () if answer.guard is None else tuple(answer.guard.repairs)
        if repairs and self.on_repeat == "error":
            raise repetition_error(text, repairs[0])
        try:
            value = self.constraint.parse(text)
        except RejectedValue as error:
            error.cut = cut
            raise
        return Output(
            value=value,
            text=text,
            tokens=tuple(answer.tokens),
            logprob=answer.logprob,
            log_weight=answer.log_weight,
            distribution=self.sampler.distribution(answer.params.warp),
            finish=answer.finish,
            stats=answer.stats,
            cut=cut,
            repairs=repairs,
            automaton=automaton,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # An automaton belongs to one process, so unpickling compiles the constraint again.
        speculation: str | Speculation | None = (
            None if self.speculation is None else replace(self.speculation, memory=None)
        )
        if self._no_speculation is not None:
            speculation = "auto"
        restore = functools.partial(
            Generator,
            self.model,
            self.constraint,
            sampler=self.sampler,
            speculation=speculation,
            chat=self.chat,
            heal=self.heal,
            on_repeat=self.on_repeat,
            thinking=self.thinking,
            **self.defaults,
        )
        return restore, ()

    def __repr__(self) -> str:
        return f"Generator({self.model!r}, {self.constraint!r}, sampler={self.sampler!r})"


def _default_sampler(model: LanguageModel, automaton: Automaton) -> Sampler:
    """The sampler for a constraint: where the model reads trees, a few short texts are weighed in one pass, as is what stands in a closed slot."""
    if automaton.expensive_membership:
        return AWRS()
    if not _reads_trees(model):
        return Local()
    texts = closed_language(automaton)
    if texts is None or len(texts) < 2 or max(len(text.tokens) for text in texts) > _SHORT_TEXT:
        return Local(slots=True)
    return Exact()


def _reads_trees(model: Any) -> bool:
    return isinstance(model, LanguageModel) and model.no_trees is None


def _copies(prompts: Sequence[Sequence[int]]) -> list[int]:
    """For each prompt, the number of equal prompts before it."""
    seen: Counter[tuple[int, ...]] = Counter()
    numbers = []
    for prompt in map(tuple, prompts):
        numbers.append(seen[prompt])
        seen[prompt] += 1
    return numbers


@contextlib.contextmanager
def _naming(index: int, count: int) -> Iterator[None]:
    """Adds the prompt's index to the message of an error if there are several prompts."""
    try:
        yield
    except (PromptError, RejectedValue) as error:
        if count > 1:
            error.summary = f"prompt {index}: {error.summary}"
            error.args = (f"prompt {index}: {error.args[0]}",)
        raise
