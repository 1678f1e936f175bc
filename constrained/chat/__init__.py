"""Chat conversations: messages and tools in, content and tool calls out, in the formats of model families."""
