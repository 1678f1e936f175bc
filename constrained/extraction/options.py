"""Optional arguments of extractors and of their calls."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from constrained.decoding.generator import GenerationSettings
from constrained.errors import InvalidArgument

if TYPE_CHECKING:
    from constrained.decoding import Speculation
    from constrained.decoding.cut import OnLimit
    from constrained.decoding.repetition import OnRepeat
    from constrained.extraction.prompt import PromptTemplate
    from constrained.extraction.trial import Lists
    from constrained.sampling import Sampler


class ExtractorOptions(TypedDict, total=False):
    """Optional arguments of `Extractor`, which explains them."""

    instructions: str | None
    examples: Sequence[tuple[str, Any]]
    context: str | None
    system: str | None
    prompt: PromptTemplate | None
    sampler: str | Sampler | None
    speculation: str | Speculation | None
    on_limit: OnLimit
    retries: int
    long: Literal["error", "split"]
    chunk_tokens: int | None
    overlap_tokens: int | None
    passes: int
    require_grounding: bool
    closed: bool
    allow_repeats: bool
    max_string_length: int | None
    max_items: int | None
    on_repeat: OnRepeat
    thinking: int | None
    draft_first: bool
    decisions: bool
    lists: Lists


class CallOptions(GenerationSettings, total=False):
    """Settings of a call, as in `Generator`."""

    seed: int | None


class BatchOptions(CallOptions, total=False):
    """Optional arguments of `Extractor.many`; see `extract_many`, which explains them."""

    batch_size: int
    max_batch_tokens: int | None
    errors: Literal["collect", "raise"]
    ordered: bool
    progress: bool


class ExtractOptions(ExtractorOptions, CallOptions, total=False):
    """Optional arguments of `extract` and `aextract`."""


class ExtractManyOptions(ExtractorOptions, BatchOptions, total=False):
    """Optional arguments of `extract_many`."""


EXTRACTOR_OPTIONS = tuple(ExtractorOptions.__annotations__)
CALL_OPTIONS = tuple(CallOptions.__annotations__)


def check_call_names(settings: Mapping[str, Any]) -> None:
    """Refuses settings of a call that do not exist.

    Raises:
        InvalidArgument: names the first of them, and the most similar option of `extract`.
    """
    known = (*CALL_OPTIONS, *EXTRACTOR_OPTIONS)
    for name in settings:
        if name not in CALL_OPTIONS:
            similar = difflib.get_close_matches(name, known, 1, cutoff=0.7)
            raise InvalidArgument(
                f"there is no option {name!r}" + (f": did you mean {similar[0]!r}?" if similar else ""),
                action=f"use some of: {', '.join(known)}",
            )


def split_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the extractor, and those of its call."""
    own = {name: value for name, value in options.items() if name in EXTRACTOR_OPTIONS}
    return own, {name: value for name, value in options.items() if name not in own}
