"""Values that were read: their members, their places in the document, their doubts, and how they are compared.

exact_json.py     values in the order and with the exact numbers of their schema
json_places.py    where each value stands in a JSON text
grounding.py      where each value stands in the document
fields.py         members with their places and probabilities
document_view.py  the document as a page, its values in colours
merge.py          values of the parts of a long document as one
scoring.py        which members of a value are right
"""
