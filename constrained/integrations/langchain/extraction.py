"""Structured output whose values are those that a text states: the user's message is read by an `Extractor`."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableLambda

from constrained.constraint.generated import generated_constraint
from constrained.errors import InvalidArgument, RejectedValue, Truncated
from constrained.extraction import Extraction, Extractor
from constrained.extraction.options import ExtractorOptions, check_call_names
from constrained.integrations.langchain.messages import token_usage
from constrained.lru_cache import LRUCache

if TYPE_CHECKING:
    from constrained.integrations.langchain.chat_model import ChatConstrained

_MOST_EXTRACTORS = 8
"""Texts of system messages of which an extractor is kept."""


def extraction_output(
    chat: ChatConstrained, schema: Any, *, include_raw: bool, options: Mapping[str, Any]
) -> Runnable[Any, Any]:
    """See `ChatConstrained.with_structured_output`.

    Args:
        chat: has the model and its settings.
        schema: a type or a JSON Schema.
        include_raw: as there.
        options: of `Extractor`.
    """
    reader = _Reader(chat, schema, options)

    def invoke(given: Any) -> Any:
        extractor, text = reader.read(given)
        try:
            found = extractor(text)
        except (Truncated, RejectedValue) as error:
            return _failed(error, include_raw)
        return _answer(found, include_raw)

    async def ainvoke(given: Any) -> Any:
        extractor, text = reader.read(given)
        try:
            found = await extractor.aextract(text)
        except (Truncated, RejectedValue) as error:
            return _failed(error, include_raw)
        return _answer(found, include_raw)

    return RunnableLambda(invoke, ainvoke, name="extraction")


class _Reader:
    """Makes an extractor of a chat model, when the first message comes."""

    def __init__(self, chat: ChatConstrained, schema: Any, options: Mapping[str, Any]) -> None:
        self._chat, self._schema = chat, schema
        self._options: dict[str, Any] = {
            "sampler": chat.sampler,
            "closed": chat.closed,
            "thinking": chat.thinking,
        }
        self._options |= {**chat.options, **chat.call_settings(), **options}
        self._extractors: LRUCache[str, Extractor[Any]] = LRUCache(_MOST_EXTRACTORS)
        self._lock = Lock()
        _ = generated_constraint(
            schema, closed=self._options["closed"]
        ).grammar  # raises if it cannot be enforced
        names = ExtractorOptions.__annotations__
        check_call_names({name: value for name, value in self._options.items() if name not in names})

    def read(self, given: Any) -> tuple[Extractor[Any], str]:
        """The extractor for some messages, and the text of the user's.

        Raises:
            InvalidArgument: there are messages of others than the system and, once and last, the user.
        """
        *before, last = self._chat._convert_input(given).to_messages()
        if not isinstance(last, HumanMessage) or not all(isinstance(one, SystemMessage) for one in before):
            raise InvalidArgument(
                'method="extraction" reads one message of the user, behind those of the system',
                action='pass examples=[(text, value), ...] to with_structured_output, or use method="json_schema" for a chat',
            )
        said = "\n\n".join(str(one.text) for one in before)
        with self._lock:
            extractor = self._extractors.get(said)
            if extractor is None:
                instructions = "\n\n".join(filter(None, (said, self._options.get("instructions"))))
                model = self._chat._language_model(self._chat.model)
                options = {**self._options, "instructions": instructions or None}
                extractor = Extractor(model, self._schema, **options)
                self._extractors.put(said, extractor)
        return extractor, str(last.text)


def _answer(found: Extraction[Any], include_raw: bool) -> Any:
    """What a call returns."""
    if not include_raw:
        return found.value
    usage = None if found.output is None else token_usage(found.output)
    return {
        "raw": AIMessage(content=found.text, usage_metadata=usage),
        "parsed": found.value,
        "parsing_error": None,
    }


def _failed(error: Truncated | RejectedValue, include_raw: bool) -> Any:
    """The same where there is no value."""
    if not include_raw:
        raise error
    return {"raw": AIMessage(content=error.text or ""), "parsed": None, "parsing_error": error}
