"""Words of a text that have the form of a member: by its schema, as a code, or by its name, as a telephone number."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from constrained.decisions.naming import name_words
from constrained.grammars.text.quantities import find_quantities

Place = tuple[int, int]
NamedForm = Literal["email", "phone", "postcode"]
NAMED_FORMS: tuple[NamedForm, ...] = get_args(NamedForm)

_FEW = 8
"""Words that fit a form, with parts of others; where more do than a quarter of all, and than this, it says too little."""
_MOST_TEXT = 1024
"""Words of a text in which words of a form are looked for."""
_MOST_WORDS = 4
"""Words of a text that are one, such as a telephone number."""
_EDGES = "\"'“”‘’«»„()[]<>{}*`|,;:!?"
"""What stands around a word."""
_OWNED = re.compile("['’]s$")
_NAMES: dict[NamedForm, frozenset[str]] = {
    "email": frozenset(["email", "mail"]),
    "phone": frozenset("phone telephone tel telefon teléfono téléphone telefono mobile cell fax".split()),  # noqa: SIM905
    "postcode": frozenset(["postcode", "postalcode", "zip", "zipcode", "plz", "postleitzahl", "psč"]),
}
"""Last words of names of strings that have a form, but for `_ENDINGS`."""
_ENDINGS = frozenset(["address", "adresse", "number", "nummer", "no", "nr", "número", "numéro", "číslo"])
_NAMED: dict[NamedForm, re.Pattern[str]] = {
    "email": re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "phone": re.compile(r"(?<![\w.,+/-])(?:\+|\(?0|\(?\d+\)?[ /.-])[\d ()/.-]{0,24}\d(?![\w/-]|[.,]\d)"),
    "postcode": re.compile(
        r"""(?<![\w.,-])(?:
            (?i:zip|plz|psč|post\w*)\W{0,3}(?i:code\W{0,3})?(?P<labelled>\d{4,6}(?:-\d{4})?)
          | \d{4}[ ][A-Z]{2}                                # 1012 AB
          | (?:\d{4,5}|\d{3}[ ]\d{2})(?=[ ][A-ZÀ-Ž])        # 80331 München
          | [A-Z]{2}[ ](?P<state>\d{5}(?:-\d{4})?)          # MA 02101
          | [A-Z]{1,2}\d[A-Z\d]?[ ]?\d[A-Z]{2}              # LS1 4AP
          | [A-Z]\d[A-Z][ ]?\d[A-Z]\d                       # K1A 0B1
        )(?![\w-]|[.,]\d)""",
        re.VERBOSE,
    ),
}
_LEAST_DIGITS = 6
"""Of a telephone number."""


def word_places(text: str) -> list[list[Place]]:
    """The words of a text, and some in a row: of each, where it stands without what may be no part of it, the shortest first."""
    words = [match.span() for match in re.finditer(r"\S+", text)]
    found = []
    for first, (start, _) in enumerate(words if len(words) <= _MOST_TEXT else []):
        for _, end in words[first : first + _MOST_WORDS]:
            begin = start + len(text[start:end]) - len(text[start:end].lstrip(_EDGES))
            ends = [begin + len(text[begin:end].rstrip(edges)) for edges in (f"{_EDGES}.", _EDGES)]
            owner = _OWNED.search(text, begin, ends[0])
            ends = [*([] if owner is None else [owner.start()]), *ends]
            found.append([(begin, one) for one in dict.fromkeys(ends) if one > begin])
    return found


def words_of_form(
    text: str, places: Sequence[Sequence[Place]], allows: Callable[[str], bool]
) -> dict[str, list[Place]] | None:
    """The words of a text that have a form, the longest ones; None: most have it, or the text is too long.

    Args:
        text: of the document.
        places: of `word_places`.
        allows: whether a word has the form.
    """
    if not places:
        return None
    known: dict[str, bool] = {}

    def is_allowed(place: Place) -> bool:
        part = text[slice(*place)]
        if part not in known:
            known[part] = allows(part)
        return known[part]

    allowed = [place for row in places if (place := next(filter(is_allowed, row), None)) is not None]
    if len(allowed) > max(_FEW, len(places) // _MOST_WORDS):
        return None
    found: dict[str, list[Place]] = {}
    for place in dict.fromkeys(allowed):
        if not any(one != place and one[0] <= place[0] and place[1] <= one[1] for one in allowed):
            found.setdefault(text[slice(*place)], []).append(place)
    return found


def named_form(name: str) -> NamedForm | None:
    """The form that a string has by the name of its member: ``phone``, ``contact_email``; None: any."""
    words = name_words(name)
    while words and words[-1] in _ENDINGS:
        words.pop()
    last = {*words[-1:], "".join(words[-2:])}
    return next((form for form, names in _NAMES.items() if names & last), None)


def words_of_named_form(form: NamedForm, text: str) -> dict[str, list[Place]]:
    """The addresses of electronic mail, telephone numbers or post codes of a text; no part of a day, and no price.

    Args:
        form: which.
        text: of the document.
    """
    found: dict[str, list[Place]] = {}
    days = {place for row in find_quantities(text).dates.values() for place in row}
    for match in _NAMED[form].finditer(text):
        begin, stop = match.span(match.lastgroup or 0)
        is_one = form != "phone" or sum(map(str.isdigit, match[0])) >= _LEAST_DIGITS
        if is_one and not any(begin < end and start < stop for start, end in days):
            found.setdefault(text[begin:stop], []).append((begin, stop))
    return found
