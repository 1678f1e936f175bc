"""Ways of decoding: each is made ready for a case, which is not timed, and then writes its text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from transformers import LogitsProcessor

from constrained.automaton import Automaton, compile
from constrained.automaton.bitmask import unpack_ids
from constrained.bench.masks.engines import load_engine
from constrained.bench.masks.engines.text import MaskedSequence
from constrained.bench.masks.workload import VocabularyData
from constrained.bench.speed.cases import SpeedCase
from constrained.bench.speed.forward_counter import ForwardCounter
from constrained.constraint import json_schema
from constrained.decoding import Generator, Speculation
from constrained.integrations.transformers import ConstraintLogitsProcessor
from constrained.integrations.transformers.processor import masked_scores
from constrained.models.hugging_face import HuggingFaceModel
from constrained.sampling import Local, Sampler

if TYPE_CHECKING:
    import torch

UNCONSTRAINED = "generate"
LOOKUP = "generate + lookup"
COMPILED = "generate, compiled"
COMPETITORS = ("xgrammar", "llguidance")
_AHEAD = 10  # draft tokens of prompt lookup: the default of transformers


@dataclass(frozen=True, slots=True)
class DecodedTokens:
    """A text.

    Attributes:
        tokens: without an end of sequence.
        ended: an end of sequence follows them, drawn or certain.
        forwards: passes.
        forward: seconds in them, by the clock on a CPU, by the device's own elsewhere; 0 where they are not known.
        drafting: seconds of drafting, likewise.
        drafted: draft tokens that were verified.
        is_cut: says whether the limit changed or ended the text; may take passes of the model, so it is called when the
            times are known.
    """

    tokens: list[int]
    ended: bool
    forwards: int
    forward: float
    drafting: float = 0.0
    drafted: int = 0
    is_cut: Callable[[], bool] = lambda: False


DecodeCall = Callable[[], DecodedTokens]
DecodingMethod = Callable[[SpeedCase], DecodeCall]
"""From a case to a call that writes its text. Making it ready may raise whatever an engine raises."""


class EngineProcessor(LogitsProcessor):
    """Another engine's masks under `generate`: for one sequence.

    The engine fills the mask; it is spread and applied by the code that `ConstraintLogitsProcessor` uses.
    """

    def __init__(self, masked: MaskedSequence, prompt: int, size: int) -> None:
        """Nothing is computed yet.

        Args:
            masked: the text.
            prompt: tokens of the prompt.
            size: of the vocabulary; masks may be wider.
        """
        self._masked = masked
        self._size = size
        self._read = prompt

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """See `LogitsProcessor`."""
        import torch

        self._commit(input_ids[0].tolist())
        rows = torch.from_numpy(self._masked.fill()).to(scores.device)
        return masked_scores(scores, rows)

    def allowed_after(self, ids: Sequence[int]) -> NDArray[np.integer[Any]]:
        """The tokens that the engine allows next.

        Args:
            ids: prompt and text; the text goes on from that of the last call.
        """
        self._commit(ids)
        allowed = unpack_ids(self._masked.fill()[0])
        return allowed[allowed < self._size]

    def _commit(self, ids: Sequence[int]) -> None:
        for token in ids[self._read :]:
            self._masked.commit(token)
        self._read = len(ids)


def decoding_methods(
    model: HuggingFaceModel,
    plain: HuggingFaceModel,
    tokens: VocabularyData,
    limit: int,
    threads: int,
    *,
    exact: bool,
    temperature: float = 0.0,
) -> dict[str, DecodingMethod]:
    """All ways, by name; engines whose packages are missing are left out.

    Args:
        model: of this library's decoding.
        plain: the same as transformers loads it, for its `generate`.
        tokens: its vocabulary.
        limit: tokens of a text.
        threads: that an engine may use.
        exact: also the sampler ``cars``, at temperature 1.
        temperature: of the others; 0: greedy.
    """
    # Trials are no passes of any way, nor of a model that is made to say something.
    _ = model.capabilities, model.no_engine
    drawn = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {}
    lookup = {"prompt_lookup_num_tokens": _AHEAD, **drawn}
    found: dict[str, DecodingMethod] = {
        UNCONSTRAINED: lambda case: lambda: _unconstrained(plain, case, limit, **drawn),
        LOOKUP: lambda case: lambda: _unconstrained(plain, case, limit, **lookup),
    }
    if model.device.type == "cuda":
        found[COMPILED] = partial(_compiled, plain, limit, drawn)
    for name in COMPETITORS:
        way = _engine(plain, tokens, name, limit, threads, drawn)
        if way is not None:
            found[f"generate + {name}"] = way
    found["generate + constrained"] = lambda case: _processor(plain, case, limit, drawn)
    drafts: dict[str, Any] = {"": None, " auto": "auto", " 64": Speculation(adapts=False)}
    settings: dict[str, Any] = {"temperature": temperature, "seed": 0} if temperature else {}
    for name, draft in drafts.items():
        found[f"constrained{name}"] = _ours(
            model, limit, Local(weights=False, ends="certain"), draft, **settings
        )
    if plain is not model:
        found["constrained, not packed"] = _ours(
            plain, limit, Local(weights=False, ends="certain"), None, **settings
        )
    if exact:
        for name in ("", " auto"):
            found[f"cars{name}"] = _ours(model, limit, "cars", drafts[name], temperature=1.0, seed=0)
    return found


def _ours(
    model: HuggingFaceModel, limit: int, sampler: str | Sampler, draft: Any, **settings: Any
) -> DecodingMethod:
    def way(case: SpeedCase) -> DecodeCall:
        made = Generator(model, json_schema(case.schema), sampler=sampler, speculation=draft)

        def write() -> DecodedTokens:
            out = made(case.prompt, max_tokens=limit, **settings)
            stats = out.stats
            return DecodedTokens(
                list(out.tokens), True, stats.forwards, stats.forward_seconds, stats.draft_seconds, stats.drafted,
                lambda: out.cut is not None,
            )  # fmt: skip

        return write

    return way


def _processor(model: HuggingFaceModel, case: SpeedCase, limit: int, drawn: Mapping[str, Any]) -> DecodeCall:
    automaton = compile(json_schema(case.schema), model.vocabulary)
    processor = ConstraintLogitsProcessor(automaton, model.vocabulary, max_tokens=limit)

    def write() -> DecodedTokens:
        processor.reset()
        made = generate_tokens(model, case.prompt, limit, [processor], **drawn)
        changed = partial(_limit_changed, model, automaton, case.prompt, made.tokens, limit)
        return replace(made, is_cut=changed)

    return write


def _engine(
    model: HuggingFaceModel,
    tokens: VocabularyData,
    name: str,
    limit: int,
    threads: int,
    drawn: Mapping[str, Any],
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
            processor = EngineProcessor(
                MaskedSequence(compiled, vocabulary), len(case.prompt), vocabulary.size
            )
            made = generate_tokens(model, case.prompt, limit, [processor], **drawn)
            ids = [*case.prompt, *made.tokens]
            return replace(
                made, is_cut=lambda: not made.ended and not _ends(model, ids, processor.allowed_after(ids))
            )

        return write

    return way


def _unconstrained(model: HuggingFaceModel, case: SpeedCase, limit: int, **options: Any) -> DecodedTokens:
    made = generate_tokens(model, case.prompt, limit, **options)
    ids = [*case.prompt, *made.tokens]
    every = np.arange(model.vocabulary.size)
    return replace(made, is_cut=lambda: not made.ended and not _ends(model, ids, every))


def _compiled(model: HuggingFaceModel, limit: int, drawn: Mapping[str, Any], case: SpeedCase) -> DecodeCall:
    """`generate` with a cache of fixed size: on a GPU transformers compiles its passes, for the longest text so far."""
    return lambda: _unconstrained(model, case, limit, counts=False, cache_implementation="static", **drawn)


def _ends(model: HuggingFaceModel, ids: Sequence[int], allowed: NDArray[np.integer[Any]]) -> bool:
    """Whether the model ends the sequence there: a text may have as many tokens as the limit, and be whole."""
    return _choice(model, ids, allowed) in model.vocabulary.eos_ids


def _choice(model: HuggingFaceModel, ids: Sequence[int], allowed: NDArray[np.integer[Any]]) -> int:
    """The likeliest allowed token behind `ids`; a pass over all of them, without a cache."""
    logits = model.forward([list(ids)], model.cache(1))[0]
    return int(allowed[np.argmax(logits[allowed])])


def _limit_changed(
    model: HuggingFaceModel, automaton: Automaton, prompt: Sequence[int], tokens: Sequence[int], limit: int
) -> bool:
    """Whether a greedy text would have gone on otherwise without the limit.

    The model is asked only where the limit excluded tokens.
    """
    vocabulary = automaton.vocabulary
    state, free, bound = automaton.start, automaton.new_mask(), automaton.new_mask()
    for i in range(len(tokens) + 1):
        automaton.fill_mask(state, free)
        automaton.fill_mask_within(state, bound, limit - i)
        if (free != bound).any():
            token = _choice(model, [*prompt, *tokens[:i]], unpack_ids(free))
            if token not in (vocabulary.eos_ids if i == len(tokens) else tokens[i : i + 1]):
                return True
        if i < len(tokens):
            state = automaton.next(state, tokens[i])
    return False


def generate_tokens(
    model: HuggingFaceModel,
    prompt: Sequence[int],
    limit: int,
    processors: Sequence[LogitsProcessor] = (),
    *,
    counts: bool = True,
    **options: Any,
) -> DecodedTokens:
    """What `generate` of transformers writes; without `counts` no hook is in the way of a compiler, and a pass is a token.

    Greedy, unless the `options` of `generate` say something else.
    """
    import torch

    ids = torch.tensor([prompt], device=model.device)
    ends = list(model.vocabulary.eos_ids)
    watch = ForwardCounter(model.model)
    with torch.inference_mode(), watch if counts else nullcontext():
        out = model.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=limit,
            logits_processor=list(processors),
            eos_token_id=ends,
            pad_token_id=ends[0],
            **{"do_sample": False, **options},
        )
    tokens = out[0, len(prompt) :].tolist()
    text = [token for token in tokens if token not in ends]
    return DecodedTokens(
        text, bool(tokens) and tokens[-1] in ends, watch.passes if counts else len(tokens), watch.seconds
    )
