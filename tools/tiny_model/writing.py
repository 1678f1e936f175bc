"""Puts what a made-up document has to say into words."""

# ruff: noqa: SIM905 (lists of words are easiest to read, and to add to, as texts)

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tools.tiny_model.domains import Domain

_OPENINGS = (
    "Thank you for your message.|Please find the details below.|Here is what we know so far.|Hello,|Dear all,|"
    "A short note for the records.|This came in today.|FYI:|For your files:|Good morning!|Update:"
).split("|")
_CLOSINGS = (
    "More will follow soon.|Please let us know if anything changes.|Best regards.|Thanks!|That is all for now.|"
    "Nothing else is known.|Please confirm.|See you soon.|The rest is still unclear."
).split("|")
# A label comes before its value: a small model reads from left to right and cannot look ahead for it.
PREDICATE_TEMPLATES = (
    "has the {l} {v}",
    "lists the {l} {v}",
    "shows a {l} of {v}",
)
SENTENCE_TEMPLATES = (
    "The {l} is {v}.",
    "The {l} is {v}.",
    "Its {l} is {v}.",
    "{L}: {v}.",
    "The {l} was given as {v}.",
)
LIST_TEMPLATES = ("The {l} are {v}.", "Its {l} are {v}.", "{L}: {v}.")


@dataclass
class TextPlan:
    """What a text has to say: predicates of a subject, whole sentences, and `label: value` pairs.

    A predicate is a choice of clauses that say the same. `name` is what the subject is called and `naming` the
    predicate that says so, which is not needed where the name is the subject of a sentence.
    """

    predicates: list[tuple[str, ...]] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    name: str = ""
    naming: tuple[str, ...] = ()


class ProseWriter:
    """Chooses words. `level` is that of the corpus: at 0 a text is mostly a form."""

    def __init__(self, rng: random.Random, level: float) -> None:
        self.rng = rng
        self.level = level

    def flip(self, probability: float) -> bool:
        """True so often."""
        return self.rng.random() < probability

    def prose(self, domain: Domain, sayings: TextPlan) -> str:
        """The text of a document."""
        rng = self.rng
        if not sayings.pairs and not sayings.sentences:
            return ""
        if sayings.pairs and not sayings.sentences and self.flip(0.4):
            text, joint = self.form(sayings), "\n"
        else:
            joint = " "
            subjects = domain.subjects
            predicates = list(sayings.predicates)
            rng.shuffle(predicates)
            if sayings.name and self.flip(0.7):
                predicates = [said for said in predicates if said is not sayings.naming]
                subjects = (sayings.name, *domain.subjects)
                if not predicates:
                    predicates = [(f"is the {rng.choice(('one', 'subject', 'name'))}",)]
            sentences = self.sentences(subjects, predicates)
            rest = list(sayings.sentences)
            rng.shuffle(rest)
            for sentence in rest:
                sentences.insert(rng.randint(min(1, len(sentences)), len(sentences)), sentence)
            text = ("\n" if self.flip(0.08) else " ").join(sentences)
        if self.flip(0.12 * self.level):
            text = f"{rng.choice(_OPENINGS)}{joint}{text}"
        if self.flip(0.15 * self.level):
            text = f"{text}{joint}{rng.choice(_CLOSINGS)}"
        return text

    def form(self, sayings: TextPlan) -> str:
        """Labels and values, as in a form."""
        pairs = list(sayings.pairs)
        self.rng.shuffle(pairs)
        capital = self.flip(0.7)
        joint = self.rng.choice(("\n", "\n", "; ", ", ", " | "))
        sign = self.rng.choice((": ", ": ", " = ", " - "))
        return joint.join(
            f"{label.capitalize() if capital else label}{sign}{value}" for label, value in pairs
        )

    def sentences(self, subjects: tuple[str, ...], predicates: list[tuple[str, ...]]) -> list[str]:
        """Says one to three predicates per sentence; the first subject opens, the others follow."""
        rng = self.rng
        made: list[str] = []
        left = list(predicates)
        while left:
            group, left = left[: (size := rng.choice((1, 1, 2, 2, 3)))], left[size:]
            subject = subjects[0] if not made else rng.choice(subjects[1:] or subjects)
            clauses = [rng.choice([c for c in forms if not c.startswith(",")]) for forms in group]
            asides = [c for c in group[0] if c.startswith(",")]
            if asides and len(group) > 1 and self.flip(0.5):
                subject, clauses = subject.rstrip(",") + rng.choice(asides).rstrip(",") + ",", clauses[1:]
            made.append(f"{subject} {join_clauses(clauses)}.")
        return made

    def enumeration(self, surfaces: list[str]) -> str:
        """Values of a list, side by side."""
        if len(surfaces) == 1:
            return surfaces[0]
        roll = self.rng.random()
        if roll < 0.6:
            return join_clauses(surfaces)
        return ", ".join(surfaces)

    def listing(self, lead: str, lines: list[str]) -> str:
        """Rows of a table, in one sentence or below each other."""
        roll = self.rng.random()
        if roll < 0.25:
            return f"{lead.rstrip(':')}:\n" + "\n".join(f"- {line}" for line in lines) + "\n"
        joint = "; " if roll < 0.7 or any("," in line for line in lines) else ", "
        return f"{lead} {joint.join(lines)}."


def join_clauses(clauses: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])} and {clauses[-1]}"
