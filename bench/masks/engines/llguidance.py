"""llguidance: `LLMatcher`, masks written straight to an address, one matcher reset between texts."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import llguidance as package

from constrained.bench.masks.engines.base import CompiledSchema, MaskTable, mask_addresses
from constrained.bench.masks.workload import VocabularyData


class LLGuidance:
    """Its tokenizer is built natively where it can be: masks of forced text depend on the canonical tokens."""

    version = version("llguidance")

    def __init__(self, tokens: VocabularyData, threads: int) -> None:
        eos = list(tokens.eos_ids)
        if tokens.pattern is not None:
            self.tokenizer = package.LLTokenizer.from_tiktoken(
                encoder={token: i for i, token in enumerate(tokens.tokens) if token},
                special_tokens={f"<|{i}|>": i for i, token in enumerate(tokens.tokens) if not token},
                pattern=tokens.pattern,
                eos_token=eos,
                n_vocab=tokens.size,
                slices=None,
            )
        elif tokens.tokenizer_json is not None:
            self.tokenizer = package.LLTokenizer(tokens.tokenizer_json, n_vocab=tokens.size, eos_token=eos)
        else:
            wrapper = package.TokenizerWrapper(_Greedy(tokens))
            self.tokenizer = package.LLTokenizer(wrapper, n_vocab=tokens.size, eos_token=eos)
        self.executor = package.LLExecutor(threads)

    def grammar(self, text: str) -> str:
        """The grammar of a schema."""
        grammar: str = package.LLMatcher.grammar_from_json_schema(text)
        return grammar

    def compile(self, schema: Any, text: str) -> CompiledSchema:
        """A matcher; one in an error state is a refusal."""
        return self._compiled(self.grammar(text))

    def compile_source(self, notation: str, text: str) -> CompiledSchema:
        """A matcher of a regular expression, or of a grammar that its own converter from GBNF reads."""
        return self._compiled(package.grammar_from(notation, text))

    def _compiled(self, grammar: str) -> CompiledSchema:
        matcher = package.LLMatcher(self.tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())

        def start() -> Any:
            # Resetting keeps the lexer tables built so far; a copy of a fresh matcher would begin without them.
            matcher.reset()
            return matcher

        def fill_many(states: list[Any], rows: MaskTable) -> None:
            pairs = [(state, i) for i, state in enumerate(states)]
            self.executor.unsafe_compute_mask_ptr(pairs, rows.ctypes.data, rows.strides[0], len(rows))

        return CompiledSchema(
            start=start,
            fill=package.LLMatcher.unsafe_compute_mask_ptr,
            commit=package.LLMatcher.consume_token,
            in_place=True,
            targets=mask_addresses,
            error_message=lambda state: state.get_error() if state.is_error() else None,
            fork=package.LLMatcher.deep_copy,
            rollback=package.LLMatcher.rollback,
            fill_many=fill_many,
        )


class LLGuidanceUnforced(LLGuidance):
    """All tokens a grammar allows.

    By default llguidance narrows the mask of a text that can go on in one way only to the canonical token.
    """

    def grammar(self, text: str) -> str:
        """The grammar of a schema, in the notation that has this option."""
        lark = f'%llguidance {{"no_forcing": true}}\nstart: %json {text}'
        grammar: str = package.LLMatcher.grammar_from_lark(lark)
        return grammar


class _Greedy:
    """The least that llguidance accepts as a tokenizer: longest tokens first."""

    bos_token_id = None

    def __init__(self, tokens: VocabularyData) -> None:
        # An id without text needs a name of its own that no text can hold.
        self.tokens = [token or b"\xff<%d>" % i for i, token in enumerate(tokens.tokens)]
        self.special_token_ids = [i for i, token in enumerate(tokens.tokens) if not token]
        self.eos_token_id = tokens.eos_ids[0]
        self.ids = {token: i for i, token in enumerate(tokens.tokens) if token}
        self.longest = max(map(len, self.ids))

    def __call__(self, text: str | bytes) -> list[int]:
        data, ids, at = text.encode() if isinstance(text, str) else text, [], 0
        while at < len(data):
            for end in range(min(len(data), at + self.longest), at, -1):
                if (found := self.ids.get(data[at:end])) is not None:
                    ids.append(found)
                    at = end
                    break
            else:
                at += 1
        return ids
