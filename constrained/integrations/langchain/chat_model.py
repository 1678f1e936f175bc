"""`ChatConstrained`: a LangChain chat model that runs a local model under constraints."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from langchain_core.language_models import LanguageModelInput, ModelProfile
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ToolCall,
    convert_to_openai_messages,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import get_config_list
from pydantic import ConfigDict, PrivateAttr, SecretStr

from constrained.chat.detect import detect_formats
from constrained.chat.messages import asked_text, chat_prompt, only_request, with_schema_instruction
from constrained.chat.plain_names import plain_names, renamed
from constrained.chat.reply import Reply, ReplyConstraint, ReplyDelta, reply_constraint
from constrained.chat.tools import ToolFormat, parse_tool_choice, parse_tools
from constrained.constraint.json import MAX_DIGITS
from constrained.decoding import Generator, Output
from constrained.decoding.limits import WARPER_SETTINGS
from constrained.decoding.shared_runner import MAX_ROWS
from constrained.errors import InvalidArgument
from constrained.extraction.tool_calls import CallReader, CallRequest
from constrained.integrations.langchain.extraction import extraction_output
from constrained.integrations.langchain.invocation import ChatInvocation, completions_of
from constrained.integrations.langchain.messages import (
    call_deltas,
    message_chunk,
    new_call_id,
    strip_content_blocks,
    token_usage,
    with_plain_calls,
)
from constrained.integrations.langchain.structured import (
    StructuredOutputMethod,
    content_constraint,
    response_format_of,
    structured_output,
    unwrapped,
)
from constrained.integrations.langchain.typed import tool_definition
from constrained.models import LanguageModel, load
from constrained.sampling import Local

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun

_SETTINGS = ("max_tokens", *WARPER_SETTINGS, "seed")
_COUNTS = ("n", "logprobs", "top_logprobs")
_FINISH_REASONS = {"limit": "length", "end": "stop", "complete": "stop"}


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads for calls of coroutines: asyncio's own are too few to fill a batch."""
    return ThreadPoolExecutor(MAX_ROWS, thread_name_prefix="chat")


def _given(config: RunnableConfig) -> RunnableConfig:
    """A configuration without a `max_concurrency` of None."""
    return cast(
        "RunnableConfig", {k: v for k, v in config.items() if k != "max_concurrency" or v is not None}
    )


