"""Ways of decoding: each is made ready for a case, which is not timed, and then writes its text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transformers import LogitsProcessor

from constrained.constraint import json_schema
from constrained.decoding import Generator, Speculation
from constrained.evaluate.masks.engines import load_engine
from constrained.evaluate.masks.engines.text import MaskedSequence
from constrained.evaluate.masks.workload import VocabularyData
from constrained.evaluate.speed.cases import SpeedCase
from constrained.integrations.transformers import ConstraintLogitsProcessor
from constrained.integrations.transformers.processor import forbidden_tokens
from constrained.models.hugging_face import HuggingFaceModel

if TYPE_CHECKING:
    import torch

UNCONSTRAINED = "generate"
LOOKUP = "generate + lookup"
COMPETITORS = ("xgrammar", "llguidance")
_AHEAD = 10  # draft tokens of prompt lookup: the default of transformers


@dataclass(frozen=True, slots=True)
class DecodedTokens:
    """A text.

    Attributes:
        tokens: without an end of sequence.
        drafting: seconds of drafting, where they are known.
        drafted: draft tokens that were verified, likewise.
    """

    tokens: list[int]
    drafting: float = 0.0
    drafted: int = 0


DecodeCall = Callable[[], DecodedTokens]
DecodingMethod = Callable[[SpeedCase], DecodeCall]
"""From a case to a call that writes its text. Making it ready may raise whatever an engine raises."""


class EngineProcessor(LogitsProcessor):
    """Another engine's masks under `generate`: for one sequence.

    The engine fills the mask; it is spread and applied by the code that `ConstraintLogitsProcessor` uses.
    """

    def __init__(self, masked: MaskedSequence, prompt: int) -> None:
        """Nothing is computed yet.

        Args:
            masked: the text.
            prompt: tokens of the prompt.
        """
        self._masked = masked
        self._read = prompt

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """See `LogitsProcessor`."""
        import torch

        for token in input_ids[0, self._read :].tolist():
            self._masked.commit(token)
        self._read = input_ids.shape[1]
        rows = torch.from_numpy(self._masked.fill()).to(scores.device)
        return scores.masked_fill(forbidden_tokens(rows, scores.shape[-1]), float("-inf"))


def decoding_methods(
    model: HuggingFaceModel, tokens: VocabularyData, limit: int, threads: int, *, exact: bool
) -> dict[str, DecodingMethod]:
    """All ways, by name; engines whose packages are missing are left out.

    Args:
        model: the same for all.
        tokens: its vocabulary.
        limit: tokens of a text.
        threads: that an engine may use.
        exact: also the sampler ``cars``, at temperature 1; the others are greedy.
    """
    _ = model.capabilities  # its trial is no pass of any way, nor of a model that is made to say something
    found: dict[str, DecodingMethod] = {
        UNCONSTRAINED: lambda case: lambda: _generate(model, case, limit),
        LOOKUP: lambda case: lambda: _generate(model, case, limit, prompt_lookup_num_tokens=_AHEAD),
    }
    for name in COMPETITORS:
        way = _engine(model, tokens, name, limit, threads)
        if way is not None:
            found[f"generate + {name}"] = way
    found["generate + constrained"] = lambda case: _processor(model, case, limit)
    drafts: dict[str, Any] = {"": None, " auto": "auto", " 64": Speculation(adapts=False)}
    for name, draft in drafts.items():
        found[f"constrained{name}"] = _ours(model, limit, "local", draft)
    if exact:
        for name in ("", " auto"):
            found[f"cars{name}"] = _ours(model, limit, "cars", drafts[name], temperature=1.0, seed=0)
    return found


def _ours(model: HuggingFaceModel, limit: int, sampler: str, draft: Any, **settings: Any) -> DecodingMethod:
    def way(case: SpeedCase) -> DecodeCall:
        made = Generator(model, json_schema(case.schema), sampler=sampler, speculation=draft)

        def write() -> DecodedTokens:
            out = made(case.prompt, max_tokens=limit, **settings)
            return DecodedTokens(list(out.tokens), out.stats.draft_seconds, out.stats.drafted)

        return write

    return way


def _processor(model: HuggingFaceModel, case: SpeedCase, limit: int) -> DecodeCall:
    processor = ConstraintLogitsProcessor(json_schema(case.schema), model.vocabulary, max_tokens=limit)

    def write() -> DecodedTokens:
        processor.reset()
        return _generate(model, case, limit, [processor])

    return write


def _engine(
    model: HuggingFaceModel, tokens: VocabularyData, name: str, limit: int, threads: int
) -> DecodingMethod | None:
    try:
        kind = load_engine(name)
    except ImportError:
        return None
    vocabulary = model.vocabulary
    engine = kind(tokens, threads)

    def way(case: SpeedCase) -> DecodeCall:
        compiled = engine.compile(case.schema, json.dumps(case.schema))

        def write() -> DecodedTokens:
            processor = EngineProcessor(MaskedSequence(compiled, vocabulary), len(case.prompt))
            return _generate(model, case, limit, [processor])

        return write

    return way


def _generate(
    model: HuggingFaceModel,
    case: SpeedCase,
    limit: int,
    processors: Sequence[LogitsProcessor] = (),
    **options: Any,
) -> DecodedTokens:
    import torch

    ids = torch.tensor([case.prompt], device=model.device)
    ends = list(model.vocabulary.eos_ids)
    with torch.inference_mode():
        out = model.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=limit,
            do_sample=False,
            logits_processor=list(processors),
            eos_token_id=ends,
            pad_token_id=ends[0],
            **options,
        )
    tokens = out[0, len(case.prompt) :].tolist()
    return DecodedTokens([token for token in tokens if token not in ends])
