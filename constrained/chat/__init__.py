"""Chat conversations: messages and tools in, content and tool calls out, in the formats of model families.

What reads a chat template (`messages`, `detect`, the probes) knows models; the other files do not.
"""
