"""Structured generation for language models that is exact.

    model = constrained.load()                              the bundled tiny model, or a name, or a loaded model
    person = constrained.extract(model, text, Person)       text and type in, instance out
    city = constrained.generate(model, prompt, City)        prompt and type in, instance out
    found = constrained.decide(model, text, Literal["yes", "no"])    found.value, and the probability of each option

    gen = constrained.Generator(model, constrained.json_schema(schema))
    out = gen(prompt, max_tokens=256, seed=0)               out.value, out.text, out.logprob, out.stats, ...
    for chunk in gen.stream(prompt): ...                    new characters, and the valid partial value so far
    outs = gen.batch(prompts)

    automaton = constrained.compile(constraint, constrained.Vocabulary.from_tokenizer(tokenizer))

    model.generate(..., logits_processor=[constrained.ConstraintLogitsProcessor(constraint, tokenizer)])
    model.generate(..., custom_generate=constrained.decode, constraint=constraint, vocabulary=vocabulary)

Names are loaded when they are first used: importing the package loads no torch.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"


def _require_gil() -> None:
    """Free-threaded Python enables the GIL when it loads the native modules, which rely on it, unless it is told not to.

    Raises:
        ImportError: it is told not to, by PYTHON_GIL=0 or -X gil=0.
    """
    enabled = getattr(sys, "_is_gil_enabled", lambda: True)  # since Python 3.13
    if not enabled() and sys._xoptions.get("gil", os.environ.get("PYTHON_GIL")) == "0":
        raise ImportError(
            "constrained does not run without the GIL\n  -> leave out PYTHON_GIL=0 and -X gil=0: Python then enables the GIL when "
            "this library is imported"
        )


_require_gil()

_HOMES = {
    "ASAp": "sampling",
    "AWRS": "sampling",
    "Automaton": "automaton",
    "ThinkingResult": "constraint",
    "BudgetExhausted": "errors",
    "CARS": "sampling",
    "Capture": "automaton.captures",
    "Chunk": "decoding",
    "Cut": "decoding",
    "ConstrainedError": "errors",
    "Constraint": "constraint",
    "ConstraintError": "errors",
    "ConstraintLogitsProcessor": "integrations.transformers",
    "ConstraintTooLarge": "errors",
    "Document": "extraction",
    "DocumentError": "errors",
    "DoesNotFit": "errors",
    "Extraction": "extraction",
    "Decided": "extraction",
    "Decider": "extraction",
    "Decision": "decisions",
    "Exact": "sampling",
    "Extractor": "extraction",
    "Span": "constraint",
    "Speculation": "decoding",
    "Generator": "decoding",
    "InvalidArgument": "errors",
    "InvalidConstraint": "errors",
    "LanguageModel": "models",
    "Local": "sampling",
    "MCMC": "sampling",
    "ModelError": "errors",
    "ModelMismatch": "errors",
    "Output": "decoding",
    "Partial": "extraction",
    "PredicateError": "errors",
    "PromptError": "errors",
    "PromptTooLong": "errors",
    "RejectedValue": "errors",
    "Rejection": "sampling",
    "DeviceMaskCache": "automaton.device_masks",
    "SMC": "sampling",
    "Samples": "decoding",
    "Section": "constraint",
    "Stats": "decoding",
    "TokenAutomaton": "automaton",
    "Tries": "sampling",
    "Truncated": "errors",
    "UnsatisfiableConstraint": "errors",
    "UnsupportedConstraint": "errors",
    "Vocabulary": "vocabulary",
    "VocabularyError": "errors",
    "WorkerError": "errors",
    "after": "constraint",
    "as_constraint": "constraint",
    "captures": "automaton.captures",
    "choice": "constraint",
    "fields": "constraint",
    "compile": "automaton",
    "decode": "integrations.transformers",
    "ebnf": "constraint",
    "aextract": "extraction",
    "decide": "extraction",
    "extract": "extraction",
    "extract_dataset": "extraction.cluster.dataset",
    "extract_many": "extraction",
    "fill_masks": "automaton",
    "gbnf": "constraint",
    "generate": "api",
    "json_schema": "constraint",
    "lark": "constraint",
    "load": "models",
    "predicate": "constraint",
    "python_type": "constraint",
    "read_documents": "extraction",
    "regex": "constraint",
    "mask_ids": "automaton",
    "structural_tag": "constraint",
    "substring_of": "constraint",
    "tag": "constraint",
    "tags": "constraint",
}

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from constrained.api import generate as generate
    from constrained.automaton import Automaton as Automaton
    from constrained.automaton import TokenAutomaton as TokenAutomaton
    from constrained.automaton import compile as compile
    from constrained.automaton import fill_masks as fill_masks
    from constrained.automaton import mask_ids as mask_ids
    from constrained.automaton.captures import Capture as Capture
    from constrained.automaton.captures import captures as captures
    from constrained.automaton.device_masks import DeviceMaskCache as DeviceMaskCache
    from constrained.constraint import Constraint as Constraint
    from constrained.constraint import Section as Section
    from constrained.constraint import Span as Span
    from constrained.constraint import ThinkingResult as ThinkingResult
    from constrained.constraint import after as after
    from constrained.constraint import as_constraint as as_constraint
    from constrained.constraint import choice as choice
    from constrained.constraint import ebnf as ebnf
    from constrained.constraint import fields as fields
    from constrained.constraint import gbnf as gbnf
    from constrained.constraint import json_schema as json_schema
    from constrained.constraint import lark as lark
    from constrained.constraint import predicate as predicate
    from constrained.constraint import python_type as python_type
    from constrained.constraint import regex as regex
    from constrained.constraint import structural_tag as structural_tag
    from constrained.constraint import substring_of as substring_of
    from constrained.constraint import tag as tag
    from constrained.constraint import tags as tags
    from constrained.decisions import Decision as Decision
    from constrained.decoding import Chunk as Chunk
    from constrained.decoding import Cut as Cut
    from constrained.decoding import Generator as Generator
    from constrained.decoding import Output as Output
    from constrained.decoding import Samples as Samples
    from constrained.decoding import Speculation as Speculation
    from constrained.decoding import Stats as Stats
    from constrained.errors import BudgetExhausted as BudgetExhausted
    from constrained.errors import ConstrainedError as ConstrainedError
    from constrained.errors import ConstraintError as ConstraintError
    from constrained.errors import ConstraintTooLarge as ConstraintTooLarge
    from constrained.errors import DocumentError as DocumentError
    from constrained.errors import DoesNotFit as DoesNotFit
    from constrained.errors import InvalidArgument as InvalidArgument
    from constrained.errors import InvalidConstraint as InvalidConstraint
    from constrained.errors import ModelError as ModelError
    from constrained.errors import ModelMismatch as ModelMismatch
    from constrained.errors import PredicateError as PredicateError
    from constrained.errors import PromptError as PromptError
    from constrained.errors import PromptTooLong as PromptTooLong
    from constrained.errors import RejectedValue as RejectedValue
    from constrained.errors import Truncated as Truncated
    from constrained.errors import UnsatisfiableConstraint as UnsatisfiableConstraint
    from constrained.errors import UnsupportedConstraint as UnsupportedConstraint
    from constrained.errors import VocabularyError as VocabularyError
    from constrained.errors import WorkerError as WorkerError
    from constrained.extraction import Decided as Decided
    from constrained.extraction import Decider as Decider
    from constrained.extraction import Document as Document
    from constrained.extraction import Extraction as Extraction
    from constrained.extraction import Extractor as Extractor
    from constrained.extraction import Partial as Partial
    from constrained.extraction import aextract as aextract
    from constrained.extraction import decide as decide
    from constrained.extraction import extract as extract
    from constrained.extraction import extract_many as extract_many
    from constrained.extraction import read_documents as read_documents
    from constrained.extraction.cluster.dataset import extract_dataset as extract_dataset
    from constrained.integrations.transformers import (
        ConstraintLogitsProcessor as ConstraintLogitsProcessor,
    )
    from constrained.integrations.transformers import decode as decode
    from constrained.models import LanguageModel as LanguageModel
    from constrained.models import load as load
    from constrained.sampling import AWRS as AWRS
    from constrained.sampling import CARS as CARS
    from constrained.sampling import MCMC as MCMC
    from constrained.sampling import SMC as SMC
    from constrained.sampling import ASAp as ASAp
    from constrained.sampling import Exact as Exact
    from constrained.sampling import Local as Local
    from constrained.sampling import Rejection as Rejection
    from constrained.sampling import Tries as Tries
    from constrained.vocabulary import Vocabulary as Vocabulary


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except (ImportError, AttributeError) as error:
        # In a checkout Python finds the folder of the C++ sources, where the compiled module is missing.
        from constrained.extras import MissingExtra
        from constrained.native_modules import native_problem

        problem = None if isinstance(error, MissingExtra) else native_problem()
        if problem is None:
            raise
        raise ImportError(problem) from error
    globals()[name] = value  # found at once from now on
    return value


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if name.startswith("__")), *__all__])
