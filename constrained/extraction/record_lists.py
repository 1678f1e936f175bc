"""Lists of records: each record is read from the sentences that are about it, like a document of its own.

A small model that writes a list of records from a whole text writes one of them again and again, or a record for each member, and gives one
the values of another. But it can tell of a sentence which record it is about, and it reads a text with a single record well. So the members
that are no lists are read first, and then the text is cut:

1. Each sentence is read as if it had one record. Where nothing is found that a record must have (`RecordList.anchor`), the sentence goes on
   about the one before, and so does one with the same anchor.
2. A sentence may have several. Behind the records so far, the model would begin the next one with a phrase of the sentence that is not used
   yet, if there is one. The sentence is cut between them.
3. What is no whole sentence, or several, is read again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from collections.abc import Generator as Coroutine
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from constrained.decisions import ABSENT, Decision
from constrained.decisions.naming import name_words
from constrained.decisions.questions import followed, is_object, leaf_members, member_pointer
from constrained.decoding.request_runner import BatchedRequest
from constrained.errors import ConstrainedError
from constrained.extraction.chunks import sentence_ends, sentences
from constrained.extraction.examples import PromptExample
from constrained.extraction.list_context import LIKELY_NEXT, ListContext, Span
from constrained.extraction.numbered_records import (
    BREAK,
    NumberedRecord,
    count_member,
    meets,
    needed_numbers,
    numbered_records,
    quantified_pieces,
    required_quantities,
    states_quantities,
)
from constrained.extraction.phrases import is_plain_string, reads_phrases
from constrained.extraction.prompt import PromptParts, extraction_prompt
from constrained.extraction.quantities import quantity_kind
from constrained.extraction.record_reader import ReadValue, RecordReader, Settings
from constrained.extraction.sections import sections
from constrained.extraction.values.grounding import find_spans
from constrained.grammars.json_pointer import escape
from constrained.grammars.json_schema.view import without_null
from constrained.models import LanguageModel, Prompt

if TYPE_CHECKING:
    from constrained.decoding import Generator

MOST_SENTENCES = 64
"""Sentences of a text that is read like this; in a longer one the model writes lists whose records have no numbers."""
MOST_EXAMPLES = 4
"""Records of examples that the model is shown before it reads one."""
LIKELY = 0.03
"""Probability of all phrases of a sentence as the anchor, from which on it has a record."""
LIKELY_IN_LINE = 0.003
"""The same of a line with a bullet or a number, or below a heading that names the list."""
NAME, VALUE = "name", "value"
"""Members of the records of an object with any names."""
_BULLET = re.compile(r"\s*(?:[-*•–·]|\d{1,3}[.)])\s")
_WORD = re.compile(r"[^\W_\d]{3,}")


class RecordLists:
    """The lists of records of a type. Safe to share between threads."""

    def __init__(
        self, frame: RecordReader | None, lists: Sequence[RecordList], writes_lists: Callable[[], bool]
    ) -> None:
        """Nothing is read yet.

        Args:
            frame: reads the members that are no lists; None: there are none.
            lists: at least one.
            writes_lists: whether the model writes them.
        """
        self._frame, self._lists, self._writes_lists = frame, lists, writes_lists

    def steps(self, text: str, settings: Settings) -> Coroutine[list[BatchedRequest], None, ReadValue | None]:
        """Reads a text; returns the whole value, or None where the model has to write it."""
        if not reads_phrases(text):
            return None
        if self._writes_lists():
            return None
        value: dict[str, Any] = {}
        decisions: dict[str, Decision] = {}
        if self._frame is not None:
            read = yield from self._frame.steps([text], [{}], settings)
            if read[0] is None:
                return None
            value, decisions = read[0].value, dict(read[0].decisions)
        used = _places(text, value)
        numbered = {one.name: one.numbered(text, used) for one in self._lists}
        if len(sentences(text)) > MOST_SENTENCES and not all(numbered.values()):
            return None
        rest = _without(text, [piece.stated for pieces in numbered.values() for piece in pieces])
        if (
            self._frame is not None and rest != text and rest.strip()
        ):  # whose numbers are not those of records
            read = yield from self._frame.steps([rest], [{}], settings)
            if read[0] is None:
                return None
            value, decisions = read[0].value, dict(read[0].decisions)
            used = _places(text, value)
        for one in self._lists:
            pieces = numbered[one.name]
            known = yield from (
                one.read(pieces, text, settings) if pieces else one.steps(text, settings, used)
            )
            if known is None:
                return None
            decisions |= one.decisions(known)
            if one.name is None:
                value = one.value(known)
            else:
                value[one.name] = one.value(known)
        return ReadValue(value, decisions)


@dataclass
class _Record:
    """A record, or what may be one.

    Attributes:
        parts: of the text, that are about it.
        is_listed: whether it has a bullet or a number, or a heading says that it is one of the list.
        name: its anchor, "" in a list without; None: no record begins here.
        is_sure: whether the sentence alone says that.
        number: how many it says at its beginning; None: it does not.
        value, decisions: once it was read.
        is_read: whether that is so.
    """

    parts: list[Span]
    is_listed: bool = False
    name: str | None = None
    is_sure: bool = False
    number: int | None = None
    value: Any = None
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    is_read: bool = False

    def text(self, document: str) -> str:
        """The parts."""
        return " ".join(document[start:end].strip() for start, end in self.parts)


class RecordList:
    """A list of objects in a type, or an object with any names: a list of records of a name and its value.

    Attributes:
        name: of the member; None: the type is the list.
        pointer: JSON Pointer of it.
        anchor: the member that begins a record: the first string without bounds that must be there; None: any that the text states.
    """

    def __init__(
        self,
        name: str | None,
        anchor: str | None,
        others: Iterable[str],
        lists: Mapping[str, bool],
        whole: Generator[Any],
        item: RecordReader,
        parts: PromptParts,
        is_map: bool,
    ) -> None:
        """Makes it.

        Args:
            name: see the class.
            anchor: see the class.
            others: names of the members beside the list.
            lists: see `sections`; its own is among them.
            whole: writes values of the type.
            item: reads a record.
            parts: of the prompt.
            is_map: whether it is an object with any names.
        """
        self.name, self.anchor, self._is_map = name, anchor, is_map
        self.pointer = "" if name is None else f"/{escape(name)}"
        self._item, self._parts, self._whole = item, parts, whole
        self._lists = lists
        members = leaf_members(whole.constraint.enforced_schema, nullable=True)
        self._numbers = [
            path[-1] for path, one, _ in members if quantity_kind(without_null(one)) in ("integer", "number")
        ]
        schema = item.generator.constraint.enforced_schema
        self._needed_numbers = 0 if anchor is None else needed_numbers(schema)
        self._counter = count_member(schema)
        if is_map and schema["properties"][VALUE]["type"] == "integer":
            self._counter = member_pointer([VALUE])
        self._quantities = required_quantities(schema)
        self._labels = {word for one in others for word in name_words(one)}

    def value(self, read: ReadValue) -> Any:
        """What the type has for the records."""
        return {one[NAME]: one[VALUE] for one in read.value} if self._is_map else read.value

    def decisions(self, read: ReadValue) -> dict[str, Decision]:
        """The decisions about the records, by their pointers in the whole value."""
        found = dict[str, Decision]()
        for pointer, one in read.decisions.items():
            _, number, member = pointer.split("/", 2)
            if not self._is_map:
                found[self.pointer + pointer] = one
            elif member == VALUE:
                found[f"{self.pointer}/{escape(read.value[int(number)][NAME])}"] = one
        return found

    def _prompt(self, text: str) -> Prompt:
        """Asks for a value of the whole type."""
        return extraction_prompt(text, self._whole.constraint, self._parts)

    def numbered(self, text: str, used: Sequence[Span]) -> list[NumberedRecord]:
        """The records that the text states by their numbers, see `constrained.extraction.numbered_records`.

        Args:
            text: with all of them.
            used: what other members have of the text.
        """
        if self._needed_numbers < 1 or (self._needed_numbers < 2 and self._counter is None):
            return []
        headed = sections(text, sentences(text), self._lists)
        mine = self.name if any(one.name == self.name for one in headed) else None
        parts = [one.span for one in headed if one.name == mine]
        found = numbered_records(
            text, parts, self._needed_numbers, self._numbers, counts=self._counter is not None, used=used
        )
        # A number alone may be anything; one with which each part begins, and what follows it, are counted: 12 chairs, 4 tables.
        is_counted = len(found) > 1 and all(one.span[0] == one.stated[0] for one in found[1:])
        return found if self._needed_numbers > 1 or is_counted else []

    def read(
        self, pieces: Sequence[NumberedRecord], text: str, settings: Settings
    ) -> Coroutine[list[BatchedRequest], None, ReadValue | None]:
        """Reads the parts of a text that are a record each; returns None where one has no value."""
        records = [_Record([one.span], True, one.name, number=one.number) for one in pieces]
        yield from self._read(records, text, settings)
        return _read_value(records)

    def steps(
        self, text: str, settings: Settings, used: Sequence[Span]
    ) -> Coroutine[list[BatchedRequest], None, ReadValue | None]:
        """Reads the records of a text; returns None where one has no value.

        Args:
            text: with all of them.
            settings: of the requests.
            used: what other members have of the text.
        """
        context = None
        if self.anchor is not None:
            context = ListContext(self._whole, self._prompt, self.name, self.anchor)
        parts = sections(text, sentences(text), self._lists)
        mine = self.name if any(one.name == self.name for one in parts) else None
        single = [
            _Record([span], mine is not None or self._is_listed(text, span))
            for one in parts
            if one.name == mine
            for span in quantified_pieces(text, one.span, self._quantities)
        ]
        yield from self._read(single, text, settings)
        pieces: list[_Record] = []
        for sentence in single:
            sentence.name = self._name(sentence, text) if sentence.is_read else None
            if context is None or sentence.name is None:
                pieces.append(sentence)
            else:
                pieces += self._split(context, sentence, text, used)
        begun = [one for one in pieces if one.name is not None]
        if context is not None and len(begun) > 1:
            kept = context.confirmed(text, [(one.name or "", one.is_sure) for one in begun])
            for one, is_kept in zip(begun, kept, strict=True):
                one.name = one.name if is_kept else None
        records: list[_Record] = []
        for piece in pieces:
            if piece.name is not None and not (records and _is_same(piece.name, records[-1].name)):
                records.append(piece)
            elif records and (piece.name is not None or not self._is_beside(piece, text, used)):
                records[-1].parts += piece.parts
                records[-1].is_read = False
        yield from self._read([one for one in records if not one.is_read], text, settings)
        return _read_value(records)

    def _is_listed(self, text: str, span: Span) -> bool:
        """Whether a part of a text has a bullet or a number, or states all quantities of a record."""
        return bool(_BULLET.match(text, span[0])) or states_quantities(text, span, self._quantities)

    def _is_beside(self, piece: _Record, text: str, used: Sequence[Span]) -> bool:
        """Whether a part of a text says something for a member beside the list: its value stands there, or it begins with its name."""
        first = _WORD.search(piece.text(text))
        return meets(piece.parts[0], used) or (first is not None and first[0].lower() in self._labels)

    def _read(
        self, records: Sequence[_Record], text: str, settings: Settings
    ) -> Coroutine[list[BatchedRequest], None, None]:
        """Reads the texts of records."""
        if not records:
            return
        texts = [one.text(text) for one in records]
        anchor = None if self.anchor is None else member_pointer([self.anchor])
        known = [
            {
                pointer: value
                for pointer, value in ((anchor, one.name), (self._counter, one.number))
                if pointer and value
            }
            for one in records
        ]
        needed = [None if one.name or one.is_listed else anchor for one in records]
        read = yield from self._item.steps(texts, known, settings, needed)
        for record, one in zip(records, read, strict=True):
            if one is not None and one.value is not None:
                record.value, record.decisions, record.is_read = one.value, one.decisions, True

    def _split(
        self, context: ListContext, sentence: _Record, document: str, used: Sequence[Span]
    ) -> list[_Record]:
        """The records of a sentence that was read with a single one; itself, without a name, if it has none."""
        assert sentence.name is not None
        ((start, end),) = sentence.parts
        text = document[start:end]
        taken = [(first - start, last - start) for first, last in used if start <= first < end]
        name, place = sentence.name, _find(text, sentence.name)
        if place is not None and meets(place, taken):
            sentence.name = None
        if not BREAK.search(text.strip()):
            return [sentence]
        said = [text[slice(*span)] for span in taken]
        said += [one.value for pointer, one in sentence.decisions.items() if pointer != context.pointer]
        places = [span for span in context.anchors(text, sentence.name or "", said) if not meets(span, taken)]
        names = [text[slice(*span)] for span in places]
        if not names or names == [name]:
            return [sentence]
        return [
            _Record([(start + first, start + last)], False, one, one != name or sentence.is_sure)
            for (first, last), one in zip(_cut(text, places), names, strict=True)
        ]

    def _name(self, sentence: _Record, text: str) -> str | None:
        """What the record of a sentence begins with, "" without an anchor; None: the sentence has no record."""
        if self.anchor is None:
            closed = {question.pointer for question in self._item.members.questions}
            stated = [
                decision
                for pointer, decision in sentence.decisions.items()
                if pointer not in closed and decision.text != ABSENT
            ]
            return "" if stated else None
        decision = sentence.decisions.get(member_pointer([self.anchor]))
        if decision is not None:
            if str(decision.value).casefold() == str(self.anchor).casefold():  # the head of a table
                return None
            least = LIKELY_IN_LINE if sentence.is_listed else LIKELY
            sentence.is_sure = sentence.is_listed or decision.mass >= LIKELY_NEXT
            return str(decision.value) if decision.mass >= least else None
        written = str(sentence.value.get(self.anchor, ""))
        said = sentence.text(text)
        place = _find(said, written)
        others = [one.value for one in sentence.decisions.values() if isinstance(one.value, str)]
        if place is None or (not sentence.is_listed and meets(place, [_find(said, one) for one in others])):
            return None
        return written


def _read_value(records: Sequence[_Record]) -> ReadValue | None:
    """The list of records; None: one has no value."""
    if not all(one.is_read for one in records):
        return None
    decisions = {
        f"/{number}{pointer}": decision
        for number, one in enumerate(records)
        for pointer, decision in one.decisions.items()
    }
    return ReadValue([one.value for one in records], decisions)


def _places(text: str, value: Any) -> list[Span]:
    """Where the scalars of a value stand in a text."""
    matches = find_spans(text, value).values()
    return [(one.start, one.end) for one in matches if one.start is not None and one.end is not None]


def _without(text: str, parts: Iterable[Span]) -> str:
    """A text without some parts of it."""
    for start, end in sorted(parts, reverse=True):
        text = f"{text[:start]}\n{text[end:]}"
    return text


def record_lists(
    whole: Generator[Any],
    make_generator: Callable[[Any], Generator[Any]],
    parts: PromptParts,
    writes_lists: Callable[[], bool],
    *,
    grounded: bool = False,
) -> RecordLists | None:
    """The lists of objects in a type, and objects with any names, each a member of the outermost object, or the whole type; None: it has none.

    Args:
        whole: writes values of the type.
        make_generator: of a constraint.
        parts: of the prompt.
        writes_lists: whether the model writes lists.
        grounded: strings and numbers are those of the text.
    """
    constraint: Any = whole.constraint
    schema = constraint.enforced_schema if constraint.is_json else None
    if not isinstance(schema, Mapping) or not isinstance(whole.model, LanguageModel) or whole.model.no_trees:
        return None
    root = followed(schema, schema)
    members = root.get("properties") if isinstance(root, Mapping) else None
    lists: Mapping[Any, Any] = {None: root} if not isinstance(members, Mapping) else members
    shared = {key: schema[key] for key in ("$schema", "$defs", "definitions") if key in schema}
    separators = constraint.separators
    arrays = {
        name: _record_schema(member, schema) is not None
        for name, member in lists.items()
        if name is not None and (_is_list(member, schema) or _entry_schema(member, schema) is not None)
    }
    found = []
    for name, member in lists.items():
        item = _record_schema(member, schema)
        strings = {
            path: may_miss for path, one, may_miss in leaf_members(item, schema) if is_plain_string(one)
        }
        if strings:
            anchors = (path[0] for path, may_miss in strings.items() if len(path) == 1 and not may_miss)
            anchor = next(anchors, None)
            shown = replace(parts, examples=_record_examples(parts.examples, name, anchor, separators))
            generator = _generator(make_generator, constraint.with_schema({**shared, **item}))
            if generator is not None:
                reader = RecordReader(generator, shown, writes_lists, grounded)
                beside = set(lists) - {name}
                is_map = not _is_list(member, schema)
                found.append(RecordList(name, anchor, beside, arrays, whole, reader, parts, is_map))
    if not found:
        return None
    names = {one.name for one in found}
    others = {name: one for name, one in lists.items() if name not in names}
    frame = None
    if others:
        kept = [name for name in root.get("required", ()) if name in others]
        rest = {**shared, **root, "properties": others, "required": kept}
        shown = replace(parts, examples=_frame_examples(parts.examples, names, separators))
        generator = _generator(make_generator, constraint.with_schema(rest))
        if generator is None:
            return None
        frame = RecordReader(generator, shown, writes_lists, grounded)
    return RecordLists(frame, found, writes_lists)


def _generator(make_generator: Callable[[Any], Generator[Any]], constraint: Any) -> Generator[Any] | None:
    """The generator of a part of a type; None where the part alone is none, as one that other members are conditions of."""
    try:
        return make_generator(constraint)
    except ConstrainedError:
        return None


def _is_list(schema: Any, root: Any) -> bool:
    schema = without_null(followed(schema, root))
    return isinstance(schema, Mapping) and schema.get("type") == "array"


def _record_schema(schema: Any, root: Any) -> Any:
    """The schema of the objects of a list, or of the entries of an object with any names; None: it is neither."""
    if not _is_list(schema, root):
        return _entry_schema(schema, root)
    items = without_null(followed(schema, root)).get("items")
    if not is_object(items, root):
        return None
    item = followed(items, root)
    # Members are declared, but values of other types may be allowed, too.
    return {**item, "type": "object"} if "object" in item.get("type", "object") else None


def _entry_schema(schema: Any, root: Any) -> Any:
    """The schema of a name and its value in an object that has any names and scalar values; None: it is none."""
    schema = without_null(followed(schema, root))
    if not isinstance(schema, Mapping) or schema.get("type") != "object" or schema.get("properties"):
        return None
    value = followed(schema.get("additionalProperties"), root)
    if not isinstance(value, Mapping) or value.get("type") not in ("string", "integer", "number", "boolean"):
        return None
    members = {NAME: {"type": "string"}, VALUE: value}
    return {"type": "object", "properties": members, "required": [NAME, VALUE], "additionalProperties": False}


def _record_examples(
    examples: Sequence[PromptExample], name: str | None, anchor: str | None, separators: tuple[str, str]
) -> tuple[PromptExample, ...]:
    """Examples of records, each with the part of an example's text that it stands in; of those whose anchors stand there in order."""
    found: list[PromptExample] = []
    for example in examples:
        value = json.loads(example.answer)
        records = value if name is None else value.get(name) or []
        if isinstance(records, Mapping):
            records = [{NAME: key, VALUE: one} for key, one in records.items()]
        places: list[Span] = []
        for record in records if anchor is not None else ():
            place = _find(example.text, str(record[anchor]), places[-1][1] if places else 0)
            if place is None:
                break
            places.append(place)
        if places and len(places) == len(records):
            for (start, end), record in zip(_cut(example.text, places), records, strict=True):
                answer = json.dumps(record, ensure_ascii=False, separators=separators)
                found.append(PromptExample(example.text[start:end].strip(), answer))
    return tuple(found[:MOST_EXAMPLES])


