"""Compiles the constraints of requests, as SGLang's grammar backend."""

from __future__ import annotations

import atexit
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    GrammarStats,
    InvalidGrammarObject,
)
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
from sglang.srt.constrained.torch_ops.token_filter_torch_ops import set_token_filter_torch
from sglang.srt.parser.reasoning_parser import ReasoningParser
from sglang.srt.runtime_context import get_parallel, get_serving

from constrained.errors import ConstrainedError, InvalidArgument
from constrained.integrations.engines.automata import Automata, read_vocabulary
from constrained.integrations.engines.settings import SglangSettings
from constrained.integrations.engines.trial import Trial
from constrained.integrations.sglang import NAME, requests
from constrained.integrations.sglang.grammar import (
    SglangGrammar,
    allocate_masks,
    apply_masks,
    move_masks,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

logger = logging.getLogger("sglang.constrained")

_FIELDS = {
    "json": "json",
    "regex": "regex",
    "ebnf": "grammar",
    "full_assistant_ebnf": "grammar",
    "structural_tag": "structural_tag",
}
"""SGLang's kinds of constraints, and ours."""

_ANY_JSON = "$$ANY$$"
"""SGLang's text for a schema that allows every JSON value."""

_Key = tuple[str, str]


def create(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Any) -> BaseGrammarBackend:
    """The backend of a scheduler, as SGLang's `create_grammar_backend` makes its own ones.

    Raises:
        InvalidArgument: an option of the server contradicts the backend, or `CONSTRAINED_SGLANG` cannot be read.
        VocabularyError: the tokens of the tokenizer have no exact bytes.
    """
    serving = get_serving()
    for option in ("constrained_json_whitespace_pattern", "constrained_json_max_whitespace_cnt"):
        if (value := getattr(serving, option, None)) is not None:
            raise InvalidArgument(
                f"{option} is {value!r}, and --grammar-backend is {NAME}",
                action="leave it out: white space is bounded; or use --constrained-json-disable-any-whitespace",
            )
    if get_parallel().pp_size > 1:
        raise InvalidArgument(
            f"--grammar-backend {NAME} does not run with pipeline parallelism",
            action="use tensor parallelism, or another grammar backend",
        )
    settings = SglangSettings.from_environment() or SglangSettings()
    stop_ids = {*(eos_token_ids or ()), *(getattr(tokenizer, "additional_stop_token_ids", None) or ())}
    if tokenizer.eos_token_id is not None:
        stop_ids.add(tokenizer.eos_token_id)
    compact = bool(serving.constrained_json_disable_any_whitespace)
    backend = SglangBackend(tokenizer, vocab_size, stop_ids, settings, compact=compact)
    logger.info("Structured outputs by constrained, %s", backend.automata.vocabulary)
    requests.install()
    if not serving.reasoning_parser:
        return backend
    parser = ReasoningParser(model_type=serving.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer)
    if not parser.detector.get_think_end_token_ids(tokenizer):
        return backend
    return SglangReasonerBackend(
        backend,
        parser,
        tokenizer,
        enable_strict_thinking=serving.enable_strict_thinking,
        most=settings.automata,
    )


class _BoundedCache(BaseGrammarBackend):
    """Keeps the grammars that were asked for last; SGLang's cache keeps all.

    All ranks of a server must agree on what is cached. They get the same requests in the same order, but may compile in
    different order: so what is evicted depends on requests alone.
    """

    def __init__(self, most: int, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._most = most
        self._recent: OrderedDict[_Key, None] = OrderedDict()

    def get_cached_or_future_value(
        self, key: _Key, require_reasoning: bool
    ) -> tuple[BaseGrammarObject | Future[BaseGrammarObject], bool]:
        """The grammar of a request, or a future of it, and whether it was cached."""
        self._recent[key] = None
        self._recent.move_to_end(key)
        if len(self._recent) > self._most:
            self.cache.pop(self._recent.popitem(last=False)[0], None)
        value: tuple[Any, bool] = super().get_cached_or_future_value(key, require_reasoning)
        return value

    def set_cache(self, key: _Key, value: BaseGrammarObject) -> None:
        """Keeps a grammar, unless many others were asked for since."""
        if key in self._recent:
            super().set_cache(key, value)

    def reset(self) -> None:
        """Forgets all grammars."""
        super().reset()
        self._recent.clear()


class SglangBackend(_BoundedCache):
    """Compiles the constraints of all requests of a scheduler.

    Attributes:
        automata: compiled automata.
    """

    def __init__(
        self,
        tokenizer: Any,
        vocab_size: int,
        stop_ids: Iterable[int],
        settings: SglangSettings,
        *,
        compact: bool = False,
    ) -> None:
        """Reads the vocabulary.

        Args:
            tokenizer: SGLang's.
            vocab_size: columns of the logits.
            stop_ids: at which SGLang ends every request.
            settings: limits.
            compact: JSON without white space.

        Raises:
            VocabularyError: the tokens have no exact bytes, or none ends a sequence.
        """
        super().__init__(settings.automata)
        vocabulary = read_vocabulary(tokenizer, vocab_size, settings.memory_limit)
        self.automata = Automata(vocabulary, settings)
        self._stop_ids = frozenset(stop_ids)
        self._compact = compact
        self._canonical = settings.canonical
        self._trial = Trial(vocabulary, settings)
        self._trial.start()
        atexit.register(self._trial.close)

    def _init_value_dispatch(self, key: _Key, require_reasoning: bool) -> BaseGrammarObject:
        """Compiles the constraint of a request, in a thread of its own."""
        kind, text = key
        began = time.perf_counter()
        try:
            given = self._given(kind, text)
            self._trial.shortest(given)
            automaton = self.automata.compile(given, self._stop_ids | requests.stop_ids_of(text))
            automaton.fill_mask(automaton.start, automaton.new_mask())  # the scheduler does not wait for it
        except ConstrainedError as error:
            return InvalidGrammarObject(str(error))
        stats = GrammarStats(dispatch_type=kind, compilation_time=time.perf_counter() - began)
        return SglangGrammar(automaton, stats, canonical=self._canonical)

    def _given(self, kind: str, text: str) -> dict[str, Any]:
        if kind not in _FIELDS:
            raise InvalidArgument(f"constraints of the kind {kind!r} are not known")
        if kind == "json" and text == _ANY_JSON:
            text = "true"
        given: dict[str, Any] = {_FIELDS[kind]: str(text)}
        if self._compact:
            given["disable_any_whitespace"] = True
        return given

    @property
    def is_support_token_filter(self) -> bool:
        """Whether `set_token_filter` works: strict reasoning needs it."""
        return True

    def set_token_filter(
        self,
        vocab_mask: Any,
        token_ids: list[int],
        batch_idx: int,
        is_allowed: bool = True,
        reset_vocab_mask: bool = True,
    ) -> None:
        """Allows or forbids some tokens in a row, after everything else has been forbidden or allowed."""
        set_token_filter_torch(vocab_mask, token_ids, batch_idx, is_allowed, reset_vocab_mask)

    def reset(self) -> None:
        """Forgets all grammars and automata."""
        super().reset()
        self.automata.clear()

    allocate_vocab_mask = staticmethod(allocate_masks)
    move_vocab_mask = staticmethod(move_masks)
    apply_vocab_mask = staticmethod(apply_masks)


class SglangReasonerBackend(_BoundedCache, ReasonerGrammarBackend):
    """SGLang's wrapper for models that reason: the constraint begins after the reasoning.

    SGLang puts it around its own backends, and not around those of plug-ins.
    """

    def __init__(self, backend: SglangBackend, *arguments: Any, most: int, **options: Any) -> None:
        super().__init__(most, backend, *arguments, **options)

    def reset(self) -> None:
        """Forgets all grammars and automata."""
        super().reset()
        self.grammar_backend.reset()
