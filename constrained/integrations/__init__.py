"""Adapters to the interfaces of other libraries.

    transformers     inside the `generate` of transformers
    langchain        a chat model of LangChain
    lm_eval          a model of lm-evaluation-harness
    vllm             structured outputs inside vLLM
    sglang           a grammar backend inside SGLang
    engines          what the last two share
    llama_cpp        inside `create_completion` of llama-cpp-python
    mlx              inside mlx-lm
    outlines         inside Outlines

Each package imports its library when it is imported, and none another one's; `text_mask` is what processors of one text share.
"""
