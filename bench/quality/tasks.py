"""Puzzles with one right answer, made by a seed; the prompt shows others with their reasoning before one is asked."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from constrained.chat.messages import chat_prompt
from constrained.models import LanguageModel

_NAMES = [
    "Ada", "Amir", "Anton", "Astrid", "Boris", "Carol", "Dmitri", "Edith", "Elif", "Farah", "Felix",
    "Gustav", "Hana", "Henrik", "Igor", "Ingrid", "Ivan", "Jakub", "Jasmin", "Karim", "Lena", "Liam",
    "Lukas", "Magda", "Marek", "Milos", "Nora", "Olaf", "Omar", "Pavel", "Petra", "Quentin", "Rosa", "Ruth",
    "Samir", "Sofia", "Stefan", "Vera", "Yusuf",
]  # fmt: skip
_OBJECTS = ("ball", "book", "coin", "cup", "hat", "key", "kite", "lamp", "pen", "ring")
_LETTERS = "ABC"


@dataclass(frozen=True, slots=True)
class QualityItem:
    """One puzzle.

    Attributes:
        task: out of `TASKS`.
        id: its number.
        question: what is asked.
        reasoning: the steps to the answer, as an example shows them.
        answer: the right one.
        schema: of the reply.
    """

    task: str
    id: str
    question: str
    reasoning: str
    answer: str
    schema: dict[str, Any]


def make_item(task: str, number: int, seed: int | str) -> QualityItem:
    """A puzzle; the same seed and number make the same one."""
    question, reasoning, answer, kind = TASKS[task](random.Random(f"{seed} {task} {number}"))
    members = {"reasoning": {"type": "string"}, "answer": kind}
    schema = {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }
    return QualityItem(task, str(number), question, reasoning, answer, schema)


def prompt_ids(model: LanguageModel, item: QualityItem, shots: int) -> list[int]:
    """The prompt for a puzzle, the same for every engine: examples as turns of a chat, then the question."""
    turns = []
    for example in (make_item(item.task, number, "example") for number in range(shots)):
        reply = json.dumps({"reasoning": example.reasoning, "answer": example.answer})
        turns += [("user", example.question), ("assistant", reply)]
    form = '\nAnswer with JSON: {"reasoning": "...", "answer": "..."}'
    messages = [
        {"role": role, "content": text + (form if role == "user" else "")}
        for role, text in [*turns, ("user", item.question)]
    ]
    return model.encode(chat_prompt(model, messages))


_Puzzle = tuple[str, str, str, dict[str, Any]]
"""Question, reasoning, answer, and the schema of the answer."""


def _last_letters(rng: random.Random) -> _Puzzle:
    """Two to four words; four are harder."""
    words = rng.sample(_NAMES, rng.randint(2, 4))
    letters = "".join(word[-1] for word in words)
    steps = " ".join(f"'{word}' ends with '{word[-1]}'." for word in words)
    question = f"Take the last letters of the words in '{' '.join(words)}' and concatenate them."
    return question, f"{steps} Together: '{letters}'.", letters, {"type": "string"}


def _shuffled_objects(rng: random.Random) -> _Puzzle:
    """Three people, three swaps, three options: a guess is right one time in three."""
    people, objects, options = rng.sample(_NAMES, 3), rng.sample(_OBJECTS, 3), list(_LETTERS)
    held = dict(zip(people, objects, strict=True))
    question = f"At the start, {', '.join(f'{name} has the {thing}' for name, thing in held.items())}."
    person = rng.choice(people)
    steps = f"{person} has the {held[person]} at the start"
    for word in ("First", "Then", "Finally"):
        one, other = rng.sample(people, 2)
        held[one], held[other] = held[other], held[one]
        question += f" {word}, {one} and {other} swap."
        steps += f", {word.lower()} the {held[person]}"
    rng.shuffle(options)
    letter_of = dict(zip(objects, options, strict=True))
    listed = " ".join(f"({letter}) {thing}" for letter, thing in sorted(zip(options, objects, strict=True)))
    answer = letter_of[held[person]]
    question += f" What does {person} have at the end? {listed}"
    return question, f"{steps}, which is ({answer}).", answer, {"enum": list(_LETTERS)}


TASKS: dict[str, Callable[[random.Random], _Puzzle]] = {
    "last_letters": _last_letters,
    "shuffled_objects": _shuffled_objects,
}
