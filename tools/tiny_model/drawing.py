"""Draws a made-up document: which fields it has, the schema that asks for them, and the values."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tools.tiny_model import domains, values
from tools.tiny_model.domains import Domain, DomainField, DomainObject, DomainTable
from tools.tiny_model.values import BoolKind, DrawnValue, EnumKind, FieldKind, ListKind, Split
from tools.tiny_model.writing import (
    LIST_TEMPLATES,
    PREDICATE_TEMPLATES,
    SENTENCE_TEMPLATES,
    ProseWriter,
    TextPlan,
)


@dataclass(frozen=True)
class FieldShares:
    """How often documents ask for fields that need not be told, and leave them out."""

    all_required: float  # of the documents: every field is required and none may be null
    optional: float  # of the fields of the other documents
    nullable: float  # likewise
    silent: float  # of the optional and nullable fields: the text does not tell them

    @staticmethod
    def of(split: Split) -> FieldShares:
        """Training leaves fields out more often: a model that rarely meets an untold field makes up a value for it."""
        return _TRAIN_SHARES if split == "train" else _HELDOUT_SHARES


_HELDOUT_SHARES = FieldShares(all_required=0.6, optional=0.3, nullable=0.2, silent=0.3)
_TRAIN_SHARES = FieldShares(all_required=0.4, optional=0.4, nullable=0.3, silent=0.45)


@dataclass(frozen=True)
class SyntheticDocument:
    """A text, the schema that asks for part of it, and what it answers."""

    text: str
    schema: dict[str, Any]
    value: Any
    domain: str


class DocumentGenerator:
    """Draws one document."""

    def __init__(self, rng: random.Random, split: Split, level: float) -> None:
        self.rng = rng
        self.split = split
        self.level = level
        self.writer = ProseWriter(rng, level)
        self.casing = rng.choices(_CASINGS, (68, 16, 12, 2, 2))[0]
        self.shares = FieldShares.of(split)
        self.all_required = rng.random() < self.shares.all_required
        self.described = rng.random() < 0.06 * level
        self.phrased = False
        self.closed = rng.random() < 0.6

    def document(self) -> SyntheticDocument:
        """Draws it. Its schema may fall into either split."""
        domain = self.domain()
        # Phrases that say a field without its name can be known of the domains of the training split alone.
        self.phrased = domain in domains.TRAIN_DOMAINS and self.writer.flip(0.2 * self.level)
        rows = [item for item in domain.fields if isinstance(item, DomainTable)]
        sayings = TextPlan()
        if rows and self.writer.flip(0.1):
            schema, value = self.rows(rows[0], sayings)
        elif self.writer.flip(0.02):
            schema, value = self.plain_value(domain, sayings)
        else:
            schema, value = self.whole_object(domain, sayings)
        return SyntheticDocument(self.writer.prose(domain, sayings), schema, value, domain.name)

    def whole_object(self, domain: Domain, sayings: TextPlan) -> tuple[dict[str, Any], Any]:
        """An answer that is an object, the usual case; the text may tell more than is asked."""
        asked, told = self.selection(domain)
        schema, value = self.object(asked, domain, sayings)
        for extra in told:
            self.property(extra, extra.labels[0], domain, sayings)
        if self.writer.flip(0.15 * self.level):
            heading = {"title": domain.name.title().replace(" ", "")}
            if self.writer.flip(0.3):
                heading["description"] = f"A {domain.name}."
            schema = {**heading, **schema}
        return schema, value

    def plain_value(self, domain: Domain, sayings: TextPlan) -> tuple[dict[str, Any], Any]:
        """An answer that is one plain value, asked for by a description."""
        fields = [item for item in domain.fields if isinstance(item, DomainField)]
        picked, *others = self.rng.sample(fields, min(len(fields), self.rng.randint(1, 3)))
        schema, value = self.property(picked, picked.labels[0], domain, sayings)
        for extra in others:
            if set(extra.labels).isdisjoint(picked.labels):
                self.property(extra, extra.labels[0], domain, sayings)
        return {**schema, "description": self.description(picked, domain)}, value

    # ------------------------------------------------------------------------------------------------ choosing

    def domain(self) -> Domain:
        """What the document speaks of."""
        if self.writer.flip(0.3 + 0.7 * max(0.0, 1 - 3 * self.level)):
            return self.attributes()
        if self.split == "heldout" and self.writer.flip(0.35):
            return self.rng.choice(domains.HELDOUT_DOMAINS)
        # People and orders are what is extracted most often, so they come twice as often.
        weights = [2 if domain.name in ("person", "order") else 1 for domain in domains.TRAIN_DOMAINS]
        return self.rng.choices(domains.TRAIN_DOMAINS, weights)[0]

    def attributes(self) -> Domain:
        """A domain of one document, with fields that no other has: its words must be matched, not known."""
        rng = self.rng
        entity = self.word()
        kinds: list[FieldKind | EnumKind | BoolKind | ListKind] = [
            values.CODE, values.CODE, values.PERSON, values.PLACE, values.TITLE, values.WORD, values.PHRASE, values.DATE,
            values.NICKNAME, values.PRODUCT, values.TIME, values.EMAIL,
            values.integers(0, 99), values.integers(0, 9999), values.integers(0, 200000), values.decimals(0, 100, 3),
            ListKind(values.WORD), ListKind(values.NICKNAME), BoolKind((), ()), self.choice(),
        ]  # fmt: skip
        fields = []
        for _ in range(rng.randint(2, 6)):
            label = self.label() if self.writer.flip(0.6) else f"{self.label()} {self.label()}"
            fields.append(DomainField((label,), rng.choice(kinds)))
        return Domain("attributes", (f"The {entity}", "It", f"This {entity}"), tuple(fields), named=False)

    def word(self) -> str:
        """A word for an option."""
        return values.word(self.rng)

    def label(self) -> str:
        """A word for a label: that of a field of any domain, or a made-up one."""
        if self.writer.flip(0.4):
            return self.rng.choice(domains.LABEL_WORDS)
        return values.word(self.rng)

    def choice(self) -> EnumKind:
        """Options of made-up words."""
        return EnumKind(tuple(self.word() for _ in range(self.rng.randint(2, 5))))

    def selection(self, domain: Domain) -> tuple[list[Any], list[Any]]:
        """Splits some fields of a domain into those the schema asks for and those only the text tells."""
        rng = self.rng
        pool: list[DomainField | DomainObject | DomainTable] = []
        taken: set[str] = set()
        for item in rng.sample(domain.fields, len(domain.fields)):
            if taken.isdisjoint(item.labels):
                pool.append(item)
                taken.update(item.labels)
        if self.level < 1:
            nested_too = not self.writer.flip(1 - self.level)
            pool = [item for item in pool if nested_too or isinstance(item, DomainField)]
        asked = rng.randint(1, 2 + int(3.5 * self.level))
        told = rng.choice([0, 0, 1, 1, 2]) if self.writer.flip(self.level) else 0
        if domain.named and self.writer.flip(0.75) and domain.fields[0] in pool:
            pool.remove(domain.fields[0])
            pool.insert(0, domain.fields[0])
        nested = [item for item in pool if not isinstance(item, DomainField)]
        kept = 1 if self.writer.flip(0.3) else 0  # one nested part is enough for a short text
        for item in nested[kept:]:
            pool.remove(item)
        chosen = pool[:asked]
        rng.shuffle(chosen)
        return chosen, [item for item in pool[asked:] if isinstance(item, DomainField)][:told]

    # ------------------------------------------------------------------------------------------------- drawing

    def object(
        self, items: list[Any], domain: Domain, sayings: TextPlan
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Draws the schema and the value of an object, adding to `sayings` what the text must tell of it."""
        properties: dict[str, Any] = {}
        required, value = [], {}
        for item in items:
            label = item.labels[0] if self.writer.flip(0.5) else self.rng.choice(item.labels)
            key = self.casing(label)
            if key in properties:
                continue
            optional = not self.all_required and self.writer.flip(self.shares.optional)
            nullable = (
                not self.all_required
                and isinstance(item, DomainField)
                and self.writer.flip(self.shares.nullable)
            )
            silent = (optional or nullable) and self.writer.flip(self.shares.silent)
            schema, drawn = self.property(item, label, domain, TextPlan() if silent else sayings)
            if nullable:
                schema = _nullable(schema, self.writer.flip(0.5))
            if self.described and self.writer.flip(0.7):
                schema["description"] = self.description(item, domain)
            properties[key] = schema
            if not optional:
                required.append(key)
            if not silent:
                value[key] = drawn
            elif nullable and not optional:
                value[key] = None
        schema = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        if self.closed:
            schema["additionalProperties"] = False
        return schema, value

    def property(
        self, item: Any, label: str, domain: Domain, sayings: TextPlan
    ) -> tuple[dict[str, Any], Any]:
        """Draws the schema and the value of one field, and says it."""
        if isinstance(item, DomainObject):
            return self.part(item, label, domain, sayings)
        if isinstance(item, DomainTable):
            return self.rows(item, sayings)
        schema, value, surface = self.fact(item)
        said = self.rng.choice(item.labels) if self.phrased and self.writer.flip(0.4) else label
        if isinstance(item.kind, BoolKind):
            clauses = item.kind.yes if value else item.kind.no
            sayings.pairs.append((said, surface))
            if clauses and self.phrased:
                sayings.predicates.append(clauses)
            else:
                sayings.sentences.append(f"{said.capitalize()}: {surface}.")
            return schema, value
        sayings.pairs.append((said, surface))
        count = len(sayings.predicates)
        if domain.named and item is domain.fields[0] and self.phrased:
            sayings.name = surface
        if item.clauses and self.phrased and self.writer.flip(0.75):
            sayings.predicates.append(tuple(clause.format(v=surface) for clause in item.clauses))
        elif self.writer.flip(0.5):
            several = isinstance(item.kind, ListKind)
            template = self.rng.choice(LIST_TEMPLATES if several else SENTENCE_TEMPLATES)
            sayings.sentences.append(template.format(l=said, L=said.capitalize(), v=surface))
        else:
            sayings.predicates.append((self.rng.choice(PREDICATE_TEMPLATES).format(l=said, v=surface),))
        if sayings.name and item is domain.fields[0] and len(sayings.predicates) > count:
            sayings.naming = sayings.predicates[-1]
        return schema, value

    def fact(self, item: DomainField) -> tuple[dict[str, Any], Any, str]:
        """Draws one value: its schema, what the answer holds, what the text says."""
        rng, kind = self.rng, item.kind
        if isinstance(kind, BoolKind):
            value = self.writer.flip(0.5)
            return {"type": "boolean"}, value, ("yes" if value else "no")
        if isinstance(kind, EnumKind):
            return self.chosen(kind)
        if isinstance(kind, ListKind):
            drawn = [
                kind.kind.draw(rng, self.split)
                for _ in range(rng.randint(kind.low, min(kind.high, 2 + int(3 * self.level))))
            ]
            drawn = list({one.surface: one for one in drawn}.values())
            bounds = {"minItems": 1, "maxItems": kind.high} if self.writer.flip(0.12) else {}
            return (
                {"type": "array", "items": kind.kind.schema(rng), **bounds},
                [one.value for one in drawn],
                self.writer.enumeration([one.surface for one in drawn]),
            )
        one: DrawnValue = kind.draw(rng, self.split)
        schema = kind.schema(rng)
        if kind.coded and self.writer.flip(0.15):
            schema["pattern"] = values.pattern_of(rng, one.value)
        return schema, one.value, one.surface

    def chosen(self, kind: EnumKind) -> tuple[dict[str, Any], Any, str]:
        """One of the options, which the answer spells as the schema does and the text as people do."""
        rng = self.rng
        options = list(dict.fromkeys(kind.options))
        shown = rng.sample(options, rng.randint(min(2, len(options)), len(options)))
        style = rng.choices((str, _upper_snake, _snake, str.capitalize), (94, 2, 2, 2))[0]
        plain = rng.choice(shown)
        schema: dict[str, Any] = {"enum": [style(option) for option in shown]}
        if self.writer.flip(0.6):
            schema = {"type": "string", **schema}
        return schema, style(plain), plain

    def part(
        self, item: DomainObject, label: str, domain: Domain, sayings: TextPlan
    ) -> tuple[dict[str, Any], Any]:
        """Draws a nested object and says it in sentences of its own."""
        rng = self.rng
        inner = TextPlan()
        fields = rng.sample(item.fields, rng.randint(min(2, len(item.fields)), min(len(item.fields), 3)))
        fields.sort(key=item.fields.index)
        before = self.described
        self.described = False
        schema, value = self.object(fields, domain, inner)
        self.described = before
        said = label if self.writer.flip(0.7) else rng.choice(item.labels)
        if not inner.pairs:
            return schema, value
        surfaces = [surface for _, surface in inner.pairs]
        if not item.subject and self.writer.flip(0.6):
            sayings.sentences.append(f"The {said} is {', '.join(surfaces)}.")
        elif item.subject and self.writer.flip(0.25):
            sayings.sentences.append(f"{said.capitalize()}: {', '.join(surfaces)}.")
        elif (
            item.subject
            and fields[0].labels[0] == "name"
            and len(surfaces) > 1
            and surfaces[0] in value.values()
            and self.writer.flip(0.5)
        ):
            subject = f"The {said} {surfaces[0]}" if self.writer.flip(0.6) else f"The {said}, {surfaces[0]},"
            rest = inner.predicates[1:] if len(inner.predicates) == len(surfaces) else []
            if rest:
                sayings.sentences += self.writer.sentences((subject,), rest)
            else:
                sayings.sentences.append(f"The {said} is {', '.join(surfaces)}.")
        else:
            who = "They" if item.subject else "It"
            sayings.sentences += (
                self.writer.sentences((f"The {said}", who), inner.predicates) + inner.sentences
            )
        return schema, value

    def rows(self, item: DomainTable, sayings: TextPlan) -> tuple[dict[str, Any], Any]:
        """Draws a list of objects; the text tells every column, the schema may ask for some."""
        rng = self.rng
        table: list[list[tuple[dict[str, Any], Any, str]]] = []
        first = [self.fact(one) for one in item.fields]
        for _ in range(rng.randint(1, 3)):
            row = []
            for one, (schema, _, _) in zip(item.fields, first, strict=True):
                if isinstance(one.kind, EnumKind):
                    value = rng.choice(schema["enum"])
                    row.append((schema, value, value.replace("_", " ").lower()))
                else:
                    _, value, surface = self.fact(one)
                    row.append((schema, value, surface))
            table.append(row)
        columns = list(range(len(item.fields)))
        if self.writer.flip(0.2):
            columns = sorted(rng.sample(columns, rng.randint(1, len(columns))))
        if self.writer.flip(0.15):
            rng.shuffle(columns)
        keys = []
        for column in columns:
            labels = item.fields[column].labels
            keys.append(self.casing(labels[0] if self.writer.flip(0.5) else rng.choice(labels)))
        if len(set(keys)) < len(keys):
            keys = [self.casing(item.fields[column].labels[0]) for column in columns]
        schema = {
            "type": "object",
            "properties": {k: dict(first[c][0]) for k, c in zip(keys, columns, strict=True)},
            "required": keys,
        }
        if self.closed:
            schema["additionalProperties"] = False
        template = rng.choice(item.templates)
        lines = [template.format(*(surface for _, _, surface in row)) for row in table]
        sayings.sentences.append(self.writer.listing(rng.choice(item.leads), lines))
        return (
            {"type": "array", "items": schema},
            [{key: row[column][1] for key, column in zip(keys, columns, strict=True)} for row in table],
        )

    def description(self, item: Any, domain: Domain) -> str:
        """A description of a field."""
        label = self.rng.choice(item.labels)
        form = self.rng.choice(("the {l}", "{l}", "The {l} of the {d}", "{l} of the {d}", "The {l}."))
        return form.format(l=label, d=domain.name)


def _snake(label: str) -> str:
    return label.replace(" ", "_")


def _upper_snake(label: str) -> str:
    return _snake(label).upper()


def _pascal(label: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in label.split())


def _camel(label: str) -> str:
    pascal = _pascal(label)
    return pascal[:1].lower() + pascal[1:]


def _kebab(label: str) -> str:
    return label.replace(" ", "-")


_CASINGS = (_snake, _camel, str, _kebab, _pascal)


def _nullable(schema: dict[str, Any], short: bool) -> dict[str, Any]:
    if short and isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}