def _frame_examples(
    examples: Sequence[PromptExample], names: Container[str | None], separators: tuple[str, str]
) -> tuple[PromptExample, ...]:
    """Examples without the lists of these names."""
    found = []
    for example in examples:
        rest = {name: one for name, one in json.loads(example.answer).items() if name not in names}
        found.append(PromptExample(example.text, json.dumps(rest, ensure_ascii=False, separators=separators)))
    return tuple(found)


def _cut(text: str, places: Sequence[Span]) -> list[Span]:
    """The parts of a text with one place each: between two places the last sentence ends, or else the last clause."""
    cuts = [0]
    for (_, behind), (at, _) in pairwise(places):
        breaks = sentence_ends(text, behind, at)
        breaks = breaks or [match.end() for match in BREAK.finditer(text, behind, at)]
        cuts.append(breaks[-1] if breaks else at)
    return list(zip(cuts, [*cuts[1:], len(text)], strict=True))


def _find(text: str, value: str, start: int = 0) -> Span | None:
    """Where a value stands in a text, in any case; None: nowhere."""
    found = re.compile(re.escape(value), re.IGNORECASE).search(text, start) if value else None
    return None if found is None else found.span()


def _is_same(name: str, other: str | None) -> bool:
    """Whether two names are those of one record: ``The Eagle`` is ``Eagle``."""
    one, two = name.casefold(), (other or "").casefold()
    return bool(one) and (one == two or one.endswith(f" {two}") or two.endswith(f" {one}"))
