"""Predicates that worker processes can import."""

from __future__ import annotations

import os
import time


def few(text: str) -> bool:
    return text.count("a") <= 2


def several_few(texts: list[str]) -> list[bool]:
    return [few(text) for text in texts]


def slow_after_a(text: str) -> bool:
    while text.endswith("a"):
        time.sleep(0.01)
    return True


def raises_after_a(text: str) -> bool:
    if text.endswith("a"):
        raise LookupError(f"no entry for {text}")
    return True


def dies_after_a(text: str) -> bool:
    if text.endswith("a"):
        os._exit(7)
    return True


class Unpicklable(Exception):
    def __reduce__(self):
        raise TypeError("stays where it is")


def raises_unpicklable(text: str) -> bool:
    if text:
        raise Unpicklable("odd")
    return True


def gives_unpicklable(text: str):
    return (lambda: text) if text else True


def says_where(text: str) -> bool:
    """Leaves the number of its process in a file named by the environment."""
    with open(os.environ["PREDICATE_LOG"], "a") as log:
        print(os.getpid(), repr(text), file=log)
    return True
