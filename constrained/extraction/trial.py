"""`passes_trial`: whether a model writes what a text says right, which small ones do not: they make values up."""

from __future__ import annotations

import json
from itertools import accumulate
from typing import Any, Literal
from weakref import WeakKeyDictionary

from constrained.constraint.generated import generated_constraint
from constrained.decoding.prompt_reader import score_tree
from constrained.extraction.prompt import extraction_prompt
from constrained.models import LanguageModel
from constrained.sampling.token_tree import TokenTree

Lists = Literal["auto", "apart", "whole"]
"""Who writes lists: records and items that are no phrases of a text; see `writes_lists`."""

RIGHT = 14
"""Values of the trial, of `VALUES`, that a model has to begin right."""

_TEXT = (
    "Blue Fig is a bakery in the old town that sells cheap bread. Harbour Nine is an expensive restaurant by the harbour. "
    "It has Greek food, and children are welcome. For Indian food try Saffron, a moderate restaurant near Blue Fig. "
    "It does not let children in."
)
_RECORDS: list[dict[str, Any]] = [
    {"name": "Blue Fig", "kind": "bakery", "prices": "cheap", "area": "old town"},
    {"name": "Harbour Nine", "kind": "restaurant", "food": "Greek", "prices": "expensive", "area": "harbour", "children": True},
    {"name": "Saffron", "kind": "restaurant", "food": "Indian", "prices": "moderate", "children": False, "near": "Blue Fig"},
]  # fmt: skip
_PLACE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "kind": {"enum": ["bakery", "cafe", "restaurant"]},
        "food": {"enum": ["Greek", "Indian", "Italian"]},
        "prices": {"enum": ["cheap", "moderate", "expensive"]},
        "area": {"enum": ["centre", "harbour", "old town"]},
        "children": {"type": "boolean"},
        "near": {"type": "string"},
    },
    "required": ["name", "kind"],
}
TYPE = {"type": "array", "items": _PLACE}
ANSWER = json.dumps(_RECORDS)
VALUES = sum(map(len, _RECORDS))
_known: WeakKeyDictionary[LanguageModel, bool] = WeakKeyDictionary()


def passes_trial(model: LanguageModel) -> bool:
    """Whether a model begins the values of three records right, each behind the right ones before; one pass, once for each model."""
    if model not in _known:
        _known[model] = right_values(model) >= RIGHT
    return _known[model]


def writes_lists(model: LanguageModel, lists: Lists) -> bool:
    """Whether a model writes lists itself: ``"auto"``: if it passes the trial."""
    return passes_trial(model) if lists == "auto" else lists == "whole"


def right_values(model: LanguageModel) -> int:
    """How many values of the trial a model begins right."""
    prompt = model.encode(extraction_prompt(_TEXT, generated_constraint(TYPE)))
    tokens = model.vocabulary.encode(ANSWER)
    scores = score_tree(model, prompt, TokenTree.of([tokens]), [None])
    texts = [model.vocabulary.tokens[token] for token in tokens]
    ends = list(accumulate(map(len, texts)))
    right, at = 0, 0
    for value in (value for record in _RECORDS for value in record.values()):
        written = json.dumps(value)
        at = ANSWER.index(f": {written}", at) + 2
        first = at + isinstance(value, str)
        number = next(index for index, end in enumerate(ends) if end > first)
        likeliest = model.vocabulary.tokens[int(scores.likeliest[number - 1])].decode("utf-8", "replace")
        begun = likeliest.lstrip(' "')
        right += bool(begun) and written.strip('"').startswith(begun)
    return right
