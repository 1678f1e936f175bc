"""`ConstraintLogitsProcessor`: constraints for any decoding that `generate` of transformers has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from transformers import LogitsProcessor

from constrained.automaton.bitmask import pack_ids, unpack_bits, zero_mask
from constrained.automaton.cache import compile_cached
from constrained.automaton.device_masks import DeviceMaskCache, vocabulary_of_masks
from constrained.automaton.forced_tokens import Spelling, forced_within, is_canonical
from constrained.automaton.protocol import DEAD, NO_LIMIT
from constrained.decoding.limits import check_max_tokens
from constrained.errors import BudgetExhausted, InvalidArgument, ModelMismatch
from constrained.integrations.transformers.histories import SequenceTracker, TrackedSequence
from constrained.models.upload import upload
from constrained.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch


class ConstraintLogitsProcessor(LogitsProcessor):
    """Masks the tokens after which the output cannot be completed.

        processor = ConstraintLogitsProcessor(constraint, tokenizer, max_tokens=200)
        model.generate(**inputs, logits_processor=[processor], max_new_tokens=200)

    Works with greedy decoding, sampling, beams, `num_return_sequences`, left-padded batches and assistants, and can
    be used for one call of `generate` after another (not for two at a time). What follows the prompt is the text;
    tokens that `generate` returned and that are passed again as a prompt are a prompt, except for a call that
    continues with exactly the rows of the last one, which goes on with its texts.

    With beams, where the constraint allows fewer texts than there are beams, `generate` fills up with sequences whose
    score is -inf (or -1e9): look at ``sequences_scores``.

    Attributes:
        vocabulary: of the tokenizer.
        max_tokens: see below.
    """

    supports_continuous_batching = False
    """Continuous batching moves rows without passing which sequence a row is."""

    def __init__(
        self,
        constraint: Any,
        tokenizer: Any,
        *,
        max_tokens: int | None = None,
        spelling: Spelling = "canonical",
        assisted: bool = False,
        places: int = 1024,
    ) -> None:
        """Compiles the constraint.

        Args:
            constraint: a `Constraint`, a Python type, a JSON Schema or an `Automaton`; or a list of them, one for
                each prompt of the batch.
            tokenizer: the model's, or a `Vocabulary`.
            max_tokens: what `generate` gets as `max_new_tokens`: every text is complete within it. Without it a text
                that reaches the limit of `generate` is cut off.
            spelling: how text that is forced is spelled, as of `constrained.Local`.
            assisted: for assisted decoding (`assistant_model`, `prompt_lookup_num_tokens`), where texts go back.
            places: masks that are kept on the model's device.

        Raises:
            ConstraintError, ConstraintTooLarge: a constraint cannot be enforced.
            DoesNotFit: no complete text has only `max_tokens` tokens.
            InvalidArgument: no constraint was passed, or there is no such spelling.
            VocabularyError, ModelMismatch: the tokenizer cannot be used, or an automaton is of another one.
        """
        self.vocabulary = (
            tokenizer if isinstance(tokenizer, Vocabulary) else Vocabulary.from_tokenizer(tokenizer)
        )
        several = constraint if isinstance(constraint, list | tuple) else [constraint]
        if not several:
            raise InvalidArgument("a constraint is missing", action="pass one, or one for each prompt")
        automata = [compile_cached(constraint, self.vocabulary)[1] for constraint in several]
        self.max_tokens = max_tokens
        for automaton in automata:
            check_max_tokens(automaton, max_tokens, ", also as max_new_tokens")
        self._canonical = is_canonical(spelling)
        self._histories = SequenceTracker(automata, assisted=assisted)
        costly = any(automaton.expensive_membership for automaton in automata)
        self._sent = None if max_tokens is not None or costly else vocabulary_of_masks(automata)
        self._places = places
        self._mirror: DeviceMaskCache | None = None

    def reset(self) -> None:
        """Says that whatever comes next is a new call of `generate`."""
        self._histories.forget()

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """See `LogitsProcessor`.

        Args:
            input_ids: int64 ``[rows, length]``.
            scores: floating ``[rows, columns]``; columns beyond the vocabulary are padding and are masked too.

        Returns:
            The scores, -inf where a token is not allowed.

        Raises:
            ModelMismatch: fewer columns than tokens.
            InvalidArgument: another processor forced a token that the constraint does not allow.
            BudgetExhausted: a predicate led to a dead end.
        """
        if scores.shape[-1] < self.vocabulary.size:
            raise ModelMismatch(
                f"the model returned {scores.shape[-1]} scores for a vocabulary of {self.vocabulary.size} ids",
                action="use the tokenizer the model was trained with",
            )
        places = self._histories.track(input_ids)
        for row, place in enumerate(places):
            # Spare beams and an assistant's draft tokens may violate the constraint.
            if (
                place.state == DEAD
                and self._histories.has_unique_prompt(row)
                and not self._histories.assisted
            ):
                raise InvalidArgument(
                    f"row {row}: the constraint does not allow its last token",
                    action="remove processors that force or forbid tokens after this one",
                )
        masked = masked_scores(scores, *self._masks(places, scores.device))
        forced = {
            row: token for row, place in enumerate(places) if (token := self._forced(place)) is not None
        }
        return _keep_only(masked, list(forced), list(forced.values())) if forced else masked

    def _masks(
        self, places: Sequence[TrackedSequence], device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Masks on the device, and which of them each row has; see `masked_scores`."""
        if self._sent is not None and not any(place.ended or place.state == DEAD for place in places):
            if self._mirror is None or self._mirror.table.device != device:
                self._mirror = DeviceMaskCache(self._sent, device, slots=max(self._places, len(places)))
            if len(places) <= len(self._mirror.table):
                slots = self._mirror.slots([p.automaton for p in places], [p.state for p in places])
                return self._mirror.table, slots
        host = zero_mask(self.vocabulary.size, len(places))
        for place, row in zip(places, host, strict=True):
            self._fill(place, row)
        (table,) = upload(device, host)
        return table, None

    def _fill(self, place: TrackedSequence, row: Any) -> None:
        if place.ended or (place.state == DEAD and self._histories.assisted):
            # Padding: any token will do.
            row[:] = pack_ids(self.vocabulary.eos_ids, self.vocabulary.size)
        elif place.state != DEAD:
            place.automaton.fill_mask_within(place.state, row, self._left(place))
            if not row.any():
                raise BudgetExhausted(
                    "a sequence reached a dead end: no token is allowed",
                    action="set max_new_tokens to max_tokens; use custom_generate=constrained.decode for predicates",
                )

    def _left(self, place: TrackedSequence) -> int:
        return NO_LIMIT if self.max_tokens is None else max(0, self.max_tokens - place.length)

    def _forced(self, place: TrackedSequence) -> int | None:
        if not self._canonical or place.ended or place.state == DEAD:
            return None
        return forced_within(place.automaton, place.state, self._left(place))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.vocabulary!r}, max_tokens={self.max_tokens})"


