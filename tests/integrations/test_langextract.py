"""LangExtract with a local model: its own `extract`, with answers that are always well-formed and in the text."""

from __future__ import annotations

import json

import pytest

lx = pytest.importorskip(
    "langextract", reason="langextract is not installed: pip install 'constrained-generation[langextract]'"
)

from langextract.data import ExampleData, Extraction  # noqa: E402

from constrained.integrations.langextract import ConstrainedLanguageModel  # noqa: E402
from constrained.testing import ScriptedModel  # noqa: E402
from tests.support.finite import byte_vocabulary  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")
EXAMPLES = [
    ExampleData(
        text="Marie Curie was a physicist in Paris.",
        extractions=[
            Extraction("person", "Marie Curie", attributes={"field": "physics", "born": 1867}),
            Extraction("city", "Paris"),
        ],
    )
]
TEXT = "Ada Lovelace wrote programs in London."


def extracted(script: str, **settings: object) -> list[Extraction]:
    model = ScriptedModel(byte_vocabulary(), script)
    provider = ConstrainedLanguageModel(model, examples=EXAMPLES, max_tokens=400, **settings)
    found = lx.extract(
        TEXT,
        prompt_description="People and cities.",
        examples=EXAMPLES,
        model=provider,
        use_schema_constraints=False,
        show_progress=False,
    )
    return list(found.extractions)


def test_what_the_model_says_is_extracted_and_aligned() -> None:
    said = [{"person": "Ada Lovelace", "person_attributes": {"field": "programs"}}, {"city": "London"}]
    person, city = extracted(json.dumps({"extractions": said}))
    assert (person.extraction_class, person.extraction_text, person.attributes) == (
        "person",
        "Ada Lovelace",
        {"field": "programs"},
    )
    assert (city.extraction_text, city.char_interval.start_pos) == ("London", TEXT.index("London"))


@pytest.mark.parametrize(
    "said", ["Here you are: ```json", '{"extractions": [{"town": "Rome"', '{"extractions": [{"city": "Rome"']
)
def test_a_model_that_writes_malformed_or_foreign_answers_still_gives_spans(said: str) -> None:
    for one in extracted(said):
        assert one.extraction_class in ("person", "city")
        assert one.extraction_text in TEXT


def test_a_schema_of_the_user_and_several_prompts_in_one_batch() -> None:
    model = ScriptedModel(byte_vocabulary(), '{"extractions": [{"x": 2}]}')
    provider = ConstrainedLanguageModel(model, max_tokens=200)
    item = {"type": "object", "properties": {"x": {"enum": [1, 2]}}, "required": ["x"]}
    schema = {"type": "object", "properties": {"extractions": {"type": "array", "items": item}}}
    provider._schema = None
    provider.apply_output_schema(schema)
    answers = provider.infer_batch(["one", "two", "three"])
    assert [json.loads(one[0].output) for one in answers] == [{"extractions": [{"x": 2}]}] * 3
