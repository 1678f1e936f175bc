"""Every token has its draft source and forward pass; the drafter's own counts are the judge."""

from __future__ import annotations

import io
import re

import pytest

import constrained
from constrained import CARS, Local
from constrained.decoding.speculation import Speculation
from constrained.spec.sources import DRAFT_SOURCES
from constrained.testing import ScriptedModel
from tests.spec.speculating import ADVERSARIES, foreseeing, fresh, generator, letters, words
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 30}, "kind": {"enum": ["cat", "dog", "emu"]}},
    "required": ["name", "kind"],
}
DRAFT = Speculation(nodes=16, adapts=False)
TEXT = '{\n  "name": "Gießen-Nord",\n  "kind": "emu"\n}'


def scripted(draft: Speculation | None) -> constrained.Generator:
    model = ScriptedModel(fresh(small_bpe_vocabulary()), TEXT)
    return constrained.Generator(model, constrained.json_schema(SCHEMA, whitespace="any"), speculation=draft)


@pytest.mark.parametrize("sampler", [Local(), Local(weights=False), CARS(parallel=1)])
def test_what_tokens_say_is_what_the_drafter_counts(sampler) -> None:
    total = 0
    for seed in range(4):
        exact = isinstance(sampler, CARS)
        model = letters(seed) if exact else words(b'{"name": "ann", "kind": "dog"}', 9.0)
        made = generator(model, constrained.regex("[abc]{2,6}") if exact else SCHEMA, sampler, DRAFT)
        out = made("Ann is a dog", seed=seed, max_tokens=6 if exact else 40, temperature=1.0)
        stats = out.stats
        assert len(stats.draft_origins) == len(stats.passes) == len(out.tokens)
        assert sum(map(bool, stats.draft_origins)) == stats.accepted
        for i, name in enumerate(DRAFT_SOURCES):
            assert (
                sum(origin >> i & 1 for origin in stats.draft_origins) == stats.sources.get(name, (0, 0))[1]
            )
        # Of the tokens of one pass only the last one can be without a draft source.
        for i, number in enumerate(stats.passes[:-1]):
            assert stats.draft_origins[i] or stats.passes[i + 1] == number + 1
        assert list(stats.passes) == sorted(stats.passes)
        assert stats.passes[:1] in ((), (1,))
        total += stats.accepted
    assert total > 0


@pytest.mark.parametrize("adversary", [*ADVERSARIES, "foreseeing"])
def test_tokens_without_a_draft_come_from_the_model(adversary) -> None:
    model = words(b'{"name": "ann", "kind": "dog"}', 9.0)
    plain = generator(model, SCHEMA, Local(), None)("Ann", max_tokens=40)
    assert set(plain.stats.draft_origins) == {0}
    assert plain.stats.passes == tuple(range(1, len(plain.tokens) + 1))
    source = foreseeing(plain.tokens) if adversary == "foreseeing" else ADVERSARIES[adversary](0, 5)
    out = generator(model, SCHEMA, Local(), DRAFT, source)("Ann", max_tokens=40)
    assert out.tokens == plain.tokens
    assert sum(map(bool, out.stats.draft_origins)) == out.stats.accepted


def test_a_shown_text_names_its_sources_and_the_passes_of_each_line() -> None:
    out = scripted(DRAFT)("We met an emu in Gießen-Nord.")
    assert out.text == TEXT
    tokens = out.annotated_tokens
    assert "".join(token.text for token in tokens) == TEXT
    by_source: dict[str, str] = {}
    for token in tokens:
        by_source[token.source] = by_source.get(token.source, "") + token.text
    assert len(by_source["prompt_lookup"]) > 2
    assert set(by_source["prompt_lookup"]) <= set("Gießen-Nord emu")
    assert [token.pass_index for token in tokens] == list(out.stats.passes)
    plain = io.StringIO()
    out.show(file=plain)
    *lines, legend = plain.getvalue().splitlines()
    begun = [int(line.split("│")[0] or 0) if line.split("│")[0].strip() else 0 for line in lines]
    assert [line.split("│ ", 1)[1] for line in lines] == TEXT.splitlines()
    assert sum(begun) == len(set(out.stats.passes)) < len(out.tokens)
    assert re.search(r"\d+ prompt_lookup", legend)
    assert f"{out.stats.accepted} of {out.stats.drafted} draft tokens accepted" in legend
    page = out._repr_html_()
    assert page.count("│") == len(lines)
    assert "prompt_lookup, pass" in page


def test_a_completion_without_draft_tokens_is_shown_as_before() -> None:
    out = scripted(None)("We met an emu in Gießen-Nord.")
    assert {token.source for token in out.annotated_tokens} == {"model", "forced"}
    plain = io.StringIO()
    out.show(file=plain)
    assert plain.getvalue().splitlines()[1].lstrip(" 0123456789").startswith('│   "name"')
