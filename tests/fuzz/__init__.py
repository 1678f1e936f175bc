"""Random constraints, compiled and judged: `python -m tests.fuzz --minutes 10`, and a short slice in the test suite."""
