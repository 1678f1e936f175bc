"""What the model writes before a value: its reasoning (``thinking=``), or an answer without the constraint (``draft_first=True``).

The constrained pass reads it as a part of its prompt. So whatever is known of a value (its places, probabilities, parts) is known
of it here, too.
"""

from __future__ import annotations

import time
from collections.abc import Generator as Coroutine
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from constrained.chat.reply import reply_constraint
from constrained.chat.reply_frame_probe import detect_reply_frame
from constrained.constraint import regex
from constrained.decoding import Generator, limits
from constrained.decoding.output import Output
from constrained.decoding.request_runner import BatchedRequest
from constrained.errors import ConstrainedError, InvalidArgument
from constrained.extraction.prompt import answer_request
from constrained.models import Prompt
from constrained.prompting.chat_template import encode_chat
from constrained.prompting.ids import is_chat
from constrained.sampling import Local

DRAFT_REQUEST = "Write this answer again as JSON only, of the type above."
"""What follows a draft in the chat, where the value is JSON."""


class FirstText(NamedTuple):
    """What a first pass wrote.

    Attributes:
        prompt: of the constrained pass.
        text: the draft or the reasoning; None: there was no first pass.
    """

    prompt: Prompt
    text: str | None


class FirstPass:
    """Writes what comes before a value.

    Attributes:
        generator: writes it.
        thinking: most tokens of the reasoning; None: it writes a draft.
    """

    def __init__(self, after: Generator[Any], thinking: int | None) -> None:
        """Compiles what may be written.

        Args:
            after: writes the values, in the same batch.
            thinking: see above.

        Raises:
            InvalidArgument: the chat template of the model shows no reasoning, or `thinking` is out of range.
        """
        self.thinking = thinking
        wanted = after.constraint
        self._asked = (
            DRAFT_REQUEST if wanted.is_json else f"Write this answer again. {answer_request(wanted)}"
        )
        frame = replace(detect_reply_frame(after.model, thinking=thinking is not None), close="")
        reply = reply_constraint(content=None if thinking is None else regex(""), frame=frame)
        self.generator: Generator[Any] = Generator(
            after.model,
            reply,
            sampler=Local(weights=False),
            # All requests of a batch draft, or none.
            speculation=None if after._drafting is None else after.speculation,
            thinking=thinking,
        )

    def max_tokens(self, wanted: int | None, prompt_tokens: int) -> int:
        """The token limit: of a draft that of the value, but at most a third of the room."""
        if self.thinking is not None:
            automaton = self.generator.automaton  # whose shortest text is what stands around the reasoning
            return self.thinking + 2 * automaton.shortest_completion(automaton.start)
        most = limits.DEFAULT_TOKENS if wanted is None else wanted
        context = self.generator.model.context
        return most if context is None else min(most, max(1, (context - prompt_tokens) // 3))

    def steps(
        self, prompts: Mapping[int, Prompt], settings: Mapping[str, Any], sequence: int
    ) -> Coroutine[list[BatchedRequest], None, dict[int, FirstText | ConstrainedError]]:
        """Writes it for several prompts side by side, and returns for each what came of it."""
        requests: dict[int, BatchedRequest] = {}
        found: dict[int, FirstText | ConstrainedError] = {}
        for i, prompt in prompts.items():
            try:
                requests[i] = BatchedRequest(self.generator, self._request(prompt, settings, sequence))
            except ConstrainedError as error:
                found[i] = error
        yield list(requests.values())
        for i, member in requests.items():
            outcome = member.outcome
            assert outcome is not None
            if isinstance(outcome, Output):
                found[i] = self._text(prompts[i], member.request.prompt, outcome)
            else:
                found[i] = outcome
        return found

    def __call__(self, prompt: Prompt, settings: Mapping[str, Any]) -> FirstText:
        """Writes it for one prompt, outside of a batch.

        Raises:
            ConstrainedError: as the call of `Generator`.
        """
        request = self._request(prompt, settings, 0)
        output = self.generator._decode(request, time.perf_counter())
        return self._text(prompt, request.prompt, output)

    def _request(self, prompt: Prompt, settings: Mapping[str, Any], sequence: int) -> Any:
        if not is_chat(prompt):
            raise InvalidArgument(
                "thinking and draft_first need messages, not a text or token ids", action="pass messages"
            )
        model: Any = self.generator.model
        if self.thinking is None:
            ids = model.encode(prompt)
        else:
            ids = encode_chat(
                prompt, model.tokenizer, context=model.context, images=model.images, enable_thinking=True
            )
        changed = {**settings, "max_tokens": self.max_tokens(settings.get("max_tokens"), len(ids))}
        return self.generator._request(ids, sequence=sequence, **changed)

    def _text(self, prompt: Any, ids: list[int], output: Output[Any]) -> FirstText:
        if self.thinking is not None:
            return FirstText([*ids, *output.tokens], output.value.reasoning or "")
        draft = output.value.content
        asked = [
            {"role": "assistant", "content": draft},
            {"role": "user", "content": self._asked},
        ]
        return FirstText([*prompt, *asked], draft)
