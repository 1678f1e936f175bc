"""The tree of exceptions.

    ConstrainedError                        base of all: a summary, problems with places, a next step
    ├── ConstraintError (ValueError)        a constraint cannot be used; raised before any model runs
    │   ├── InvalidConstraint               malformed JSON Schema, regex or grammar
    │   ├── UnsupportedConstraint           valid, but cannot be enforced
    │   └── UnsatisfiableConstraint         no completion satisfies it
    ├── ConstraintTooLarge (RuntimeError)   a budget ran out while compiling a constraint
    ├── VocabularyError (ValueError)        a tokenizer whose tokens cannot be used
    │   └── ModelMismatch                   the vocabularies of model and tokenizer differ
    ├── ModelError (ValueError)             a model that cannot be loaded or used
    ├── PromptError (ValueError)            a prompt that cannot be read
    │   └── PromptTooLong                   the model's context has no room for a completion
    ├── DocumentError (ValueError)          a file of documents or results cannot be used
    ├── InvalidArgument (ValueError)        an argument is out of range or of a wrong type
    ├── DoesNotFit (ValueError)             max_tokens is below the length of every valid completion
    ├── PredicateError (RuntimeError)       a predicate raised, returned no bool, or timed out; carries the text
    ├── RejectedValue (ValueError)          the Python type rejects the value of a completion
    ├── Truncated (RuntimeError)            max_tokens cut a completion; carries the text, the partial value and the place
    ├── WorkerError (RuntimeError)          worker processes failed, or were lost
    └── BudgetExhausted (RuntimeError)      a sampler exhausted its budget; carries diagnostics

`constrained.grammars.errors` defines the base class and the errors about constraints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from constrained.grammars.errors import (
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
    "DocumentError",
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
    "WorkerError",
]

Problems = Iterable[Problem] | Problem


class VocabularyError(ConstrainedError, ValueError):
    """The tokens of a tokenizer cannot be used: no end of sequence, no exact bytes, or an unknown type."""


class ModelMismatch(VocabularyError):
    """A model and a tokenizer, or an automaton and a model, do not match."""


class ModelError(ConstrainedError, ValueError):
    """A model cannot be loaded, or its type is not supported."""


class PromptError(ConstrainedError, ValueError):
    """A prompt is empty, of the wrong type, or cannot be read."""


class PromptTooLong(PromptError):
    """A prompt leaves no room for the shortest valid completion in the model's context."""


class DocumentError(ConstrainedError, ValueError):
    """A file of documents or of results cannot be used: missing, of another type, malformed; names file and line."""


class InvalidArgument(ConstrainedError, ValueError):
    """An argument is out of range or of the wrong type."""


class DoesNotFit(ConstrainedError, ValueError):
    """`max_tokens` is below the length of every valid completion; raised before the first token.

    Attributes:
        needed: tokens of the shortest valid completion.
        limit: the `max_tokens` of the call.
    """

    extra_fields = ("needed", "limit")

    def __init__(
        self, summary: str, problems: Problems = (), *, action: str | None = None, needed: int, limit: int
    ) -> None:
        self.needed = needed
        self.limit = limit
        super().__init__(summary, problems, action=action)


class PredicateError(ConstrainedError, RuntimeError):
    """A predicate raised (`__cause__`), returned something other than a bool, or timed out.

    Attributes:
        predicate: its name.
        text: its argument.
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
    """An error with the completion that it is about.

    Attributes:
        text: the completion.
        value: its JSON value, or None.
        cut: where the token limit changed it, or None.
    """

    extra_fields = ("text", "value", "cut")

    def __init__(
        self,
        summary: str,
        problems: Problems = (),
        *,
        action: str | None = None,
        text: str = "",
        value: Any = None,
        cut: Any = None,
    ) -> None:
        self.text = text
        self.value = value
        self.cut = cut
        super().__init__(summary, problems, action=action)


class RejectedValue(_WithCompletion, ValueError):
    """A completion cannot be converted to a value of the Python type.

    A completion under the constraint raises this only for rules outside of the constraint: a validator of the type
    rejects the value, or the value exceeds a limit of Python. `__cause__` is the error of the type.

    Attributes:
        text: the whole completion.
        value: its JSON value; None if it is not JSON.
        cut: where the token limit changed the completion (`constrained.decoding.Cut`), or None.
    """


class Truncated(_WithCompletion, RuntimeError):
    """The token limit changed or ended a completion.

    Attributes:
        text: the completion up to there, a prefix of a valid one.
        value: the partial JSON value of `text`, or None.
        cut: where the limit changed or ended it (`constrained.decoding.Cut`).
    """


class WorkerError(ConstrainedError, RuntimeError):
    """A worker process could not begin, failed or was ended; or was lost again and again with the same documents."""


class BudgetExhausted(ConstrainedError, RuntimeError):
    """A sampler exhausted its budget without a result.

    Attributes:
        diagnostics: figures of the run by name, such as acceptance rate, number of draws, best completion so far.
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
