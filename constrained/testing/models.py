"""Language models without weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.errors import PromptError
from constrained.models.base import Cache, LanguageModel, Prompt
from constrained.prompting.context_length import check_context_length
from constrained.prompting.ids import check_ids, is_chat
from constrained.vocabulary import Vocabulary

Script = str | bytes | Mapping[str, str | bytes] | Callable[[str], str | bytes]


class TokenListCache(Cache):
    """A cache of the tokens of each row and the length of its prompt."""

    def __init__(self, rows: int) -> None:
        self.rows: list[list[int]] = [[] for _ in range(rows)]
        self.prompts = [0] * rows
        self.trees: list[list[int]] = []

    @property
    def lengths(self) -> list[int]:
        """Tokens read so far, per row."""
        return [len(row) for row in self.rows]

    def keep(self, rows: Sequence[int]) -> None:
        """Keeps these rows, in this order."""
        self.rows = [list(self.rows[row]) for row in rows]
        self.prompts = [self.prompts[row] for row in rows]

    def keep_paths(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Keeps one path of each tree."""
        trees = [self.trees[row] for row in rows]
        self.keep(rows)
        for row, (tree, path) in enumerate(zip(trees, paths, strict=True)):
            self.rows[row] += [tree[i] for i in path]

    def read_trees(
        self,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
    ) -> Iterator[list[tuple[list[int], list[int]]]]:
        """Stores trees; yields for each row (prompt, tokens after it) of every token that is not skipped."""
        self.trees = [list(row) for row in tokens]
        for i, (row, new, before) in enumerate(zip(self.rows, tokens, parents, strict=True)):
            self.prompts[i] = self.prompts[i] or skip[i] + 1
            paths: list[list[int]] = []
            for token, parent in zip(new, before, strict=True):
                paths.append([*(paths[parent] if parent >= 0 else row), token])
            cut = self.prompts[i]
            yield [(path[:cut], path[cut:]) for path in paths[skip[i] :]]

    def join(self, other: Cache) -> None:
        """Appends the rows of another cache."""
        assert isinstance(other, TokenListCache)
        self.rows += other.rows
        self.prompts += other.prompts

    def read(self, tokens: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], list[int]]]:
        """Appends tokens to each row; yields (prompt, tokens after it) per row."""
        for i, (row, new) in enumerate(zip(self.rows, tokens, strict=True)):
            assert new, "a row of a forward pass has no tokens"
            self.prompts[i] = self.prompts[i] or len(new)
            row += new
            yield row[: self.prompts[i]], row[self.prompts[i] :]


class FunctionModel(LanguageModel):
    """Logits as a function of the prompt and the tokens after it."""

    no_trees = None
    _dtype: Any = np.float32

    def cache(self, rows: int) -> Cache:
        """An empty cache with `rows` rows."""
        return TokenListCache(rows)

    def forward(self, tokens: Sequence[Sequence[int]], cache: Cache) -> NDArray[np.float32]:
        """See `LanguageModel.forward`."""
        assert isinstance(cache, TokenListCache)
        return np.stack([self.logits(prompt, said) for prompt, said in cache.read(tokens)]).astype(np.float32)

    def forward_trees(
        self,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        cache: Cache,
    ) -> list[NDArray[np.float32]]:
        """See `LanguageModel.forward_trees`."""
        assert isinstance(cache, TokenListCache)
        size = self.vocabulary.size
        return [
            np.array([self.logits(*text) for text in row], dtype=self._dtype).reshape(-1, size)
            for row in cache.read_trees(tokens, parents, skip)
        ]

    def logits(self, prompt: list[int], completion: list[int]) -> NDArray[np.floating[Any]]:
        """Logits of the next token, floating [vocabulary.size]."""
        raise NotImplementedError


class ScriptedModel(FunctionModel):
    """A model whose most likely completion is a script.

    It prefers the canonical next token of the rest of its script, for any tokenisation of the completion so far. Where
    a constraint forced another completion, it prefers an EOS token.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        script: Script,
        *,
        margin: float = 30.0,
        context: int | None = None,
    ) -> None:
        """Creates a model of a script.

        Args:
            vocabulary: any.
            script: the completion; or completions by prompt: a mapping, whose first key that occurs in the prompt is
                used, or a function of the prompt.
            margin: by how much its token's logit exceeds the others' (0).
            context: greatest number of positions, if limited.
        """
        self.vocabulary = vocabulary
        self.script = script
        self.margin = margin
        self.context = context
        self._next_tokens: dict[bytes, dict[int, list[int]]] = {}  # by script and offset

    def encode(self, prompt: Prompt, *, chat: bool = True) -> list[int]:
        """The bytes of the text (of a chat: its contents, a line each) as tokens; ids are passed on.

        Raises:
            PromptError: empty, or not a prompt.
            PromptTooLong: see `LanguageModel.encode`.
            VocabularyError: the vocabulary cannot spell it.
        """
        if is_chat(prompt):
            prompt = "\n".join(str(message["content"]) for message in prompt)
        if isinstance(prompt, str):
            check_context_length(prompt, self.vocabulary.encode, self.context)
            prompt = self.vocabulary.encode(prompt)
        return check_ids(prompt, self.vocabulary.size)

    def prompt_model(self) -> ScriptedModel:
        """The model without its script, which may be a function."""
        return ScriptedModel(self.vocabulary, "", context=self.context)

    def logits(self, prompt: list[int], completion: list[int]) -> NDArray[np.floating[Any]]:
        """`margin` for the next token of the script, 0 for all others."""
        script, wanted = self._script(prompt), list[int]()
        if len(completion) <= len(script):  # else it goes beyond: no token is empty
            text = self.vocabulary.decode(completion)
            wanted = self._next_token(script, len(text)) if script.startswith(text) else []
        logits = np.zeros(self.vocabulary.size)
        logits[wanted or list(self.vocabulary.eos_ids)] = self.margin
        return logits

    def _next_token(self, script: bytes, offset: int) -> list[int]:
        """The canonical first token of the script from an offset; none at its end."""
        if len(self._next_tokens) > 64:
            self._next_tokens.clear()
        known = self._next_tokens.setdefault(script, {})
        if offset not in known:
            ids = self.vocabulary.encode(script[offset:])
            known[offset] = ids[:1]
            if (
                self.vocabulary._encoder is None and script.isascii()
            ):  # then a tail of the ids is canonical, too
                for i, token in enumerate(ids):
                    known[offset] = ids[i : i + 1]
                    offset += len(self.vocabulary.tokens[token])
                return ids[:1]
        return known[offset]

    def _script(self, prompt: list[int]) -> bytes:
        script = self.script
        said = (
            ""
            if isinstance(script, (str, bytes))
            else self.vocabulary.decode(prompt).decode("utf-8", "replace")
        )
        if isinstance(script, Mapping):
            found = [text for key, text in script.items() if key in said]
            if not found:
                raise PromptError(
                    "no key of the script occurs in the prompt", action="add one, or a key of ''"
                )
            script = found[0]
        elif callable(script):
            script = script(said)
        return script.encode() if isinstance(script, str) else script
