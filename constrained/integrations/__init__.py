"""Other people's interfaces: each page translates one of them, the engine decides.

    tools.py         tools as OpenAI clients describe them, and how a model writes calls
    replies.py       the constraint of a chat's answer: free text, or calls of tools; and its text read back
    chat.py          messages and tools as the prompt that a model reads
    transformers.py  under the `generate` of transformers
    langchain.py     as a chat model of LangChain
    server/          for OpenAI's clients, over HTTP

Each page imports its library when it is imported itself, and no page imports that of another.
"""
