"""A LangGraph loop with three tools: parallel calls, a person who approves them, chunks of calls as they are written.

Needs: pip install 'constrained-generation[langchain]' langchain
"""

from typing import Literal

from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

from constrained.integrations.langchain import ChatConstrained

Part = Literal["bolt", "hinge"]
STOCK = {"bolt": (120, 0.35), "hinge": (8, 4.2)}


@tool
def count(part: Part) -> int:
    """How many pieces of a part there are."""
    return STOCK[part][0]


@tool
def price(part: Part) -> float:
    """The price of one piece of a part."""
    return STOCK[part][1]


@tool
def order(part: Part, pieces: Literal[10, 100]) -> str:
    """Orders more pieces of a part."""
    return f"{pieces} of {part} are ordered"


tools = [count, price, order]
# The bundled model is too small to follow a conversation, so it is told when to call and when to answer; what it writes is
# well-formed all the same. With ChatConstrained(model="Qwen/Qwen3-8B") bind the tools once, with tool_choice="auto".
chat = ChatConstrained(max_tokens=120, temperature=1.0, seed=4)


def model(state: MessagesState):
    """Calls tools first, and then answers."""
    called = any(message.type == "tool" for message in state["messages"])
    bound = chat.bind_tools(tools, tool_choice="none" if called else "any")
    return {"messages": [bound.invoke(state["messages"], max_tokens=24 if called else 120)]}


def approve(state: MessagesState):
    """A person sees the calls before they are made."""
    calls = [(call["name"], call["args"]) for call in state["messages"][-1].tool_calls]
    if interrupt({"calls": calls}) != "yes":
        raise SystemExit("the person said no")


graph = StateGraph(MessagesState)
graph.add_node(model)
graph.add_node(approve)
graph.add_node("tools", ToolNode(tools))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition, {"tools": "approve", "__end__": "__end__"})
graph.add_edge("approve", "tools")
graph.add_edge("tools", "model")
agent = graph.compile(checkpointer=InMemorySaver())

thread = {"configurable": {"thread_id": "1"}}
question = HumanMessage("How many hinges and bolts are there, and what does each cost?")
pieces = 0
for chunk, _ in agent.stream({"messages": [question]}, thread, stream_mode="messages"):
    if isinstance(chunk, AIMessageChunk):
        pieces += len(chunk.tool_call_chunks)
(asked,) = agent.get_state(thread).interrupts
print(f"{pieces} chunks of calls; to approve:")
for name, arguments in asked.value["calls"]:
    print(f"    {name}({arguments})")

state = agent.invoke(Command(resume="yes"), thread)
for message in state["messages"]:
    if message.type == "tool":
        print(f"{message.name} -> {message.content}")
print(f"the reply has {len(state['messages'][-1].content)} characters and no calls")
