"""Structured output whose values are those that a text states: the user's message is read by an `Extractor`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableLambda

from constrained.constraint.generated import generated_constraint
from constrained.errors import InvalidArgument, RejectedValue, Truncated
from constrained.extraction import Extraction, Extractor
from constrained.extraction.options import ExtractorOptions, check_call_names
from constrained.integrations.langchain.messages import token_usage
from constrained.lru_cache import LRUCache
from constrained.models import LanguageModel

_MOST_EXTRACTORS = 8
"""Texts of system messages of which an extractor is kept."""


def extraction_output(
    schema: Any,
    model: Callable[[], LanguageModel],
    messages: Callable[[Any], Sequence[BaseMessage]],
    *,
    include_raw: bool,
    **options: Any,
) -> Runnable[Any, Any]:
    """See `ChatConstrained.with_structured_output`.

    Args:
        schema: a type or a JSON Schema.
        model: loads the model when the first message comes.
        messages: of what a chat model is given.
        include_raw: as there.
        options: of `Extractor`.

    Raises:
        ConstraintError: the schema cannot be enforced.
        InvalidArgument: there is no such option.
    """
    _ = generated_constraint(schema, closed=options.get("closed", True)).grammar
    names = ExtractorOptions.__annotations__
    check_call_names({name: value for name, value in options.items() if name not in names})
    extractors: LRUCache[str, Extractor[Any]] = LRUCache(_MOST_EXTRACTORS)
    lock = Lock()

    def read(given: Any) -> tuple[Extractor[Any], str]:
        """The extractor for some messages, and the text of the user's."""
        *before, last = messages(given)
        if not isinstance(last, HumanMessage) or not all(isinstance(one, SystemMessage) for one in before):
            raise InvalidArgument(
                'method="extraction" reads one message of the user, behind those of the system',
                action='pass examples=[(text, value), ...] to with_structured_output, or use method="json_schema" for a chat',
            )
        said = "\n\n".join(str(one.text) for one in before)
        with lock:
            extractor = extractors.get(said)
            if extractor is None:
                instructions = "\n\n".join(filter(None, (said, options.get("instructions"))))
                extractor = Extractor(model(), schema, **{**options, "instructions": instructions or None})
                extractors.put(said, extractor)
        return extractor, str(last.text)

    def invoke(given: Any) -> Any:
        extractor, text = read(given)
        try:
            found = extractor(text)
        except (Truncated, RejectedValue) as error:
            return _failed(error, include_raw)
        return _answer(found, include_raw)

    async def ainvoke(given: Any) -> Any:
        extractor, text = read(given)
        try:
            found = await extractor.aextract(text)
        except (Truncated, RejectedValue) as error:
            return _failed(error, include_raw)
        return _answer(found, include_raw)

    return RunnableLambda(invoke, ainvoke, name="extraction")


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
