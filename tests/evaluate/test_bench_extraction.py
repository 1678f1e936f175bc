"""The bench of extraction: its documents, and that the values of both ways are compared."""

from __future__ import annotations

import itertools

import pytest

from constrained.evaluate.extraction import generated_documents, measure_throughput
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary

pytestmark = pytest.mark.bench


def test_documents_differ_and_are_made_as_they_are_read() -> None:
    texts = list(itertools.islice(generated_documents(10**12), 200))
    assert len(set(texts)) == 200


def test_values_of_both_ways_are_compared() -> None:
    answer = '{"order_id": "1", "total": 2, "city": "Oslo", "paid": true}'
    (pair,) = measure_throughput(ScriptedModel(byte_vocabulary(), answer), [4], 6)
    assert pair.equal
    assert pair.ratio == pair.loop_seconds / pair.many_seconds > 0
