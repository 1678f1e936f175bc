"""Count the fields that are right on documents whose right values are known, as `constrained eval` does."""

import json
from dataclasses import dataclass
from pathlib import Path

import constrained
from constrained.extraction.values.scoring import ExtractionScores, score_fields


@dataclass
class Order:
    """An order of a shop."""

    order_id: str
    total: float
    city: str | None = None


def main() -> None:
    """Reads the orders beside this file, and prints the counts of each field."""
    lines = Path(__file__).with_name("orders.jsonl").read_text(encoding="utf-8").splitlines()
    documents = [json.loads(line) for line in lines]
    gold = {document["id"]: document["gold"] for document in documents}
    scores = ExtractionScores()
    for result in constrained.extract_many(constrained.load(), documents, Order):
        scores.add(score_fields(gold[result.id], None if result.error else result.json_value))
    for pointer, counts in scores.fields.items():
        print(f"{pointer}: {counts.right} of {counts.asked} right, {counts.invented} invented")
    print(f"{scores.whole} of {scores.documents} values are right in all fields")


if __name__ == "__main__":
    main()
