"""Everything that can go wrong, in one tree.

    ConstrainedError                        any of these: summary, problems with their places, what to do next
    ├── ConstraintError (ValueError)        a constraint cannot be used; raised before any model runs
    │   ├── InvalidConstraint               not a constraint at all: bad JSON Schema, regex or grammar text
    │   ├── UnsupportedConstraint           means something, but nothing that can be enforced
    │   └── UnsatisfiableConstraint         can be enforced, and no text satisfies it
    ├── ConstraintTooLarge (RuntimeError)   a budget ran out while compiling a constraint
    ├── VocabularyError (ValueError)        a tokenizer whose tokens cannot be used
    │   └── ModelMismatch                   a model whose vocabulary is not the tokenizer's
    ├── ModelError (ValueError)             a model that cannot be loaded or used
    ├── PromptError (ValueError)            a prompt that cannot be read
    │   └── PromptTooLong                   it leaves no room in the model's context
    ├── InvalidArgument (ValueError)        a setting of a call that is out of range
    ├── DoesNotFit (ValueError)             max_tokens is shorter than every complete text
    ├── PredicateError (RuntimeError)       a predicate raised, gave no bool, or took too long; carries the text
    ├── RejectedValue (ValueError)          a text is complete, and the wanted type refuses its value
    ├── Truncated (RuntimeError)            a run was cut off; carries the text and the partial value
    └── BudgetExhausted (RuntimeError)      a sampler ran out of its budget; carries what was learned

Those about constraints live in `grammars.errors`; the others belong to a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from grammars.errors import (
    ConstrainedError,
    ConstraintError,
    ConstraintTooLarge,
    InvalidConstraint,
    Problem,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)

__all__ = [
    "BudgetExhausted",
    "ConstrainedError",
    "ConstraintError",
    "ConstraintTooLarge",
    "DoesNotFit",
    "InvalidArgument",
    "InvalidConstraint",
    "ModelError",
    "ModelMismatch",
    "PredicateError",
    "Problem",
    "PromptError",
    "PromptTooLong",
    "RejectedValue",
    "Truncated",
    "UnsatisfiableConstraint",
    "UnsupportedConstraint",
    "VocabularyError",
]

Problems = Iterable[Problem] | Problem


class VocabularyError(ConstrainedError, ValueError):
    """The tokens of a tokenizer cannot be used: no end of sequence, no exact bytes, an unknown kind."""


class ModelMismatch(VocabularyError):
    """A model and a tokenizer, or an automaton and a model, do not belong together."""


class ModelError(ConstrainedError, ValueError):
    """A model cannot be loaded, or is of a kind that cannot be used."""


class PromptError(ConstrainedError, ValueError):
    """A prompt is empty, of the wrong type, or cannot be read."""


class PromptTooLong(PromptError):
    """A prompt leaves no room for the shortest complete text in the model's context."""


class InvalidArgument(ConstrainedError, ValueError):
    """A setting of a call is out of range or of the wrong type."""


class DoesNotFit(ConstrainedError, ValueError):
    """`max_tokens` is shorter than every complete text; raised before the first token.

    Attributes:
        needed: tokens of the shortest complete text.
        limit: the `max_tokens` that was asked for.
    """

    extra_fields = ("needed", "limit")

    def __init__(
        self, summary: str, problems: Problems = (), *, action: str | None = None, needed: int, limit: int
    ) -> None:
        self.needed = needed
        self.limit = limit
        super().__init__(summary, problems, action=action)


class PredicateError(ConstrainedError, RuntimeError):
    """A predicate did not answer: it raised (which is the cause, `__cause__`), gave no bool, or took too long.

    Attributes:
        predicate: its name.
        text: what it was asked about.
    """

    extra_fields = ("predicate", "text")

    def __init__(
        self,
        summary: str,
        problems: Problems = (),
        *,
        action: str | None = None,
        predicate: str = "",
        text: str | bytes = "",
    ) -> None:
        self.predicate = predicate
        self.text = text
        super().__init__(summary, problems, action=action)


class _WithCompletion(ConstrainedError):
    """An error that hands over the text it is about.

    Attributes:
        text: the text.
        value: the JSON value that can be read from it, or None.
    """

    extra_fields = ("text", "value")

    def __init__(
        self,
        summary: str,
        problems: Problems = (),
        *,
        action: str | None = None,
        text: str = "",
        value: Any = None,
    ) -> None:
        self.text = text
        self.value = value
        super().__init__(summary, problems, action=action)


class RejectedValue(_WithCompletion, ValueError):
    """A text does not become a value of the type that was asked for.

    Text that was generated under a constraint raises this only for what the constraint cannot know: a
    validator of the user's own type refuses the value, or the value exceeds what Python can hold. The error
    that the type raised is the cause (`__cause__`).

    Attributes:
        text: the whole text.
        value: its JSON value; None if it is not JSON.
    """


class Truncated(_WithCompletion, RuntimeError):
    """A run was cut off before its text was complete.

    Attributes:
        text: what was generated so far, a prefix of a valid text.
        value: the partial value that can be read from it, or None.
    """


class BudgetExhausted(ConstrainedError, RuntimeError):
    """A sampler ran out of its budget before it had a result.

    Attributes:
        diagnostics: what the run found out, by name: its acceptance rate, draws made, the best text so far.
    """

    extra_fields = ("diagnostics",)

    def __init__(
        self,
        summary: str,
        problems: Problems = (),
        *,
        action: str | None = None,
        diagnostics: Mapping[str, Any] | None = None,
    ) -> None:
        self.diagnostics: dict[str, Any] = dict(diagnostics or {})
        super().__init__(summary, problems, action=action)
