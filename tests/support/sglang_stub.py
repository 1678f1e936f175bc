"""What the backend for SGLang uses of SGLang, for tests without it: base classes, manager, reasoner, hooks. Checks and kernels are not here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, NamedTuple

SERVING = SimpleNamespace(
    reasoning_parser=None,
    enable_strict_thinking=False,
    constrained_json_whitespace_pattern=None,
    constrained_json_disable_any_whitespace=False,
    constrained_json_max_whitespace_cnt=None,
)


class GrammarRow(NamedTuple):
    row: int
    grammar: Any


@dataclass
class GrammarStats:
    compilation_time: float | None = None
    dispatch_type: str | None = None
    is_cache_hit: bool = False
    tree_traversal_time: list[float] = field(default_factory=list)


class BaseGrammarObject:
    def __init__(self) -> None:
        self.finished = False
        self.grammar_stats: Any = None
        self.current_token: int | None = None

    def maybe_init_reasoning(self, reasoning: bool) -> None:
        pass

    def copy(self) -> Any:
        return self


class InvalidGrammarObject(BaseGrammarObject):
    def __init__(self, error_message: str) -> None:
        super().__init__()
        self.error_message = error_message


class BaseGrammarBackend:
    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(2)
        self.cache: dict[Any, Any] = {}

    def get_cached_or_future_value(self, key: Any, require_reasoning: bool) -> Any:
        if key in self.cache:
            made = self.cache[key].copy()
            made.maybe_init_reasoning(require_reasoning)
            return made, True
        return self.executor.submit(self._init_value_dispatch, key, require_reasoning), False

    def _init_value_dispatch(self, key: Any, require_reasoning: bool) -> Any:
        raise NotImplementedError

    def set_cache(self, key: Any, value: Any) -> None:
        self.cache[key] = value

    def reset(self) -> None:
        self.cache.clear()


class ReasonerGrammarObject(BaseGrammarObject):
    """Free up to and with one token."""

    def __init__(self, grammar: Any, end: int) -> None:
        super().__init__()
        self.grammar, self.end = grammar, end
        self.reasoning_in_grammar = False
        self.thinks = False
        self._thinking_match_history: list[int] = []

    def maybe_init_reasoning(self, reasoning: bool) -> None:
        self.thinks = reasoning

    def accept_token(self, token: int) -> None:
        if self.thinks:
            self._thinking_match_history.append(0)
            self.thinks = token != self.end
        else:
            self.grammar.accept_token(token)

    def is_terminated(self) -> bool:
        return not self.thinks and self.grammar.is_terminated()

    def fill_vocab_mask(self, masks: Any, row: int) -> None:
        if not self.thinks:
            self.grammar.fill_vocab_mask(masks, row)

    @staticmethod
    def fill_vocab_mask_batched(entries: list[Any], masks: Any) -> None:
        for row, grammar in entries:
            grammar.fill_vocab_mask(masks, row)

    def copy(self) -> Any:
        return ReasonerGrammarObject(self.grammar.copy(), self.end)

    def __getattr__(self, name: str) -> Any:  # the masks of its grammar
        return getattr(self.__dict__["grammar"], name)


class ReasonerGrammarBackend(BaseGrammarBackend):
    def __init__(
        self, grammar_backend: Any, parser: Any, tokenizer: Any, enable_strict_thinking: bool = False
    ) -> None:
        super().__init__()
        self.grammar_backend = grammar_backend
        (self.end,) = parser.detector.get_think_end_token_ids(tokenizer)

    def _init_value_dispatch(self, key: Any, reasoning: bool) -> Any:
        made = self.grammar_backend._init_value_dispatch(key, reasoning)
        if isinstance(made, InvalidGrammarObject):
            return made
        wrapped = ReasonerGrammarObject(made, self.end)
        wrapped.maybe_init_reasoning(reasoning)
        return wrapped


class GrammarManager:
    grammar_sync_size = 1

    def __init__(self, backend: Any) -> None:
        self.grammar_backend = backend
        self.queue: list[Any] = []

    def process_req_with_grammar(self, req: Any) -> bool:
        params = req.sampling_params
        names = {"json_schema": "json", "regex": "regex", "ebnf": "ebnf", "structural_tag": "structural_tag"}
        for name, kind in names.items():
            if getattr(params, name) is not None:
                req.grammar_key = (kind, getattr(params, name))
                req.grammar, hit = self.grammar_backend.get_cached_or_future_value(
                    req.grammar_key, req.require_reasoning
                )
                if not hit:
                    self.queue.append(req)
                elif isinstance(req.grammar, InvalidGrammarObject):
                    req.set_finish_with_abort(req.grammar.error_message)
                return not hit
        return False

    def get_ready_grammar_requests(self) -> list[Any]:
        ready, self.queue = self.queue, []
        for req in ready:
            assert isinstance(req.grammar, Future)
            req.grammar = req.grammar.result()
            self.grammar_backend.set_cache(req.grammar_key, req.grammar.copy())
            if isinstance(req.grammar, InvalidGrammarObject):
                req.set_finish_with_abort(req.grammar.error_message)
        return ready


class HookType(Enum):
    AROUND = "around"
    AFTER = "after"


class HookRegistry:
    hooks: ClassVar[list[tuple[str, Any, HookType]]] = []

    @classmethod
    def register(cls, target: str, hook: Any, hook_type: HookType) -> None:
        cls.hooks.append((target, hook, hook_type))

    @classmethod
    def apply_hooks(cls) -> None:
        for target, hook, kind in cls.hooks:
            name = target.rpartition(".")[2]
            original = getattr(GrammarManager, name)

            def wrapped(*arguments: Any, original: Any = original, hook: Any = hook, kind: Any = kind) -> Any:
                if kind is HookType.AROUND:
                    return hook(original, *arguments)
                result = original(*arguments)
                changed = hook(result, *arguments)
                return result if changed is None else changed

            setattr(GrammarManager, name, wrapped)
        cls.hooks.clear()


class ReasoningParser:
    def __init__(self, model_type: str, stream_reasoning: bool, tokenizer: Any) -> None:
        self.detector = SimpleNamespace(get_think_end_token_ids=lambda tokenizer: [int(model_type)])


class Request:
    """As SGLang's `Req`."""

    def __init__(self, name: str = "r", *, reasons: bool = False, **params: Any) -> None:
        given: dict[str, Any] = dict.fromkeys(
            ("json_schema", "regex", "ebnf", "structural_tag", "stop_token_ids")
        )
        self.sampling_params = SimpleNamespace(
            **{**given, "max_new_tokens": 40, "min_new_tokens": 0, **params}
        )
        self.rid, self.require_reasoning = name, reasons
        self.output_ids: list[int] = []
        self.grammar: Any = None
        self.grammar_key: Any = None
        self.to_finish: Any = None
        self.reason: str | None = None

    def set_finish_with_abort(self, message: str) -> None:
        self.grammar, self.to_finish = None, SimpleNamespace(message=message)

    def finished(self) -> bool:
        return self.reason is not None

    def update_finish_state(self) -> None:
        if self.to_finish is not None:
            self.reason = self.to_finish.message
        elif self.output_ids[-1] in {256, *(self.sampling_params.stop_token_ids or ())}:
            self.reason = "stop"
        elif len(self.output_ids) >= self.sampling_params.max_new_tokens:
            self.reason = "length"


