"""The standard tests of langchain-tests, as they are: unit and integration classes."""

from __future__ import annotations

import warnings
from importlib.resources import files
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from langchain_tests.integration_tests import ChatModelIntegrationTests
    from langchain_tests.unit_tests import ChatModelUnitTests

from constrained.integrations.langchain import ChatConstrained
from constrained.testing import ScriptedModel
from tests.chat.scripted_chat import call, vocabulary

# The suite runs with its own warnings (deprecations of the library it comes from).
pytestmark = pytest.mark.filterwarnings("default")

JOKE = '{"setup": "Why did the cat sit there?", "punchline": "It was the warm place."}'
# By the last message: the first key that occurs in the prompt counts.
SCRIPT = {
    "<tool_response>\nIt's sunny.": "It is sunny there.",
    "San Francisco": call("get_weather", '{"location": "San Francisco, CA"}'),
    "magic_function_no_args()": call("magic_function_no_args", "{}"),
    "magic_function(3)": call("magic_function", '{"input": 3}'),
    "greeting_generator": call("greeting_generator", '{"answer_style": "Pirate"}'),
    "cats": JOKE,
    "你好啊集团": call("unicode_customer", '{"customer_name": "你好啊集团", "description": "一家技术公司"}'),
    "こんにちは": call("unicode_customer", '{"customer_name": "こんにちは株式会社", "description": "会社"}'),
    "What is 3 + 4": call("my_adder_tool", '{"a": 3, "b": 4}'),
    "hi": "hi to you, and more",
    "": "Good day to everyone here.",
}


class Settings:
    """The properties of the model for both classes."""

    @property
    def chat_model_class(self) -> type[ChatConstrained]:
        return ChatConstrained

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": ScriptedModel(vocabulary(), SCRIPT), "extraction": False}

    @property
    def model_override_value(self) -> str:
        return str(files("constrained") / "models" / "tiny" / "weights")  # a folder names a model too

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return False


class TestUnit(Settings, ChatModelUnitTests):
    """Construction, binding, parameters."""


class TestIntegration(Settings, ChatModelIntegrationTests):
    """Whole conversations."""
