"""LangExtract: a provider whose extractions are always well-formed, of the classes of the examples, and in the text.

    import langextract as lx
    from constrained.integrations.langextract import ConstrainedLanguageModel

    model = ConstrainedLanguageModel("Qwen/Qwen3-8B", examples=examples)
    lx.extract(text, prompt_description=..., examples=examples, model=model, use_schema_constraints=False)

Needs the extra ``langextract``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from constrained.constraint import Constraint, json_schema
from constrained.constraint.json import MAX_DIGITS
from constrained.decoding import Generator
from constrained.decoding.shared_runner import MAX_ROWS, BackgroundRunner
from constrained.errors import InvalidArgument
from constrained.extras import require_extra
from constrained.models import LanguageModel, load

with require_extra("langextract"):
    from langextract.core.base_model import BaseLanguageModel
    from langextract.core.data import ATTRIBUTE_SUFFIX, EXTRACTIONS_KEY
    from langextract.core.schema import BaseSchema
    from langextract.core.types import ScoredOutput

_QUESTION, _ANSWER = "\nQ: ", "\nA: "
_VALUE: dict[str, Any] = {"type": ["string", "number", "boolean", "null"]}
_KINDS: Mapping[type, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    list: {"type": "array", "items": {"type": "string"}},
}


class ExtractionSchema(BaseSchema):
    """The schema of the answers: a list of extractions, each of one class with its attributes.

    Attributes:
        schema_dict: JSON Schema of an answer.
    """

    def __init__(self, schema_dict: Mapping[str, Any]) -> None:
        self.schema_dict = dict(schema_dict)

    @classmethod
    def from_examples(
        cls, examples_data: Sequence[Any], attribute_suffix: str = ATTRIBUTE_SUFFIX
    ) -> ExtractionSchema:
        """The schema of the classes and attributes that the examples have; attributes may be left out."""
        classes: dict[str, dict[str, set[type]]] = {}
        for example in examples_data:
            for extraction in example.extractions:
                attributes = classes.setdefault(extraction.extraction_class, {})
                for name, value in (extraction.attributes or {}).items():
                    attributes.setdefault(name, set()).add(type(value))
        items = [_class_schema(name, kinds, attribute_suffix) for name, kinds in classes.items()]
        listed: dict[str, Any] = {"type": "array", "items": {"anyOf": items} if items else {"type": "object"}}
        return cls(
            {
                "type": "object",
                "properties": {EXTRACTIONS_KEY: listed},
                "required": [EXTRACTIONS_KEY],
                "additionalProperties": False,
            }
        )

    @classmethod
    def from_schema_dict(cls, output_schema: Mapping[str, Any]) -> ExtractionSchema:
        """A schema that the user wrote."""
        return cls(output_schema)

    def to_provider_config(self) -> dict[str, Any]:
        """The arguments of the provider: none, it is given the schema itself."""
        return {}

    @property
    def requires_raw_output(self) -> bool:
        """Answers are JSON without fences."""
        return True


def _class_schema(name: str, attributes: Mapping[str, set[type]], suffix: str) -> dict[str, Any]:
    """The schema of extractions of one class."""
    properties: dict[str, Any] = {name: {"type": "string", "x-span": True}}
    if attributes:
        members = {key: _attribute_schema(kinds) for key, kinds in attributes.items()}
        properties[f"{name}{suffix}"] = {
            "type": ["object", "null"],
            "properties": members,
            "additionalProperties": False,
        }
    return {"type": "object", "properties": properties, "required": [name], "additionalProperties": False}


def _attribute_schema(kinds: set[type]) -> dict[str, Any]:
    schemas = [_KINDS.get(kind, _VALUE) for kind in sorted(kinds, key=lambda kind: kind.__name__)]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


class ConstrainedLanguageModel(BaseLanguageModel):
    """A LangExtract provider that runs a local model under a constraint.

    Every answer is JSON of the schema, complete within `max_tokens`; the text of an extraction is a span of the text that
    was asked about, so that LangExtract can always align it. All prompts of a call share one rolling batch.
    """

    def __init__(
        self,
        model_id: Any = None,
        *,
        examples: Sequence[Any] = (),
        grounded: bool = True,
        sampler: Any = None,
        **settings: Any,
    ) -> None:
        """Loads the model.

        Args:
            model_id: what `constrained.load` takes; a name may begin with ``constrained:``.
            examples: of LangExtract: they determine the schema. LangExtract itself gives it to a model that is made
                from a `ModelConfig`.
            grounded: texts of extractions are spans of the text: what follows the last ``Q: `` at the beginning of a line of
                the prompt.
            sampler: as in `Generator`.
            settings: of each call of `Generator`: `max_tokens`, `temperature`, `seed`, ...

        Raises:
            InvalidArgument: the format is not JSON.
        """
        super().__init__()
        form = settings.pop("format_type", None)
        if form is not None and getattr(form, "value", form) != "json":
            raise InvalidArgument(f"format_type is {form!r}", action="use JSON")
        name = model_id.removeprefix("constrained:") if isinstance(model_id, str) else model_id
        self.model: LanguageModel = load(name)
        self._grounded = grounded
        self._sampler = sampler
        self._settings = settings
        self.apply_schema(ExtractionSchema.from_examples(examples))

    @classmethod
    def get_schema_class(cls) -> type[ExtractionSchema]:
        """The class of the schemas that this provider enforces."""
        return ExtractionSchema

    def infer(self, batch_prompts: Sequence[str], **kwargs: Any) -> Iterator[list[ScoredOutput]]:
        """The answers to prompts of LangExtract, with their log-probabilities.

        Args:
            batch_prompts: any number; they are decoded together.
            kwargs: settings of the call, over those of the model; what LangExtract alone uses is left out.
        """
        settings = {
            **self._settings,
            **{name: kwargs[name] for name in _CALL if kwargs.get(name) is not None},
        }
        for begin in range(0, len(batch_prompts), MAX_ROWS):
            requests = []
            for prompt in batch_prompts[begin : begin + MAX_ROWS]:
                generator: Generator[Any] = Generator(
                    self.model, self._answer_constraint(prompt), sampler=self._sampler
                )
                requests.append((generator, generator._request(prompt, **settings)))
            for output in BackgroundRunner.of(generator).run(requests):
                yield [ScoredOutput(score=output.logprob, output=output.text)]

    def _answer_constraint(self, prompt: str) -> Constraint:
        """The constraint on the answer to a prompt."""
        assert isinstance(self.schema, ExtractionSchema)
        constraint = json_schema(self.schema.schema_dict, max_digits=MAX_DIGITS)
        if not constraint.needs_document:
            return constraint
        text = prompt.rpartition(_ANSWER)[0].rpartition(_QUESTION)[2]
        return constraint.bind(text) if self._grounded and text else constraint.without_document()


_CALL = ("max_tokens", "temperature", "top_k", "top_p", "min_p", "seed")
