"""Settings that every test shares."""

from __future__ import annotations

import os

# The models of the tests are so small that threads would only wait for each other, on a busy machine for long.
# Set before anything imports torch.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

# How long an example takes says nothing about right or wrong, and a busy machine must not fail a test.
settings.register_profile("default", deadline=None)
settings.load_profile("default")
