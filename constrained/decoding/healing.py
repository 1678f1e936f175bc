"""Token healing: the last tokens of a raw prompt go back to the completion, which begins with their bytes.

A prompt that ends in white space, or inside a word, has a last token that the tokenizer would have joined with what follows: after
"The capital of France is " the model has seen no text that goes on with "Paris", since " Paris" is one token. So a law of texts
given the prompt's bytes is that of the tokens after a shorter prompt, among texts that begin with the bytes that were taken off.
(Phan et al. 2024, arXiv 2406.16829, call it tokenization bias; `guidance` and transformers heal so.)
"""

from __future__ import annotations

from collections.abc import Sequence

from constrained.automaton import Automaton
from constrained.automaton.cache import compile_cached
from constrained.constraint import Constraint
from constrained.constraint.structural.constraint import FormatConstraint
from constrained.constraint.structural.formats import ConstString, Content, SequenceFormat
from constrained.vocabulary import Vocabulary


def split_prompt(ids: Sequence[int], vocabulary: Vocabulary) -> tuple[list[int], str]:
    """Token ids of a prompt without the last ones that a tokenizer might have joined with what follows, and the text of these.

    Args:
        ids: of a raw prompt; at least one is kept.
        vocabulary: of the model.
    """
    kept, text = len(ids), b""
    ended = None
    while kept > 1 and (token := vocabulary.tokens[ids[kept - 1]]) and vocabulary.begins_token(token + text):
        kept, text = kept - 1, token + text
        ended = (kept, text) if _is_text(text) else ended
    kept, text = ended or (len(ids), b"")
    return list(ids[:kept]), text.decode()


def healed_automaton(constraint: Constraint, begin: str, vocabulary: Vocabulary) -> Automaton:
    """The automaton of the texts of a constraint behind the text that was taken off a prompt.

    Raises:
        ConstraintError: the constraint cannot stand behind a text: a predicate, or one with a lexer of its own.
    """
    form = SequenceFormat("", (ConstString("", begin), Content("", constraint)))
    return compile_cached(FormatConstraint(form), vocabulary)[1]


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
