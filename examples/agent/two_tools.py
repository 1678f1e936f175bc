"""An agent with two tools: the model calls them until it replies without a call. Needs: pip install 'constrained-generation[langchain]'."""

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

import constrained
from constrained.integrations.langchain import ChatConstrained
from constrained.testing import ScriptedModel

STOCK = {"bolt": (120, 0.35), "hinge": (8, 4.2)}


@tool
def look_up(part: str) -> str:
    """How many pieces of a part there are, and the price of one."""
    count, price = STOCK[part]
    return f"{count} pieces, {price} each"


@tool
def multiply(a: float, b: float) -> float:
    """Multiplies two numbers."""
    return round(a * b, 2)


def script(prompt: str) -> str:
    """Replaces a model that can follow a conversation, for which the bundled model is too small.

    For a real model write `ChatConstrained(model="Qwen/Qwen3-8B")`.
    """
    if "33.6" in prompt:
        return "All hinges together cost 33.60."
    if "8 pieces" in prompt:
        return '<tool_call>\n{"name": "multiply", "arguments": {"a": 8, "b": 4.2}}\n</tool_call>'
    return 'Let me look.\n<tool_call>\n{"name": "look_up", "arguments": {"part": "hinge"}}\n</tool_call>'


tools = {one.name: one for one in (look_up, multiply)}
chat = ChatConstrained(model=ScriptedModel(constrained.load().vocabulary, script))
agent = chat.bind_tools(list(tools.values()))

messages = [HumanMessage("What do all our hinges cost together?")]
for _ in range(5):
    answer = agent.invoke(messages)
    messages.append(answer)
    for call in answer.tool_calls:
        result = tools[call["name"]].invoke(call)
        messages.append(result)
        print(f"{call['name']}({call['args']}) -> {result.content}")
    if not answer.tool_calls:
        print(answer.content)
        break
