"""The model ``constrained`` of the harness."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from lm_eval import utils
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import has_bos_prefix
from tqdm import tqdm

from constrained.constraint import json_schema
from constrained.errors import InvalidArgument, ModelError, PromptError
from constrained.integrations.lm_eval.generation import BatchWriter, RequestTally
from constrained.integrations.lm_eval.requests import parse_requests
from constrained.integrations.lm_eval.scoring import score_continuations
from constrained.models import load
from constrained.models.hugging_face import HuggingFaceModel
from constrained.prompting.chat_template import apply_template
from constrained.sampling import Sampler, resolve_sampler

_log = logging.getLogger(__name__)

AUTO_BATCH_SIZE = 16
"""What ``batch_size=auto`` means: the size is not searched for."""


@register_model("constrained")
class ConstrainedLM(TemplateLM):  # type: ignore[misc]
    """A model of transformers that completes each document under its JSON Schema.

    Documents without a schema are completed without a constraint, and likelihoods are those of the model, so every task
    of the harness runs. `tally` and, after each run, the log count what happened to the schemas.

    Attributes:
        model: the language model.
        tokenizer: its tokenizer.
        tally: counts of the outcomes of the last run's requests.
    """

    def __init__(
        self,
        pretrained: Any = None,
        tokenizer: Any = None,
        *,
        device: str | None = None,
        dtype: Any = None,
        batch_size: int | str | None = 1,
        max_batch_size: int | None = None,
        max_length: int | None = None,
        max_gen_toks: int = 256,
        sampler: str | Sampler = "local",
        speculation: Any = None,
        schema: str = "json_schema",
        on_refusal: str = "empty",
        seed: int | None = None,
        enable_thinking: bool = False,
        **options: Any,
    ) -> None:
        """Loads the model.

        Args:
            pretrained: as `constrained.load` takes it; nothing: the bundled one.
            tokenizer: likewise.
            device: likewise; without a GPU the CPU is used, since the harness requests a GPU by default.
            dtype: likewise.
            batch_size: requests side by side; ``auto``: 16.
            max_batch_size: accepted for the harness, and not needed.
            max_length: context length, if shorter than the model's.
            max_gen_toks: token limit of a completion if the task sets none.
            sampler: of completions under a schema. Samplers of the conditional distribution draw at temperature 1 if the
                task sets none; the others are greedy then.
            speculation: as for `Generator`.
            schema: where documents have their schema: names of members with dots between them; empty: nowhere.
            on_refusal: ``empty``: a schema that cannot be enforced, or not within the limit of tokens, is counted and
                has an empty completion; ``error``: it ends the run.
            seed: of all draws; by default one from torch's generator, which the harness seeds.
            enable_thinking: for the chat template.
            options: for `json_schema`, such as ``whitespace``.

        Raises:
            ModelError, VocabularyError, ModelMismatch: the model cannot be used.
            InvalidArgument: a setting is not known, or out of range.
        """
        super().__init__()
        if on_refusal not in ("empty", "error"):
            raise InvalidArgument(f"on_refusal is {on_refusal!r}", action="use 'empty' or 'error'")
        try:
            json_schema(True, **options)
        except TypeError:
            raise InvalidArgument(
                f"unknown arguments: {', '.join(options)}",
                action="use the arguments of ConstrainedLM, or those of json_schema",
            ) from None
        self.sampler = resolve_sampler(sampler)
        loaded = load(pretrained, tokenizer, device=_there(device), dtype=dtype)
        if not isinstance(loaded, HuggingFaceModel) or loaded.tokenizer is None:
            raise ModelError(
                f"a {type(loaded).__name__} cannot be evaluated",
                action="pass the name of a model of transformers, or load(model, tokenizer)",
            )
        self.model = loaded
        self.tokenizer = loaded.tokenizer
        self.batch_size = AUTO_BATCH_SIZE if str(batch_size).startswith("auto") else int(batch_size or 1)
        self.max_length = min((length for length in (max_length, loaded.context) if length), default=2048)
        self.max_gen_toks = int(max_gen_toks)
        self.tally = RequestTally()
        self._speculation = speculation
        self._place = schema or ""
        self._strict = on_refusal == "error"
        self._seed = seed
        self._thinking = enable_thinking
        self._options = options

    # ------------------------------------------------------------ texts

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """The text of each request, in their order; those under a schema are not cut at stops."""
        import torch

        todo = parse_requests(requests, self._place, self.max_gen_toks)
        seed = int(torch.randint(0, 2**53, ()).item()) if self._seed is None else self._seed
        writer = BatchWriter(
            self.model,
            self.sampler,
            self._speculation,
            self._options,
            self.tok_encode,
            context=self.max_length,
            strict=self._strict,
            seed=seed,
        )
        self.tally = writer.tally
        completions = [""] * len(todo)
        for places in self._batches([len(one.prompt) for one in todo], "Writing texts", disable_tqdm):
            texts = writer.completions([todo[place] for place in places])
            for place, text in zip(places, texts, strict=True):
                completions[place] = text
                self.cache_hook.add_partial("generate_until", todo[place].arguments, text)
        _log.log(logging.WARNING if self.tally.refused else logging.INFO, "%s", self.tally)
        return completions

    # ------------------------------------------------------------ likelihoods

    def _loglikelihood_tokens(
        self, requests: list[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False, **_: Any
    ) -> list[tuple[float, bool]]:
        scores: list[tuple[float, bool]] = [(0.0, False)] * len(requests)
        sizes = [sum(map(len, one[1:])) for one in requests]
        for places in self._batches(sizes, "Scoring texts", disable_tqdm):
            pairs = [requests[place][1:] for place in places]
            found = score_continuations(self.model, pairs, self.max_length)
            for place, score in zip(places, found, strict=True):
                scores[place] = score
                if requests[place][0] is not None:
                    self.cache_hook.add_partial("loglikelihood", requests[place][0], score)
        return scores

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """The log-probability of each whole text, in windows of the model's context."""
        windows: list[tuple[None, list[int], list[int]]] = []
        owners: list[int] = []
        for owner, request in enumerate(requests):
            for pair in utils.get_rolling_token_windows(
                self.tok_encode(request.args[0]), self.prefix_token_id, self.max_length, 1
            ):
                before, text = utils.make_disjoint_window(pair)
                windows.append((None, before, text))
                owners.append(owner)
        totals = [0.0] * len(requests)
        for owner, (score, _) in zip(
            owners, self._loglikelihood_tokens(windows, disable_tqdm=disable_tqdm), strict=True
        ):
            totals[owner] += score
        for request, total in zip(requests, totals, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def _batches(self, sizes: Sequence[int], what: str, hidden: bool) -> Iterator[list[int]]:
        """The places of requests of these sizes, the long ones first: what does not fit into memory is known at once."""
        order = sorted(range(len(sizes)), key=lambda place: -sizes[place])
        with tqdm(total=len(sizes), desc=what, disable=hidden) as bar:
            for at in range(0, len(order), self.batch_size):
                yield order[at : at + self.batch_size]
                bar.update(len(order[at : at + self.batch_size]))

    # ------------------------------------------------------------ prompts

    @property
    def eot_token_id(self) -> int:
        """The end of a text."""
        end = self.tokenizer.eos_token_id
        return int(self.model.vocabulary.eos_ids[0] if end is None else end)

    @property
    def prefix_token_id(self) -> int:
        """What stands before a text that has nothing before it."""
        begin = self.tokenizer.bos_token_id
        return self.eot_token_id if begin is None else int(begin)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        """The ids of a text, with the special tokens of its tokenizer unless it begins with them."""
        if add_special_tokens is None:
            begins = has_bos_prefix(string, self.tokenizer.decode([self.prefix_token_id]))
            add_special_tokens = not begins
        ids: Sequence[int] = self.tokenizer(string, add_special_tokens=add_special_tokens)["input_ids"]
        return [int(token) for token in ids]

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """A chat as the model reads it.

        Raises:
            PromptError: the template refuses it, or there is none.
        """
        try:
            return apply_template(
                self.tokenizer,
                chat_history,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
                enable_thinking=self._thinking,
            )
        except PromptError as error:
            raise PromptError(
                error.summary,
                action="leave out --apply_chat_template, or use a model with a template that takes such chats",
            ) from None

    @property
    def tokenizer_name(self) -> str:
        """Names the tokenizer where the harness keeps prompts."""
        return str(self.tokenizer.name_or_path).replace("/", "__")


def _there(device: str | None) -> str | None:
    import torch

    return None if device and device.startswith("cuda") and not torch.cuda.is_available() else device
