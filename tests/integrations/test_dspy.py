"""DSPy through the server: what docs/frameworks.md says makes its JSON adapter send the schema, which then holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest

dspy = pytest.importorskip("dspy", reason="dspy is not installed: it is in no extra")

from dspy.lm15 import (  # noqa: E402
    AccessPolicy,
    ModelSupport,
    OpenAIChatCompat,
    ProviderDefinition,
    register_provider,
)

from tests.server.serving import MODEL, Served, scripted, served  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")


class Triage(dspy.Signature):
    """Who should read a message."""

    message: str = dspy.InputField()
    team: Literal["billing", "support"] = dspy.OutputField()
    urgency: Literal[1, 2, 3] = dspy.OutputField()


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(scripted(lambda prompt: "Sure! The team is sales.")) as running:
        yield running


def program(server: Served) -> Any:
    access = AccessPolicy(provider="constrained", env_keys=(), base_url=f"{server.url}/v1")
    definition = ProviderDefinition.chat(access, compat=OpenAIChatCompat(), placeholder_key="none")
    supports = ModelSupport(response_schema=True, function_calling=True)
    register_provider(definition, supports=supports, replace=True)
    lm = dspy.LM(f"constrained/{MODEL}", cache=False, max_tokens=200, temperature=0.0, num_retries=0)
    return dspy.Predict(Triage), dspy.context(lm=lm, adapter=dspy.JSONAdapter())


def test_the_schema_of_a_signature_holds(server: Served) -> None:
    predict, context = program(server)
    with context:
        answer = predict(message="I was charged twice")
    assert answer.team in ("billing", "support")
    assert answer.urgency in (1, 2, 3)


def test_without_the_registration_the_same_program_fails(server: Served) -> None:
    lm = dspy.LM(
        f"openai/{MODEL}",
        api_base=f"{server.url}/v1",
        api_key="none",
        cache=False,
        max_tokens=200,
        num_retries=0,
    )
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()), pytest.raises(Exception, match=r"parse|Adapter"):
        dspy.Predict(Triage)(message="I was charged twice")
