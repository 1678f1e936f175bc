"""Other people's interfaces: each page translates one of them, the engine decides.

    tools.py         tools as OpenAI clients describe them, and how a model writes calls
    formats.py       the same, read off a model's chat template
    replies.py       the constraint of a chat's answer: free text, or calls of tools
    reading.py       its text taken apart, also while it is written
    chat.py          messages and tools as the prompt that a model reads
    transformers     under the `generate` of transformers
    langchain        as a chat model of LangChain
    server           for OpenAI's clients, over HTTP
    lm_eval          as a model of lm-evaluation-harness
    missing.py       what to install where a library is missing

Each page imports its library when it is imported itself, and no page imports that of another.
"""
