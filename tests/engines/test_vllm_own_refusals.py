"""What vLLM's own tests want refused or taken before the engine sees it, with our front end; files named as in the neighbour."""

from __future__ import annotations

import json
from typing import Any

import pytest

from constrained.integrations.engines.settings import VllmSettings
from tests.engines import schema_cases
from tests.engines.vllm_manager import Harness


@pytest.fixture(scope="module")
def harness() -> Harness:
    return Harness()


@pytest.fixture(scope="module")
def front_end(harness: Harness) -> Any:
    from constrained.integrations.vllm.front_end import FrontEnd

    made = FrontEnd(VllmSettings(compile_seconds=20))
    yield made
    if made._trial is not None:
        made._trial.close()


def check(harness: Harness, front_end: Any, **structured: Any) -> Any:
    """The parameters of a request that is taken.

    Raises:
        VLLMValidationError: it is refused; vLLM answers with status 400.
    """
    params, config = harness.params(**structured), harness.config()
    params.structured_outputs._backend = None
    front_end.check(params, config.model_config, config.structured_outputs_config, harness.tokenizer)
    return params


def refused(harness: Harness, front_end: Any, **structured: Any) -> str:
    from vllm.exceptions import VLLMClientError, VLLMValidationError

    assert issubclass(VLLMValidationError, VLLMClientError)  # what vLLM serves as status 400
    with pytest.raises(VLLMValidationError) as error:
        check(harness, front_end, **structured)
    return str(error.value)


# test_validation.py


@pytest.mark.parametrize(
    ("structured", "message"),
    [
        ({"json_object": False}, "json_object is False"),
        ({"json": ""}, "json is not JSON"),
        ({"json": {"properties": {"name": {"type": "str"}}}}, "#/properties/name/type"),
        ({"json": '{"type": '}, "json is not JSON"),
        ({"grammar": "not a grammar"}, "line 1, column 5"),
        ({"regex": "("}, "regular expression"),
        ({"regex": "a|\ud800"}, "half of a surrogate pair"),
        ({"structural_tag": '{"nope": 1}'}, "is not a structural tag"),
    ],
)
def test_malformed_constraints(
    harness: Harness, front_end: Any, structured: dict[str, Any], message: str
) -> None:
    assert message in refused(harness, front_end, **structured)


@pytest.mark.parametrize("schema", [{"const": 10**20}, {"const": "\ud800"}, '{"const": "\ud800"}'], ids=ascii)
def test_every_schema_can_be_sent_to_the_engine(harness: Harness, front_end: Any, schema: Any) -> None:
    import msgspec

    sent = check(harness, front_end, json=schema).structured_outputs.json
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent)) == sent
    assert json.loads(sent) == (json.loads(schema) if isinstance(schema, str) else schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 2}}},
        {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "patternProperties": {"^a$": {"type": "string"}},
        },
        {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
    ],
)
def test_every_request_has_the_same_backend(harness: Harness, front_end: Any, schema: Any) -> None:
    """Those of vLLM's tests that other backends refuse too; a second backend would be an error there."""
    params = check(harness, front_end, json=schema)
    assert params.structured_outputs._backend == "constrained"
    manager = harness.manager()
    request = harness.request(manager, params=params)
    assert type(manager.backend).__name__ == "VllmGrammarBackend"
    assert request.structured_output_request.grammar.validate_tokens([harness.token("{")])


def test_diffusion_models_are_left_to_vllm() -> None:
    """`patch` asks vLLM's own check there."""
    from types import SimpleNamespace

    from vllm.exceptions import VLLMValidationError
    from vllm.sampling_params import SamplingParams, StructuredOutputsParams

    from constrained.integrations.vllm import patch

    patch.install(VllmSettings())
    model: Any = SimpleNamespace(is_diffusion=True)
    SamplingParams()._validate_structured_outputs(model, SimpleNamespace(), tokenizer=None)
    params = SamplingParams(structured_outputs=StructuredOutputsParams(json={}))
    with pytest.raises(VLLMValidationError, match="diffusion"):
        params._validate_structured_outputs(model, SimpleNamespace(backend="auto"), tokenizer=None)


@pytest.mark.parametrize("regex", ["\x00", "\x00\x01\x02\x1f", "[0-9]\x00"])
def test_nul_is_a_character_like_others(harness: Harness, front_end: Any, regex: str) -> None:
    """vLLM refuses it, because XGrammar's converter ends texts there."""
    params = check(harness, front_end, regex=regex)
    text = regex.replace("[0-9]", "7")
    for written, good in ((text, True), (text.replace("\x00", ""), False)):
        grammar = harness.request(harness.manager(), params=params).structured_output_request.grammar
        assert grammar.accept_tokens("case", [*harness.encode(written), harness.end]) is good


# test_backend_xgrammar.py, test_backend_xgrammar_lark.py, test_backend_outlines.py


@pytest.mark.parametrize(("schema", "message"), schema_cases.REFUSED, ids=lambda one: json.dumps(one)[:60])
def test_schemas_that_cannot_be_enforced(harness: Harness, front_end: Any, schema: Any, message: str) -> None:
    assert message in refused(harness, front_end, json=schema)


