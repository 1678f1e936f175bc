"""Closed questions: the members of an object that have few values, and constraints that have few texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.cache import compile_cached
from constrained.automaton.closed_texts import closed_language
from constrained.errors import ConstrainedError
from constrained.grammars.json_pointer import escape
from constrained.grammars.json_schema.view import target_of, without_null

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.constraint import Constraint
    from constrained.vocabulary import Vocabulary

MOST_OPTIONS = 255
"""Options of a member that is asked about."""
ABSENT = "(absent)"
"""The text of the option to leave a member out."""
DEEPEST = 4
"""Objects around a member."""


@dataclass(frozen=True)
class ClosedAnswer:
    """A value that may be the answer.

    Attributes:
        text: as it is written, in JSON for a member; `ABSENT`: the member is left out.
        tokens: that write it, behind the prompt.
        ends: the tokens of which one has to follow; None: anything may.
    """

    text: str
    tokens: tuple[int, ...]
    ends: NDArray[np.intp] | None


@dataclass(frozen=True)
class Question:
    """A closed question.

    Attributes:
        pointer: JSON Pointer of the member; "": the whole value.
        options: at least two.
        lead: number of first tokens that all options share, and that are no part of them.
        is_json: whether the texts of the options are JSON.
        about: what the schema says of the member, or its name; None: the whole value.
    """

    pointer: str
    options: tuple[ClosedAnswer, ...]
    lead: int = 0
    is_json: bool = True
    about: str | None = None

    def value(self, index: int) -> Any:
        """The value of an option; None for `ABSENT`."""
        text = self.options[index].text
        if text == ABSENT:
            return None
        return json.loads(text) if self.is_json else text


def whole_question(automaton: Automaton, *, is_json: bool) -> Question | None:
    """The question for the whole text of a constraint; None if it has too many texts, or a single one."""
    texts = closed_language(automaton)
    if texts is None or len(texts) < 2:
        return None
    ends = np.array(sorted(automaton.vocabulary.eos_ids), dtype=np.intp)
    options = tuple(
        ClosedAnswer(text.text.decode("utf-8", "replace"), text.tokens, None if text.only_end else ends)
        for text in texts
    )
    return Question("", options, is_json=is_json)


def closed_questions(
    constraint: Constraint, vocabulary: Vocabulary, most: int = MOST_OPTIONS, *, nullable: bool = False
) -> tuple[Question, ...]:
    """The members of a constraint's JSON object that have few values, also those of objects inside, in their order.

    Members of items of arrays, and those of alternatives, are no questions: whether they are there depends on others.

    Args:
        constraint: of JSON with a schema; others have no questions.
        vocabulary: of the model.
        most: options of a question.
        nullable: see `leaf_members`.
    """
    schema = constraint.enforced_schema
    if not constraint.is_json or not isinstance(schema, Mapping):
        return ()
    return tuple(_questions(constraint, leaf_members(schema, nullable=nullable), schema, vocabulary, most))


def _questions(
    constraint: Any, members: Iterable[Leaf], schema: Any, vocabulary: Vocabulary, most: int
) -> Iterator[Question]:
    for path, member, optional in members:
        texts = _member_texts(constraint, member, schema, vocabulary, most)
        if texts:
            question = member_question(constraint, texts, vocabulary, path, optional)
            if question is not None:
                described = member.get("description")
                yield replace(question, about=described if isinstance(described, str) else path[-1])


Leaf = tuple[tuple[str, ...], Any, bool]
"""A member that is no object: the names of the objects around it and its own, its schema, and whether it may be left out."""


def leaf_members(schema: Any, root: Any = None, *, nullable: bool = False) -> Iterator[Leaf]:
    """The members of an object that are no objects, also those of required objects inside.

    Args:
        schema: of the object; any other has no members.
        root: the document of its references; None: `schema`.
        nullable: what may be null may be left out; and members of objects that may be left out are among them, as ones that may
            be left out, too.
    """
    yield from _leaves(schema, schema if root is None else root, (), nullable, False, ())


def _leaves(
    schema: Any, root: Any, path: tuple[str, ...], nullable: bool, may_miss: bool, around: tuple[int, ...]
) -> Iterator[Leaf]:
    schema = followed(schema, root)
    if not isinstance(schema, Mapping) or len(path) > DEEPEST or id(schema) in around:
        return
    for name, member, is_required in declared_members(schema):
        inside = followed(without_null(member), root) if nullable else member
        optional = may_miss or not is_required or (nullable and may_be_null(member))
        if not is_object(inside, root):
            yield (*path, name), member, optional
        elif nullable or is_required:
            yield from _leaves(inside, root, (*path, name), nullable, optional, (*around, id(schema)))


def declared_members(schema: Any) -> Iterator[tuple[str, Any, bool]]:
    """The members that a schema declares: name, schema, and whether it is required."""
    members, required = schema.get("properties"), schema.get("required", ())
    for name, member in members.items() if isinstance(members, Mapping) else ():
        yield name, member, name in required


def may_be_null(schema: Any) -> bool:
    """Whether a schema allows one kind of values and null: ``anyOf``, a list of types, or an enumeration."""
    if not isinstance(schema, Mapping):
        return False
    if None in schema.get("enum", ()):
        return True
    has_null = {"type": "null"} in schema.get("anyOf", ()) or "null" in schema.get("type", ())
    return has_null and without_null(schema) is not schema


def is_object(schema: Any, root: Any) -> bool:
    """Whether a schema declares members."""
    schema = followed(schema, root)
    return isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping)


def followed(schema: Any, root: Any) -> Any:
    """The schema that a reference leads to, if there is nothing beside it."""
    for _ in range(DEEPEST):
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            return schema
        if set(schema) & {"properties", "enum", "const", "type", "anyOf", "allOf", "oneOf"}:
            return schema
        schema = target_of(root, schema["$ref"])
    return None


def _member_texts(
    constraint: Any, member: Any, root: Any, vocabulary: Vocabulary, most: int
) -> list[str] | None:
    """The JSON texts of a member's values; None if there are too many."""
    automaton = member_automaton(constraint, member, root, vocabulary)
    texts = None if automaton is None else closed_language(automaton)
    if texts is None:
        return None
    spelled: dict[str, str] = {}  # by value: one text of it, without escapes if it has one
    for text in (one.text.decode("utf-8", "replace") for one in texts):
        plain = json.dumps(json.loads(text), ensure_ascii=False)
        spelled[plain] = text if text == plain else spelled.get(plain, text)
    return list(spelled.values()) if 2 <= len(spelled) <= most else None