class ChatConstrained(BaseChatModel):
    """A LangChain chat model that runs a local model.

        chat = ChatConstrained(model="Qwen/Qwen3-8B", temperature=0.7, seed=0)
        chat.bind_tools([search]).invoke("...").tool_calls
        chat.with_structured_output(Person).invoke("...")

    Every tool call names a bound tool with arguments that satisfy its schema, every structured output satisfies its
    schema, and both are complete within `max_tokens`.

    Attributes:
        model: a name or folder, a `LanguageModel`, or None for the bundled tiny model; loaded on first use.
        temperature: None or 0 is greedy.
        max_tokens: as in `Generator`, like `top_k`, `top_p`, `min_p`, `logit_bias`, the penalties and `seed`.
        n: number of completions of a call (`generate` returns all, `invoke` the first); a stream has one.
        logprobs: ``response_metadata["logprobs"]`` has the log-probability of each token.
        top_logprobs: and those of so many most likely tokens, at most 20.
        stop: strings that end free text; tool calls and structured outputs are not cut.
        timeout: seconds after which a call raises `TimeoutError`.
        max_retries: accepted for compatibility and ignored: a retry cannot change the result.
        sampler: as in `Generator`; by default ``Local(weights=False, slots=True)``.
        format: the tool-call format; None: detected from the chat template, see `detect_tool_format`.
        closed: objects have no members that their schema does not declare, unless it allows them explicitly.
        max_digits: digits of a number without bounds, in arguments and structured outputs; None: no limit.
        describe: show the schema of a structured output (``json_schema``) to the model, after the last message.
        template: further variables of the chat template. With ``{"enable_thinking": True}`` the model reasons first:
            ``additional_kwargs["reasoning_content"]`` of the message, as LangChain has it.
        thinking: the model reasons first, in at most so many tokens; otherwise as with ``enable_thinking``.
        options: further arguments of `Generator`; by default ``{"speculation": "auto", "on_repeat": "close"}``: where it saves time
            draft tokens are verified, and a reply ends behind a call that it has made before, which is left out.
        extraction: the arguments of a call are read from the user's message, as `extract` reads a value from a text, where it is the only
            message beside those of the system, and no `sampler` is named: their values are more often right. None: by models that
            fail a trial (`constrained.extraction.trial`), as small ones do; others write them. A stream has such a reply in one piece.
        api_key: accepted for compatibility and ignored.
    """

    model: Any = None
    temperature: float | None = None
    max_tokens: int | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    logit_bias: dict[int, float] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    repetition_window: int | None = None
    seed: int | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    stop: list[str] | None = None
    timeout: float | None = None
    max_retries: int | None = None
    sampler: Any = None
    format: ToolFormat | None = None
    closed: bool = True
    max_digits: int | None = MAX_DIGITS
    describe: bool = True
    template: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)
    thinking: int | None = None
    options: dict[str, Any] = {}  # noqa: RUF012
    extraction: bool | None = None
    streaming: bool = False
    api_key: SecretStr | None = None

    # Otherwise pydantic ignores misspelt settings.
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", protected_namespaces=())

    _loaded: dict[Any, LanguageModel] = PrivateAttr(default_factory=dict)
    _lock: Any = PrivateAttr(default_factory=Lock)
    _readers: dict[LanguageModel, CallReader] = PrivateAttr(default_factory=dict)

    @property
    def _llm_type(self) -> str:
        return "constrained"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """What decides about an answer; LangChain's caches keep answers by it."""
        others = (
            "stop", "format", "closed", "max_digits", "describe", "template", "thinking", "options", "extraction",
        )  # fmt: skip
        named = {name: getattr(self, name) for name in _SETTINGS}
        # "stop" is that of the call
        own = {f"own_{name}": repr(getattr(self, name)) for name in (*others, *_COUNTS)}
        model = self.model if isinstance(self.model, str | None) else f"{self.model_name} {id(self.model)}"
        return {"model": model or "bundled", "sampler": repr(self.sampler), **named, **own}

    @property
    def model_name(self) -> str:
        """Name of the model, for people and for LangChain."""
        return self._name(self.model)

    def _resolve_model_profile(self) -> ModelProfile | None:
        return ModelProfile(structured_output=True, tool_calling=True, tool_choice=True)

    def __getstate__(self) -> dict[str, Any]:
        """The settings: a copy in another process loads the model again where it was given by name."""
        state = super().__getstate__()
        private = {**(state["__pydantic_private__"] or {}), "_loaded": {}, "_lock": None, "_readers": {}}
        return {**state, "__pydantic_private__": private}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """See `__getstate__`."""
        super().__setstate__(state)
        self._lock = Lock()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> ChatConstrained:
        """A copy of the settings, which shares the model."""
        return self.model_copy()

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        params = super()._get_ls_params(stop=stop or self.stop, **kwargs)
        params["ls_provider"] = "constrained"
        params["ls_model_name"] = self._name(kwargs.get("model", self.model))
        return params

    @staticmethod
    def _name(model: Any) -> str:
        if model is None:
            return "bundled"
        if isinstance(model, str):
            return model
        config = getattr(getattr(model, "model", None), "config", None)
        known = getattr(model, "name", None) or getattr(config, "_name_or_path", None)
        return known or type(model).__name__

    def _language_model(self, model: Any) -> LanguageModel:
        if isinstance(model, LanguageModel):
            return model
        named = None if model == "bundled" else model
        with self._lock:
            if named not in self._loaded:
                self._loaded[named] = load(named)
            return self._loaded[named]

    # ------------------------------------------------------------ generation

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = self._request(messages, stop, kwargs)
        outputs = request.outputs()
        messages_written = [
            self._message(output, request, kwargs, completion.logprobs(output))
            for completion, output in zip(request.completions, outputs, strict=True)
        ]
        used = {
            "prompt_tokens": outputs[0].stats.prompt_tokens,
            "completion_tokens": sum(output.stats.tokens for output in outputs),
        }
        return ChatResult(
            generations=[
                ChatGeneration(
                    message=message,
                    generation_info={"finish_reason": message.response_metadata["finish_reason"]},
                )
                for message in messages_written
            ],
            llm_output={
                "token_usage": {**used, "total_tokens": sum(used.values())},
                "model_name": self._name(kwargs.get("model", self.model)),
            },
        )

    def _message(
        self,
        output: Output,
        request: ChatInvocation,
        kwargs: Mapping[str, Any],
        more: Mapping[str, Any],
    ) -> AIMessage:
        reply: Reply = output.value
        return AIMessage(
            content=reply.content,
            additional_kwargs={} if reply.reasoning is None else {"reasoning_content": reply.reasoning},
            tool_calls=[
                ToolCall(name=name, args=call.arguments, id=new_call_id(), type="tool_call")
                for call in reply.calls
                for name in (request.names.get(call.name, call.name),)
            ],
            usage_metadata=token_usage(output),
            response_metadata={**self._metadata(output, request.replies, kwargs), **more},
        )

    def _combine_llm_outputs(self, llm_outputs: list[dict[str, Any] | None]) -> dict[str, Any]:
        """The usage of all calls of a batch."""
        total: Counter[str] = Counter()
        for usage in llm_outputs:
            total.update((usage or {}).get("token_usage", {}))
        return {"token_usage": dict(total), "model_name": self.model_name}

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        sync = None if run_manager is None else run_manager.get_sync()
        generate = partial(self._generate, messages, stop, sync, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(_threads(), generate)

    def batch(
        self,
        inputs: list[LanguageModelInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[AIMessage]:
        """As `Runnable.batch`; all inputs are in one batch, `max_concurrency` of them if that is set, else 64."""
        configs = get_config_list(config, len(inputs)) if inputs else []
        configs = [{"max_concurrency": min(len(inputs), MAX_ROWS), **_given(config)} for config in configs]
        return super().batch(inputs, configs, return_exceptions=return_exceptions, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        request = self._request(messages, stop, kwargs)
        if len(request.completions) > 1:
            raise InvalidArgument("n is more than 1 in a stream", action="call generate, or leave n out")
        wanted = request.wanted()
        completion = request.streamed(wanted is not None)
        reader = request.replies.parser()
        output: Output | None = None
        held: list[ReplyDelta] = []  # of calls whose arguments are read at the end
        for chunk in request.chunks(completion):
            output = chunk.output
            pieces = reader.feed(chunk.delta)
            if output is not None:
                pieces += reader.finish()
            if request.reading is not None:
                held += [piece for piece in pieces if piece.call is not None]
                pieces = [piece for piece in pieces if piece.call is None]
                if output is not None:
                    output, written = request.read(output, wanted), output
                    pieces += held if output is written else call_deltas(output.value.calls)
            for piece in pieces:
                generated = ChatGenerationChunk(message=message_chunk(piece, request.names))
                if run_manager is not None:
                    run_manager.on_llm_new_token(piece.text, chunk=generated)
                yield generated
        assert output is not None, "a stream ended without its output"
        last = AIMessageChunk(
            content="",
            usage_metadata=token_usage(output),
            response_metadata=self._metadata(output, request.replies, kwargs) | completion.logprobs(output),
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=last)

    def _metadata(
        self, output: Output, replies: ReplyConstraint, kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        reply: Reply = output.value
        whole = output.cut is None or replies.has_whole_calls(output.text, output.cut.offset)
        return {
            "model_name": self._name(kwargs.get("model", self.model)),
            "finish_reason": "tool_calls" if reply.calls and whole else _FINISH_REASONS[output.finish],
            "stop_sequence": reply.stop,
            "logprob": output.logprob,
            "log_weight": output.log_weight,
            "distribution": output.distribution,
            "seed": output.stats.seed,
        }

    def _request(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]
    ) -> ChatInvocation:
        arguments = dict(kwargs)
        model = self._language_model(arguments.pop("model", self.model))
        given, choice = arguments.pop("tools", None) or [], arguments.pop("tool_choice", None)
        plain = plain_names(given)
        tools, choice = renamed(given, plain), renamed(choice, plain)
        parallel = arguments.pop("parallel_tool_calls", None)
        content, shown = content_constraint(
            arguments.pop("response_format", None), closed=self.closed, max_digits=self.max_digits
        )
        settings = {name: arguments.pop(name, getattr(self, name)) for name in _SETTINGS}
        count, logprobs, top = (arguments.pop(name, getattr(self, name)) for name in _COUNTS)
        if arguments.get("max_completion_tokens") is not None:
            settings["max_tokens"] = arguments["max_completion_tokens"]
        arguments.pop("max_completion_tokens", None)
        arguments.pop("ls_structured_output_format", None)
        timeout = arguments.pop("timeout", self.timeout)
        extraction = arguments.pop("extraction", self.extraction)
        if arguments:
            raise InvalidArgument(
                f"{next(iter(arguments))!r} is not a setting of this chat model",
                action="use "
                + ", ".join(
                    (*_SETTINGS, *_COUNTS, "stop", "timeout", "extraction", "tools", "response_format")
                ),
            )
        has_calls = bool(tools) or any(getattr(message, "tool_calls", None) for message in messages)
        template = {**self.template, **({} if self.thinking is None else {"enable_thinking": True})}
        thinking = bool(template.get("enable_thinking"))
        formats = detect_formats(model, tools=has_calls, thinking=thinking, format=self.format)
        chat: list[dict[str, Any]] = convert_to_openai_messages(
            [strip_content_blocks(message) for message in messages], text_format="string"
        )
        constraint = reply_constraint(
            tools,
            tool_choice=choice,
            parallel=parallel is not False,
            stop=(self.stop if stop is None else stop) or (),
            content=content,
            closed=self.closed,
            max_digits=self.max_digits,
            format=formats.tools,
            frame=formats.frame,
            asked=asked_text(chat),
        )
        chat = with_plain_calls(chat, plain)
        if shown is not None and self.describe:
            chat = with_schema_instruction(chat, shown)
        prompt = chat_prompt(model, chat, constraint.callable_tools, format=formats.tools, **template)
        sampler = Local(weights=False, slots=True) if self.sampler is None else self.sampler
        options: dict[str, Any] = {"speculation": "auto", "on_repeat": "close", "thinking": self.thinking}
        generate = partial(Generator, model, sampler=sampler, **{**options, **self.options})
        generator = generate(constraint)
        deadline = None if timeout is None else time.monotonic() + timeout
        if logprobs is False and top:
            raise InvalidArgument("top_logprobs needs logprobs", action="pass logprobs=True")
        completions = completions_of(generator, count, (top or 0) if logprobs or top else None)
        names = {short: name for name, short in plain.items()}
        reading = None
        is_plain = len(completions) == 1 and completions[0].recorder is None and not thinking
        if is_plain and self.sampler is None and extraction is not False:
            reading = self._reading(generator, constraint, chat, settings, always=bool(extraction))
        calling = partial(generate, replace(constraint, tool_choice="required"))
        return ChatInvocation(completions, constraint, prompt, settings, deadline, names, reading, calling)

    def _reading(
        self,
        generator: Generator,
        constraint: ReplyConstraint,
        chat: list[dict[str, Any]],
        settings: Mapping[str, Any],
        *,
        always: bool,
    ) -> tuple[CallReader, CallRequest] | None:
        """What reads the arguments of a call, see `extraction`; None: the model writes them."""
        model, asked = generator.model, only_request(chat)
        if not constraint.callable_tools or asked is None or model.no_trees is not None:
            return None
        with self._lock:
            reader = self._readers.setdefault(model, CallReader(model, generator.speculation))
        said, text = asked
        may_answer = constraint.tool_choice != "required"
        tools, several = constraint.callable_tools, constraint.parallel
        return reader, CallRequest(text, said, tools, settings, may_answer, always, several)

    # ------------------------------------------------------------ counts of tokens

    def get_token_ids(self, text: str) -> list[int]:
        """Token ids of a text, as it stands."""
        return self._language_model(self.model).vocabulary.encode(text)

    def get_num_tokens_from_messages(
        self, messages: list[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """Tokens of the prompt that these messages make."""
        request = self._request(messages, None, {"tools": [tool_definition(tool) for tool in tools or ()]})
        return len(request.completions[0].generator.model.encode(request.prompt))

    # ------------------------------------------------------------ tools and structured output

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: Any = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        response_format: Any = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """A chat model that may call these tools.

        Args:
            tools: pydantic models, `TypedDict`s, functions, `BaseTool`s, or schemas as dicts.
            tool_choice: ``"auto"``, ``"any"``, ``"none"``, the name of a tool, or the form of OpenAI's API,
                ``allowed_tools`` included.
            strict: arguments have no members that their schema does not declare; they always satisfy the schema.
            parallel_tool_calls: False: at most one call.
            response_format: a type or schema of the content of a reply that calls nothing, or a response format of
                OpenAI's API.
            kwargs: further arguments to bind.

        Raises:
            InvalidConstraint: the name or the schema of a tool is invalid.
            UnsupportedConstraint: a schema cannot be enforced; names tool and place.
            InvalidArgument: the choice names an unknown tool.
        """
        converted = [tool_definition(tool, strict) for tool in tools]
        plain = plain_names(converted)
        known = [t for tool in renamed(converted, plain) for t in parse_tools([tool], closed=self.closed)]
        if tool_choice:
            parse_tool_choice(renamed(tool_choice, plain), known)
            kwargs["tool_choice"] = tool_choice
        if response_format is not None:
            kwargs["response_format"] = response_format_of(response_format, strict=strict)
            content_constraint(kwargs["response_format"], closed=self.closed)
        if parallel_tool_calls is not None:
            kwargs["parallel_tool_calls"] = parallel_tool_calls
        return self.bind(tools=converted, **kwargs)

    def with_structured_output(
        self,
        schema: Any,
        *,
        include_raw: bool = False,
        method: StructuredOutputMethod = "json_schema",
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """A chat model that returns a value of a schema.

        Args:
            schema: a pydantic model, a dataclass, a union or another type of `constrained.python_type` (the result is an
                instance of it), or a `TypedDict` or JSON Schema (a dict), also as ``{"name", "schema", "strict"}`` of
                OpenAI's API. None with ``"json_mode"``: any object.
            include_raw: return ``{"raw", "parsed", "parsing_error"}``; errors of the type's own validators are then in
                `parsing_error` and not raised.
            method: ``"json_schema"``: the completion is JSON of the schema; ``"function_calling"``: the value is the
                arguments of a call; ``"json_mode"``: JSON of the schema, which is not shown to the model. All of them
                enforce the schema. ``"extraction"``: the user's message is a text, and the value is what it says: it is read
                by an `Extractor` with the system's message as its instructions, which has more values right.
            strict: as in `bind_tools`.
            kwargs: further arguments to bind; of ``"extraction"``: of `Extractor`, such as ``examples=``.

        Raises:
            InvalidArgument: the schema is None or has no keyword, or the method is unknown.
            ConstraintError: the schema cannot be enforced.
            Truncated: (when it is invoked) the token limit cut the value; with `include_raw` it is the `parsing_error`.
        """
        if method == "extraction":
            if isinstance(schema, Mapping):
                schema, _ = unwrapped(schema, strict)
            named = {"sampler": self.sampler, "closed": self.closed, "thinking": self.thinking}
            settings = {name: value for name in _SETTINGS if (value := getattr(self, name)) is not None}
            return extraction_output(
                schema,
                lambda: self._language_model(self.model),
                lambda given: self._convert_input(given).to_messages(),
                include_raw=include_raw,
                **{**named, **self.options, **settings, **kwargs},
            )
        return structured_output(
            self,
            schema,
            include_raw=include_raw,
            method=method,
            strict=strict,
            closed=self.closed,
            **kwargs,
        )
