"""The workload: a sample of schemas, and their recorded instances as token ids."""

from __future__ import annotations

import json
import pickle
import random
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained.bench.harness.results import json_lines
from constrained.errors import InvalidArgument, ModelError, VocabularyError

if TYPE_CHECKING:
    from constrained.vocabulary import Vocabulary

TEKKEN = "tekken"
"""The name of the vocabulary that mistral-common carries: 131,072 tokens."""

_TEKKEN_FILE = "tekken_240911.json"


@dataclass(frozen=True, slots=True)
class VocabularyData:
    """A vocabulary as plain data, which can be sent to the process of an engine.

    Attributes:
        tokens: bytes per id; ``b""`` for an id without text.
        eos_ids: ids that end a sequence.
        pattern: the regular expression by which a tiktoken-like tokenizer splits text, if it is one.
        tokenizer_json: a Hugging Face ``tokenizer.json``, if there is one.
    """

    tokens: list[bytes]
    eos_ids: tuple[int, ...]
    pattern: str | None = None
    tokenizer_json: str | None = None

    @property
    def size(self) -> int:
        """Number of ids."""
        return len(self.tokens)

    @classmethod
    def from_vocabulary(cls, vocabulary: Vocabulary, tokenizer: Any = None) -> VocabularyData:
        """The data of a vocabulary, with its Hugging Face tokenizer if there is one."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        text = backend.to_str() if backend is not None else None
        return cls(list(vocabulary.tokens), tuple(vocabulary.eos_ids), tokenizer_json=text)

    def save(self, path: Path) -> None:
        """Writes a file for `load`."""
        path.write_bytes(pickle.dumps(self))

    @staticmethod
    def load(path: Path) -> VocabularyData:
        """Reads a file of `save`; it is a pickle, so never pass a file from elsewhere."""
        tokens = pickle.loads(path.read_bytes())
        assert isinstance(tokens, VocabularyData)
        return tokens


@dataclass(frozen=True, slots=True)
class Instance:
    """One recorded JSON value.

    Attributes:
        valid: whether it satisfies the schema.
        tokens: canonical ids of ``json.dumps(value, ensure_ascii=False)``, or of the text of a structural tag.
    """

    valid: bool
    tokens: list[int]


@dataclass(frozen=True, slots=True)
class SchemaCase:
    """One schema or structural tag, and the values or texts recorded for it.

    Attributes:
        id: its name in the data.
        schema: the schema or the tag as JSON text.
        instances: recorded values, valid and invalid ones.
        unencodable: number of values left out because the vocabulary cannot encode them (lone surrogates).
    """

    id: str
    schema: str
    instances: list[Instance]
    unencodable: int = 0


def is_structural_tag(schema: Any) -> bool:
    """Whether a row's schema is a structural tag."""
    return isinstance(schema, dict) and schema.get("type") == "structural_tag"


def sample(path: Path, count: int, seed: int) -> list[dict[str, Any]]:
    """A random sample of the rows of a file, in random order; all rows if `count` is 0.

    Args:
        path: ``{"id", "schema", "tests": [{"valid", "data"}]}`` a line, plain or gzipped. A test may have ``text`` in
            place of ``data``, for a structural tag in place of the schema.
        count: number of rows.
        seed: of the sample.

    Raises:
        InvalidArgument: the file cannot be read, or is not MaskBench data.
    """
    try:
        rows = [
            {"id": str(row["id"]), "schema": row["schema"], "tests": list(row["tests"])}
            for row in json_lines(path)
        ]
    except OSError as error:
        raise InvalidArgument(
            f"the data {str(path)!r} cannot be read: {error.strerror or error}", action="check --data"
        ) from None
    except (ValueError, KeyError, TypeError, EOFError) as error:
        raise InvalidArgument(
            f"{str(path)!r} is not MaskBench data: {type(error).__name__}: {error}",
            action='a line is {"id": ..., "schema": ..., "tests": [{"valid": ..., "data": ...}]}',
        ) from None
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    return [rows[i] for i in order[: count or None]]


def prepare(row: dict[str, Any], vocabulary: Vocabulary) -> SchemaCase:
    """A row with its values as token ids.

    Raises:
        InvalidArgument: a test of the row has no ``valid``, or neither ``data`` nor ``text``.
    """
    instances, unencodable = [], 0
    for test in row["tests"]:
        try:
            text = test["text"] if "text" in test else json.dumps(test["data"], ensure_ascii=False)
            valid = bool(test["valid"])
        except (KeyError, TypeError) as error:
            raise InvalidArgument(f"a test of {row['id']} is malformed: {error!r}") from None
        try:
            instances.append(Instance(valid, vocabulary.encode(text)))
        except VocabularyError:
            unencodable += 1
    schema = json.dumps(row["schema"], ensure_ascii=False)
    try:
        schema.encode()
    except UnicodeEncodeError:
        schema = json.dumps(row["schema"])  # lone surrogates have no UTF-8, but a JSON escape
    return SchemaCase(row["id"], schema, instances, unencodable)


def load_bench_vocabulary(name: str) -> tuple[Vocabulary, VocabularyData]:
    """A vocabulary by name, for this process, and as data for the processes of engines.

    Args:
        name: ``tekken``, or a Hugging Face tokenizer by name or folder.

    Raises:
        ModelError: there is no such tokenizer, or the package that carries it is missing.
        VocabularyError: its tokens cannot be used.
    """
    from constrained.vocabulary import Vocabulary

    if name == TEKKEN:
        tokenizer, pattern = _tekken()
        vocabulary = Vocabulary.from_tokenizer(tokenizer)
        return vocabulary, VocabularyData(list(vocabulary.tokens), vocabulary.eos_ids, pattern=pattern)
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"the tokenizer {name!r} cannot be loaded: {reason}", action="check --vocabulary"
        ) from None
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    return vocabulary, VocabularyData.from_vocabulary(vocabulary, tokenizer)


def _tekken() -> tuple[Any, str]:
    package = find_spec("mistral_common")
    if package is None or not package.submodule_search_locations:
        raise ModelError(
            "the vocabulary 'tekken' comes with the package mistral-common, which is not installed",
            action="pip install 'constrained-generation[bench]', or name a tokenizer with --vocabulary",
        )
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    file = Path(package.submodule_search_locations[0]) / "data" / _TEKKEN_FILE
    pattern = json.loads(file.read_bytes())["config"]["pattern"]
    return Tekkenizer.from_file(file), pattern