def masked_scores(
    scores: torch.Tensor, masks: torch.Tensor, mask_ids: torch.Tensor | None = None
) -> torch.Tensor:
    """Scores, -inf where a mask does not allow the token; the given scores do not change.

    Args:
        scores: floating ``[rows, columns]``; columns beyond the masks are masked.
        masks: int32 ``[masks, words]``, on the device of the scores; token t at bit ``t % 32`` of word ``t // 32``.
        mask_ids: index of the mask of each row, int32 ``[rows]``; None: row i has mask i.
    """
    import torch

    from constrained.spec.kernels import apply_masks
    from constrained.spec.kernels.checks import FLOATS
    from constrained.spec.kernels.masking import apply_masks_torch

    if scores.device.type == "cpu":
        rows = masks if mask_ids is None else masks.index_select(0, mask_ids)
        return scores.masked_fill(_forbidden_on_host(rows, scores.shape[-1]), float("-inf"))
    if mask_ids is None:
        mask_ids = torch.arange(len(masks), dtype=torch.int32, device=masks.device)
    masked = scores.clone(memory_format=torch.contiguous_format)
    (apply_masks if scores.dtype in FLOATS else apply_masks_torch)(masked, masks, mask_ids)
    return masked


def _keep_only(scores: torch.Tensor, rows: list[int], tokens: list[int]) -> torch.Tensor:
    """Masks all tokens of some rows but one, where no other processor forbids that one.

    Args:
        scores: ``[all rows, columns]``, changed in place.
        rows: indices of rows.
        tokens: the token of each of these rows.
    """
    import torch

    at = torch.tensor(rows, device=scores.device), torch.tensor(tokens, device=scores.device)
    kept = scores[at].unsqueeze(1)
    only = torch.full_like(scores[at[0]], float("-inf")).scatter_(1, at[1].unsqueeze(1), kept)
    scores[at[0]] = torch.where(kept == float("-inf"), scores[at[0]], only)
    return scores


def _forbidden_on_host(masks: torch.Tensor, columns: int) -> torch.Tensor:
    """What masks do not allow, bool ``[rows, columns]``: in numpy, which is much faster on the host."""
    import torch

    spread = torch.from_numpy(unpack_bits((~masks).numpy()))
    if spread.shape[1] < columns:
        return torch.nn.functional.pad(spread, (0, columns - spread.shape[1]), value=True)
    return spread[:, :columns]
