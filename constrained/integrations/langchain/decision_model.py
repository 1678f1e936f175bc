"""`ConstrainedDecisionModel`: a LangChain decision model that reads exact probabilities off a local model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from langchain_core.decisions import BaseDecisionModel, ClassifierResponse, Question, State
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict, PrivateAttr

from constrained.errors import InvalidArgument
from constrained.extraction.decider import Decider, Prior
from constrained.extraction.typed_questions import (
    content_text,
    questions_schema,
    system_one_answers,
    system_one_questions,
    typed_answers,
)
from constrained.models import LanguageModel, load

_TEXT_BLOCKS = ("text", "text-plain", "reasoning", "tool_call")
_MEDIA = ("image", "audio", "video", "file")


class ConstrainedDecisionModel(BaseDecisionModel):
    """A LangChain decision model that runs a local model: `Noul`, `Choice` and `Score` questions about one state in one pass.

        decisions = ConstrainedDecisionModel(model="Qwen/Qwen3-8B")
        decisions.invoke({"state": "My card was charged twice.", "questions": {"urgent": Noul(instructions="...")}})

    Labels have any number of tokens. Images and `Box` questions raise `InvalidArgument`, and so does a choice of one label.

    Attributes:
        model: a name or folder, a `LanguageModel`, or None for the bundled tiny model; loaded on first use.
        prior: as of `Decider`.
    """

    model: Any = None
    prior: Prior = "subtract"

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", protected_namespaces=())

    _loaded: LanguageModel | None = PrivateAttr(default=None)
    _lock: Any = PrivateAttr(default_factory=Lock)

    @property
    def _provider(self) -> str:
        return "constrained"

    @property
    def _name(self) -> str:
        """Of the model, for answers and traces."""
        if self.model is None:
            return "bundled"
        return self.model if isinstance(self.model, str) else type(self.model).__name__

    def _traced_config(self, config: RunnableConfig | None) -> RunnableConfig:
        traced = super()._traced_config(config)
        traced["metadata"]["ls_model_name"] = self._name
        return traced

    def _classify(self, state: State, questions: dict[str, Question]) -> ClassifierResponse:
        plain = {name: question.model_dump() for name, question in questions.items()}
        typed = system_one_questions(plain)
        with self._lock:  # one thread at a time reads with the model
            if self._loaded is None:
                self._loaded = load(self.model)
            decider: Decider[Any] = Decider(self._loaded, questions_schema(typed), prior=self.prior)
            text = state_text(state)
            ids = decider.ids(text)
            found = decider.read(text, ids)
        body = {
            "model": self._name,
            "answers": system_one_answers(typed_answers(typed, found.fields), plain),
            "usage": {"input_tokens": len(ids), "output_tokens": 0, "total_tokens": len(ids)},
        }
        return ClassifierResponse.model_validate(body)


def state_text(state: State) -> str:
    """A state as text: a text and the message of a person as they are, another one as JSON.

    Raises:
        InvalidArgument: there is an image, a sound or a file in it.
    """
    if isinstance(state, HumanMessage):
        return str(_plain(state)["content"])
    return content_text(_plain(state))


def _plain(value: Any) -> Any:
    """A part of a state as a JSON value."""
    if isinstance(value, BaseMessage):
        for block in value.content_blocks:
            if block["type"] not in _TEXT_BLOCKS:
                raise _refusal(block["type"])
        shown: dict[str, Any] = {"role": value.type, "content": str(value.text)}
        if isinstance(value, AIMessage) and value.tool_calls:
            shown["tool_calls"] = [
                {"name": one["name"], "args": _plain(one["args"])} for one in value.tool_calls
            ]
        return shown
    if isinstance(value, Mapping):
        if value.get("type") in _MEDIA and {"base64", "url", "file_id"} & set(value):
            raise _refusal(value["type"])
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return value


def _refusal(kind: str) -> InvalidArgument:
    return InvalidArgument(f"the state has a part of type {kind!r}", action="pass text, messages or JSON")
