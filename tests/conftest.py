"""Settings that every test shares."""

from __future__ import annotations

import os
import signal

# The models of the tests are so small that threads would only wait for each other, on a busy machine for long.
# Set before anything imports torch.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Kernels run interpreted, on CPU tensors; with TRITON_INTERPRET=0 on a machine with a GPU, compiled on it. Triton reads
# it when it is imported, which transformers does.
os.environ.setdefault("TRITON_INTERPRET", "1")

# Tests leave no files in the user's cache.
os.environ["CONSTRAINED_CACHE"] = ""

from hypothesis import settings

# Whoever starts the tests in the background may have told them to ignore Ctrl-C, and processes that tests start would
# inherit that. A handler of one's own is not inherited: they begin with the default.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says nothing about right or wrong, and a busy machine must not fail a test. A run must
# say the same thing each time, so the examples come from a fixed seed; `--hypothesis-profile=explore` draws new ones.
settings.register_profile("default", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, derandomize=False)
settings.load_profile("default")