def member_automaton(constraint: Any, member: Any, root: Any, vocabulary: Vocabulary) -> Automaton | None:
    """The automaton of a member's values; None where its schema is none, or cannot be compiled.

    Args:
        constraint: of the whole value.
        member: the schema of the member.
        root: the document of its references.
        vocabulary: of the model.
    """
    if not isinstance(member, Mapping):
        return None
    shared = {key: root[key] for key in ("$schema", "$defs", "definitions") if key in root}
    try:
        return compile_cached(constraint.with_schema({**shared, **member}), vocabulary)[1]
    except ConstrainedError:  # the whole constraint says what is wrong with it
        return None


def member_question(
    constraint: Any,
    texts: Sequence[str],
    vocabulary: Vocabulary,
    path: Sequence[str],
    optional: bool,
    before: str = "",
) -> Question | None:
    """The question which of some JSON texts a member has; None where there is nothing to ask.

    Args:
        constraint: of the whole value.
        texts: the options.
        vocabulary: of the model.
        path: names of the objects around the member, and its own.
        optional: whether to leave it out is the last option.
        before: what is written before the opening of the first object.
    """
    between, _ = constraint.separators
    lead = before + member_text(constraint, path)
    spelled: dict[str, ClosedAnswer] = {}
    for text in texts:
        spelled[text] = _option(vocabulary, lead, text, between)
    if optional:
        # Where null is a value it says the same, and else it is how a model would write that there is none.
        absent = spelled.pop("null", None) or _option(vocabulary, lead, "null", between)
        spelled[ABSENT] = ClosedAnswer(ABSENT, absent.tokens, absent.ends)
    options = tuple(spelled.values())
    if len(options) < 2:
        return None
    return Question(member_pointer(path), options, _lead_tokens(vocabulary, options, len(lead.encode())))


