"""The tokenizer of a GGUF file with what prompts need of one of transformers: ids of a text, and the chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from constrained.prompting.jinja import render_template
from constrained.vocabulary.gguf import GgufProcessor, added_tokens


class AddedName(str):
    """The name of an added token; `special` as of one of transformers."""

    special: bool


class GgufTokenizer:
    """Encodes prompts.

    Attributes:
        chat_template: of the file's metadata; None if it has none.
        added_tokens_decoder: names of control, unknown and user-defined tokens, which no text of a user may become.
    """

    def __init__(self, llama: Any) -> None:
        """Reads the metadata.

        Args:
            llama: a `llama_cpp.Llama`.
        """
        import llama_cpp as api

        self.chat_template: str | None = llama.metadata.get("tokenizer.chat_template")
        self._processor = GgufProcessor(llama)
        self.added_tokens_decoder: dict[int, AddedName] = {}
        for token, (name, special) in added_tokens(llama).items():
            self.added_tokens_decoder[token] = AddedName(name)
            self.added_tokens_decoder[token].special = special
        vocab = api.llama_model_get_vocab(llama.model)
        ends = {"bos_token": api.llama_vocab_bos(vocab), "eos_token": api.llama_vocab_eos(vocab)}
        self._names = {
            name: api.llama_vocab_get_text(vocab, token).decode(errors="replace") if token >= 0 else ""
            for name, token in ends.items()
        }

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        """Ids of a text; the names of special tokens in it become these tokens, as in transformers."""
        return {"input_ids": self._processor.encode(text, begin=add_special_tokens, special=True)}

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tokenize: bool = False,
        tools: Any = None,
        **variables: Any,
    ) -> str:
        """Renders a chat as text; the template sees what it sees in transformers.

        Args:
            messages: of the chat.
            tokenize: must be False.
            tools: definitions in OpenAI's format.
            variables: of the template.
        """
        assert not tokenize
        assert self.chat_template is not None
        return render_template(self.chat_template, messages=messages, tools=tools, **self._names, **variables)
