"""`decode`: runs `Generator` as ``model.generate(custom_generate=constrained.decode)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from constrained.decoding import Generator, Output
from constrained.errors import InvalidArgument, Problem
from constrained.integrations.transformers.result import ConstrainedOutput
from constrained.models.capabilities import CACHE_NAMES
from constrained.models.hugging_face import HuggingFaceModel
from constrained.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch

_HONOURED = frozenset(
    {"do_sample", "temperature", "top_k", "top_p", "min_p", "max_length", "max_new_tokens"}
    | {"num_return_sequences", "return_dict_in_generate", "eos_token_id", "pad_token_id", "bos_token_id"}
)
_WITHOUT_EFFECT = frozenset(
    # Settings of transformers' cache, compilation and assisted decoding, which do not change the completion.
    {
        "use_cache",
        "cache_implementation",
        "cache_config",
        "max_cache_len",
        "compile_config",
        "disable_compile",
    }
    | {"low_memory", "continuous_batching_config", "prefill_chunk_size", "transformers_version", "use_mtp"}
    | {"num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"}
    | {"assistant_lookbehind", "target_lookbehind", "max_matching_ngram_size", "assistant_ensemble_weight"}
    | {"speculation_type", "early_stopping", "length_penalty", "is_assistant", "decoder_start_token_id"}
    | {"renormalize_logits", "remove_invalid_values"}
)
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_beam_groups": (1,),
    "repetition_penalty": (1.0,),
    "encoder_repetition_penalty": (1.0,),
    "typical_p": (1.0,),
    "top_h": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "diversity_penalty": (0.0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "guidance_scale": (1.0,),
    "min_length": (0,),
}
"""Values without effect; other values of these fields, and fields that are not listed, are refused."""

_OWN_CRITERIA = frozenset({"MaxLengthCriteria", "EosTokenCriteria"})
_OWN_PROCESSORS = frozenset(
    {"TemperatureLogitsWarper", "TopKLogitsWarper", "TopPLogitsWarper", "MinPLogitsWarper"}
    | {"InfNanRemoveLogitsProcessor", "LogitNormalization"}
)


def decode(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Sequence[Any],
    stopping_criteria: Sequence[Any],
    generation_config: Any,
    *,
    constraint: Any = None,
    vocabulary: Vocabulary | None = None,
    sampler: Any = None,
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
    synced_gpus: bool = False,
    streamer: Any = None,
    **model_kwargs: Any,
) -> torch.Tensor | ConstrainedOutput:
    """Generates under a constraint, with the samplers of this library; called by `generate`.

        model.generate(**inputs, custom_generate=constrained.decode, constraint=schema, vocabulary=vocabulary,
                       max_new_tokens=200)

    Every completion is complete within `max_new_tokens`. Left-padded batches and `num_return_sequences` give independent
    completions, as in `Generator.batch`. Of the generation configuration `do_sample`, `temperature`, `top_k`, `top_p`,
    `min_p` and the lengths have the meaning that they have in `generate` (where sampling has ``top_k=50`` unless it is
    set to 0); any other setting that would change a completion is refused by name. A `streamer` receives nothing,
    because `generate` does not pass it on.

    Args:
        model: the model; passed by `generate`, like the arguments up to `generation_config`.
        input_ids: prompts, int64 ``[batch, length]``.
        logits_processor: only those that `generate` creates for the supported settings.
        stopping_criteria: likewise.
        generation_config: see above.
        constraint: a `Constraint`, a Python type, a JSON Schema or an `Automaton`.
        vocabulary: of the model's tokenizer, by `Vocabulary.from_tokenizer`; an automaton brings its own.
        sampler: as for `Generator`.
        seed: as for `Generator`; None: drawn from torch's generator, so that `torch.manual_seed` applies.
        options: further arguments of `Generator`.
        synced_gpus: refused.
        streamer: not passed by `generate`.
        model_kwargs: the attention mask is read; embeddings and filled caches are refused.

    Returns:
        int64 ``[batch, length]``: prompts and completions, each with an EOS token unless it reaches the limit, padded on
        the right; or a `ConstrainedOutput`.

    Raises:
        InvalidArgument: a setting is not supported; names it.
        ConstrainedError: see `Generator`.
    """
    import torch

    if constraint is None:
        raise InvalidArgument("a constraint is missing", action="pass constraint=... to generate")
    vocabulary = vocabulary or getattr(constraint, "vocabulary", None)
    if vocabulary is None:
        raise InvalidArgument(
            "the model's vocabulary is not known here",
            action="pass vocabulary=Vocabulary.from_tokenizer(tokenizer, model=model), or a compiled automaton",
        )
    _refuse(generation_config, logits_processor, stopping_criteria, model_kwargs, synced_gpus=synced_gpus)
    generator = Generator(HuggingFaceModel(model, vocabulary), constraint, sampler=sampler, **(options or {}))
    settings = _settings(generation_config)
    if seed is None and settings:
        seed = int(torch.randint(0, 2**53, ()).item())
    limit = int(generation_config.max_length) - input_ids.shape[1]
    prompts = _prompts(input_ids, model_kwargs.get("attention_mask"))
    outputs = generator.batch(prompts, max_tokens=limit, seed=seed, **settings)
    sequences = _joined(input_ids, outputs, limit, generation_config, vocabulary)
    if not generation_config.return_dict_in_generate:
        return sequences
    return ConstrainedOutput(sequences=cast("Any", sequences), outputs=tuple(outputs))


def _settings(config: Any) -> dict[str, Any]:
    """Temperature and truncations; empty for greedy decoding."""
    if not config.do_sample:
        return {}
    named = {"temperature": 1.0 if config.temperature is None else config.temperature}
    if config.top_k:
        named["top_k"] = config.top_k
    if config.top_p is not None and config.top_p < 1.0:
        named["top_p"] = config.top_p
    if config.min_p:
        named["min_p"] = config.min_p
    return named


def _prompts(input_ids: torch.Tensor, mask: torch.Tensor | None) -> list[list[int]]:
    """The prompts without padding."""
    rows: list[list[int]] = input_ids.tolist()
    if mask is None:
        return rows
    attended = mask.bool().tolist()
    return [
        [token for token, real in zip(row, flags, strict=True) if real]
        for row, flags in zip(rows, attended, strict=True)
    ]


def _joined(
    input_ids: torch.Tensor, outputs: Sequence[Output], limit: int, config: Any, vocabulary: Vocabulary
) -> torch.Tensor:
    import torch

    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    end = next((token for token in ends if token in vocabulary.eos_ids), vocabulary.eos_ids[0])
    completions = [[*output.tokens, *([end] if len(output.tokens) < limit else [])] for output in outputs]
    padding = end if config.pad_token_id is None else int(config.pad_token_id)
    width = max(map(len, completions))
    padded = [tokens + [padding] * (width - len(tokens)) for tokens in completions]
    # The reshape sets the batch size also when the width is 0.
    new = torch.tensor(padded, dtype=input_ids.dtype, device=input_ids.device).reshape(
        len(completions), width
    )
    return torch.cat([input_ids, new], dim=1)


def _refuse(
    config: Any,
    processors: Sequence[Any],
    criteria: Sequence[Any],
    model_kwargs: Mapping[str, Any],
    *,
    synced_gpus: bool,
) -> None:
    """Refuses unsupported settings that would change a completion.

    Raises:
        InvalidArgument: names all of them.
    """
    problems = [
        Problem(name, "is not honoured", value)
        for name, value in config.to_dict().items()
        if not name.startswith("_")
        and name not in _HONOURED | _WITHOUT_EFFECT
        and value not in (None, False, *_NEUTRAL.get(name, ()))
    ]
    problems += [
        Problem(type(criterion).__name__, "is not run")
        for criterion, own in [
            *((processor, _OWN_PROCESSORS) for processor in processors),
            *((criterion, _OWN_CRITERIA) for criterion in criteria),
        ]
        if type(criterion).__name__ not in own and not _implied(type(criterion).__name__, problems)
    ]
    problems += [
        Problem(name, "contains tokens already, and decode uses its own cache")
        for name in CACHE_NAMES
        if model_kwargs.get(name) is not None and model_kwargs[name].get_seq_length() > 0
    ]
    problems += [
        Problem(name, "is not read: prompts are token ids")
        for name in ("inputs_embeds", "encoder_outputs")
        if model_kwargs.get(name) is not None
    ]
    if synced_gpus:
        problems.append(Problem("synced_gpus", "is not supported"))
    if problems:
        raise InvalidArgument(
            "constrained.decode does not support these settings of generate",
            problems,
            action="leave it out, or use ConstraintLogitsProcessor with generate's own loop",
        )


def _implied(name: str, problems: Sequence[Problem]) -> bool:
    """Whether a processor or criterion was created for a field that is already in `problems`."""
    plain = name.lower()
    return any(problem.place.replace("_", "").removesuffix("size") in plain for problem in problems)
