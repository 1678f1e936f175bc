"""Datasets too large for one process: Ray actors, with this library's models or with vLLM.

dataset.py      `extract_dataset`
ray_cluster.py  a connection to a cluster
ray_actor.py    what runs in an actor
vllm_engine.py  vLLM as the model of an extractor
"""
