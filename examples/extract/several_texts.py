"""Extract from several texts in one batch; the outputs are equal to those of single calls."""

from typing import TypedDict

import constrained
from constrained.extraction.prompt import extraction_prompt


class Order(TypedDict):
    order_id: str
    total: float


TEXTS = [
    "Order 4711 comes to 19.90 in total.",
    "The order id is 815. Its total is 240.00.",
    "Total: 7.5, order id: 99012",
]

generator = constrained.Generator(constrained.load(), constrained.python_type(Order))
prompts = [extraction_prompt(text, generator.constraint) for text in TEXTS]
for text, output in zip(TEXTS, generator.batch(prompts), strict=True):
    print(f"{text}  ->  {output.value}")
assert [output.text for output in generator.batch(prompts)] == [generator(prompt).text for prompt in prompts]