@pytest.mark.parametrize(
    ("grammar", "message"),
    [('rule: "hello"', "has no rule start"), ("start: 'hello'", "line 1, column 8")],
)
def test_malformed_lark(harness: Harness, front_end: Any, grammar: str, message: str) -> None:
    assert message in refused(harness, front_end, grammar=grammar)


@pytest.mark.parametrize(
    ("regex", "message"),
    [
        (r"(a)\1", "back-references"),
        (r"((a)\2)", "back-references"),
        (r"(?:a\b)*?", "an assertion inside an unbounded loop"),
        (r"(?:a\b)*+", "possessive"),
        (r"(?>a\b)", "atomic"),
        (r"(a(?=b))", "no completion satisfies"),
        (r"(?:(a\b)){2}", "no completion satisfies"),
    ],
)
def test_regular_expressions_that_are_refused(
    harness: Harness, front_end: Any, regex: str, message: str
) -> None:
    assert message in refused(harness, front_end, regex=regex)


@pytest.mark.parametrize(
    ("regex", "good", "bad"),
    [
        (r"a\b", "a", "aa"),
        (r"(a\b)", "a", "ab"),
        (r"((a\b))", "a", "ab"),
        (r"(?i:a\b)", "A", "b"),
        (r"[\b]", "\b", "b"),
        (r"(a[\b]c)", "a\bc", "ac"),
        (r"a\\b", "a\\b", "a"),
        (r"(a\\bc)", "a\\bc", "abc"),
        (r"(a|b)+c", "abac", "ab"),
        (r"(?:ab)*?c", "ababc", "aab"),
    ],
)
def test_regular_expressions_that_are_enforced(
    harness: Harness, front_end: Any, regex: str, good: str, bad: str
) -> None:
    """Word boundaries at the end of a text among them, which vLLM refuses for outlines."""
    params = check(harness, front_end, regex=regex)
    for text, wanted in ((good, True), (bad, False)):
        grammar = harness.request(harness.manager(), params=params).structured_output_request.grammar
        assert grammar.accept_tokens("case", [*harness.encode(text), harness.end]) is wanted


# test_xgrammar_token_bounds.py: tokens by number, within the vocabulary or not, and names of no token are refused before
# the request is scheduled.


@pytest.mark.parametrize("token", [5, 10**6, -1, 0.5, "<tool>"])
@pytest.mark.parametrize(
    "make",
    [
        lambda token: {"type": "token", "token": token},
        lambda token: {"type": "exclude_token", "exclude_tokens": [token]},
        lambda token: {"type": "any_tokens", "exclude_tokens": [token]},
        lambda token: {"type": "token_triggered_tags", "trigger_tokens": [token], "tags": []},
        lambda token: {"type": "token_dispatch", "rules": [[token, {"type": "token", "token": 0}]]},
        lambda token: {"type": "sequence", "elements": [{"type": "token", "token": token}]},
        lambda token: {
            "type": "repeat",
            "min": 0,
            "max": 1,
            "content": {"type": "token", "token": token},
        },
        lambda token: {"type": "tag", "begin": {"type": "token", "token": token}, "end": "</t>"},
    ],
    ids=["token", "exclude", "any", "triggered", "dispatch", "sequence", "repeat", "tag"],
)
def test_formats_of_tokens(harness: Harness, front_end: Any, make: Any, token: Any) -> None:
    tag = json.dumps({"type": "structural_tag", "format": make(token)})
    message = refused(harness, front_end, structural_tag=tag)
    assert "#/format" in message or "'<" in message, (
        "the place, or a token that the vocabulary does not have so"
    )


@pytest.mark.parametrize("token", [5, 10**6])
@pytest.mark.parametrize(
    "grammar",
    [
        "root ::= Token({0})\n",
        'body ::= "ok"\nroot ::= TokenTagDispatch(({0}, body))\n',
        "root ::= TokenTagDispatch(excludes=({0},))\n",
        'start: <[{0}]> "assistant"',
    ],
)
def test_grammars_of_tokens(harness: Harness, front_end: Any, grammar: str, token: int) -> None:
    message = refused(harness, front_end, grammar=grammar.format(token))
    assert "line" in message or f"'<[{token}]>'" in message, "the place, or the token"


# test_grammar_compilation_timeout.py, test_regex_compilation_timeout.py


def test_compiling_has_a_deadline(harness: Harness) -> None:
    from constrained.integrations.vllm.front_end import FrontEnd

    front_end = FrontEnd(VllmSettings(compile_seconds=1))
    chain = "\n".join(f'r{i} ::= r{i + 1} | "a{i}"' for i in range(30_000))
    hostile = f'root ::= r0\n{chain}\nr30000 ::= "b"'
    assert "not compiled within 1 seconds" in refused(harness, front_end, grammar=hostile)
    check(harness, front_end, json={"type": "object"})
    schema: Any = {"type": "string"}
    for _ in range(4):
        schema = {
            "oneOf": [
                {"type": "object", "properties": {name: schema}, "required": [name]} for name in ("x", "y")
            ]
        }
    check(harness, FrontEnd(VllmSettings(compile_seconds=20)), json=schema)