@contextmanager
def installed() -> Iterator[None]:
    """Context manager: `sglang` is this."""
    here = sys.modules[__name__]
    modules = {
        "sglang.srt.constrained.base_grammar_backend": here,
        "sglang.srt.constrained.reasoner_grammar_backend": here,
        "sglang.srt.constrained.torch_ops.token_filter_torch_ops": SimpleNamespace(
            set_token_filter_torch=None
        ),
        "sglang.srt.parser.reasoning_parser": here,
        "sglang.srt.plugins.hook_registry": here,
        "sglang.srt.runtime_context": SimpleNamespace(
            get_serving=lambda: SERVING, get_parallel=lambda: SimpleNamespace(pp_size=1)
        ),
        "sglang.srt.utils.common": SimpleNamespace(is_pin_memory_available=lambda: False),
    }
    packages = {name.rsplit(".", i)[0] for name in modules for i in range(1, name.count(".") + 1)}
    before = _take_out()
    sys.modules.update({name: ModuleType(name) for name in packages})
    sys.modules.update(modules)  # type: ignore[arg-type]
    try:
        yield
    finally:
        _take_out()
        sys.modules.update(before)


def _take_out() -> dict[str, ModuleType]:
    """Removes SGLang and the backend from the imported modules: they are imported anew."""
    rooms = ("constrained.integrations.sglang", "sglang")
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(rooms)}