def member_text(constraint: Any, path: Sequence[str], value: str = "") -> str:
    """The opening of the objects around a member and its name, with the text of a value behind them."""
    _, behind_name = constraint.separators
    return "".join(f"{{{json_text(name)}{behind_name}" for name in path) + value


def member_pointer(path: Sequence[str]) -> str:
    """The JSON Pointer of a member."""
    return "".join(f"/{escape(name)}" for name in path)


def json_text(text: str) -> str:
    """A string as JSON writes it."""
    return json.dumps(text, ensure_ascii=False)


def _lead_tokens(vocabulary: Vocabulary, options: Sequence[ClosedAnswer], size: int) -> int:
    """How many first tokens all options share within the first `size` bytes."""
    count, read = 0, 0
    for column in zip(*(option.tokens for option in options)):  # noqa: B905 - of any lengths
        read += len(vocabulary.tokens[column[0]])
        if len(set(column)) > 1 or read > size:
            break
        count += 1
    return count


def _option(vocabulary: Vocabulary, lead: str, text: str, between: str) -> ClosedAnswer:
    """An option as the tokenizer writes it where another member follows.

    A string ends before its quote, which mostly is a token with what follows it.
    """
    last = b'"' if text.endswith('"') else b""
    size = len((lead + text).encode()) - len(last)
    tokens, read = [], 0
    for token in vocabulary.encode(lead + text + between):
        if read >= size:
            break
        tokens.append(token)
        read += len(vocabulary.tokens[token])
    if read > size:  # the last token is also a part of what follows
        return ClosedAnswer(text, tuple(tokens), None)
    return ClosedAnswer(text, tuple(tokens), _beginning_with(vocabulary, last or between[:1].encode() + b"}"))


def respelled(
    option: ClosedAnswer, lead: Sequence[int], begin: int, vocabulary: Vocabulary, between: str
) -> list[ClosedAnswer]:
    """The spellings of a string that begin with a token which the tokenizer would not write there, also with capital letters.

    Args:
        option: the string.
        lead: the tokens before it, with its quote.
        begin: the token.
        vocabulary: of the model.
        between: what stands before the next member.
    """
    value, begun = option.text[1:], vocabulary.tokens[begin]
    found = list[ClosedAnswer]()
    for one in dict.fromkeys((value, capitalized(value), " ".join(map(capitalized, value.split(" "))))):
        spelled = one.encode()
        if not spelled.startswith(begun) or option.tokens[len(lead) : len(lead) + 1] == (begin,):
            continue
        try:
            rest = _option(vocabulary, "", spelled[len(begun) :].decode(), between)
        except UnicodeDecodeError:  # the token ends within a character
            continue
        found.append(replace(option, tokens=(*lead, begin, *rest.tokens), ends=rest.ends))
    return found


def capitalized(text: str) -> str:
    """A text with a capital first letter; unlike `str.capitalize`, the others stay."""
    return text[:1].upper() + text[1:]


@lru_cache(maxsize=64)
def _beginning_with(vocabulary: Vocabulary, first: bytes) -> NDArray[np.intp]:
    """The tokens that begin with one of some bytes."""
    table = vocabulary.tokens
    blob = np.frombuffer(table.blob, dtype=np.uint8)
    filled = np.flatnonzero(np.diff(table.offsets) > 0)
    return filled[np.isin(blob[table.offsets[filled]], list(first))]
