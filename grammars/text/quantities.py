"""Numbers, dates and times that a text states, in the forms that people write.

    numbers   1234.5   1,234.50   1.234,50   1 234,50   1'234.50   -3   (the sign only where nothing stands before it)
    dates     2026-01-05   05.01.2026   1/5/2026 (both readings, or that of 25/12/2026 in the same text)   5 January 2026   January 5th, 2026   5. Januar 2026
              4 to 9 August 2025   4.-9.8.2025   March 28 - April 2, 2025   August 4-9, 2025 (both days)
    times     09:30   09:30:15   9.30 pm   9 am   9 Uhr

Names of months are known in English, German, French, Spanish, Italian, Portuguese, Dutch, Czech and Polish. Where a form has two readings
(1,234; 1/5/2026) both are found.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

Place = tuple[int, int]
"""Start and end in characters."""


@dataclass(frozen=True, slots=True)
class Quantities:
    """What a text states, and where.

    Attributes:
        numbers, dates, times: by value, the places in ascending order.
        scaled: the same of numbers with a word of their size: ``3.2 million``, ``$75k``; ``3.2`` is one of `numbers`, too.
    """

    numbers: dict[Decimal, list[Place]]
    dates: dict[dt.date, list[Place]]
    times: dict[dt.time, list[Place]]
    scaled: dict[Decimal, list[Place]]


_MAX_DIGITS = 100
"""Longer runs of digits are no numbers."""
_SPACES = " \u00a0\u2009\u202f"
_NUMBER = re.compile(
    rf"""
    (?<![\w.,])(?P<sign>(?<![\w)\]])[-+\u2212])?
    (?P<digits>
        [0-9]{{1,3}}(?:(?P<group>[,.'\u2019{_SPACES}])[0-9]{{3}})(?:(?P=group)[0-9]{{3}})*(?:[.,][0-9]+)?
      | [0-9]+(?:[.,][0-9]+)?
      | [.][0-9]+
    )
    (?:[eE](?P<exponent>[-+]?[0-9]{{1,3}}))?
    (?![0-9]|[.,][0-9])
    """,
    re.VERBOSE | re.ASCII,
)
_DIGITS = re.compile("[0-9]+")


def _names() -> dict[str, int]:
    lists = (
        "january february march april may june july august september october november december",
        "januar februar märz april mai juni juli august september oktober november dezember",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "januari februari maart april mei juni juli augustus september oktober november december",
        "ledna února března dubna května června července srpna září října listopadu prosince",
        "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "jän febr mär avr mai juin juil août sept okt nov dez",
    )
    return {name: number for line in lists for number, name in enumerate(line.split(), 1)}


MONTHS = _names()
"""Names of months, in lower case -> 1 to 12."""
_MONTH = "|".join(sorted(map(re.escape, MONTHS), key=len, reverse=True))
_ORDINAL = r"(?:st|nd|rd|th|er|º|ª|\.)?"
_DATES = re.compile(
    rf"""
    (?<![0-9])(?:
        (?P<y1>[0-9]{{4}})(?P<sep>[-/.])(?P<m1>[0-9]{{1,2}})(?P=sep)(?P<d1>[0-9]{{1,2}})
      | (?P<a2>[0-9]{{1,2}})(?P<sep2>[./-])[ ]?(?P<b2>[0-9]{{1,2}})(?P=sep2)[ ]?(?P<y2>[0-9]{{4}}|[0-9]{{2}})
      | (?P<d3>[0-9]{{1,2}}){_ORDINAL}[ ]?(?:of[ ]|de[ ]|-)?[ ]?(?P<m3>{_MONTH})\.?(?:[ ]de[ ]|,?[ ]|-)(?P<y3>[0-9]{{4}})
      | (?P<y5>[0-9]{{4}})[ ](?P<m5>{_MONTH})[ ](?P<d5>[0-9]{{1,2}})
    )(?![0-9])
    | (?<!\w)(?P<m4>{_MONTH})\.?[ ]?(?P<d4>[0-9]{{1,2}}){_ORDINAL}(?:,[ ]?|[ ])(?P<y4>[0-9]{{4}})(?![0-9])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_TO = r"(?:[ ]?[-\u2013\u2014][ ]?|[ ](?:to|until|till|through|and|bis|und|au|et|al|a|y|e|do|až|tot|en)[ ](?:the[ ]|zum[ ])?)"
_FROM_DAY = re.compile(
    rf"(?<![0-9.,:])(?P<day>[0-9]{{1,2}}){_ORDINAL}(?:[ ](?:of[ ]|de[ ])?(?P<month>{_MONTH})\.?)?{_TO}$",
    re.IGNORECASE,
)
_FROM_FIGURES = re.compile(
    r"(?<![0-9.,:])(?P<day>[0-9]{1,2})\.(?:(?P<month>[0-9]{1,2})\.)?[ ]?[-\u2013][ ]?$"
)
_FROM_MONTH = re.compile(
    rf"(?<!\w)(?P<month>{_MONTH})\.?[ ](?P<day>[0-9]{{1,2}}){_ORDINAL}{_TO}$", re.IGNORECASE
)
"""The first day of two, before the second one as it is written with its day first, in figures, and with its month first."""
_LONGEST_FROM = 32
"""Characters before the second day in which the first one stands."""
_IN_MONTH = re.compile(
    rf"(?<!\w)(?P<month>{_MONTH})\.?[ ](?P<day>[0-9]{{1,2}}){_ORDINAL}{_TO}(?P<last>[0-9]{{1,2}}){_ORDINAL},?[ ](?P<year>[0-9]{{4}})(?![0-9])",
    re.IGNORECASE,
)
_TIMES = re.compile(
    r"""
    (?<![0-9:.,])(?P<h>[0-9]{1,2})(?:[:.h](?P<m>[0-9]{2})(?:[:.](?P<s>[0-9]{2})(?P<f>[.,][0-9]{1,6})?)?)?
    (?:[ ]?(?:(?P<half>[ap])\.?m\b\.?|(?P<clock>Uhr)\b))?(?![0-9:])
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)


_CLOCK = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?"
_ISO_TIME, _ISO_DATETIME = re.compile(_CLOCK), re.compile(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[Tt ]{_CLOCK}")
_BEFORE_DAY, _BEHIND_DAY = re.compile("(?: on|,) $"), re.compile("^,? (?:at |um |\u00e0 )?")


def _number_words() -> dict[str, int]:
    lists = (  # one to twelve; "-" for words that mostly mean something else
        "one two three four five six seven eight nine ten eleven twelve",
        "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "un deux trois quatre cinq six sept huit neuf dix onze douze",
        "uno dos tres cuatro cinco seis siete ocho nueve diez - doce",
        "una - tre quattro cinque - sette otto nove dieci undici dodici",
        "um dois três quatro cinco seis sete oito nove dez onze doze",
        "een twee drie vier vijf zes zeven acht negen tien elf twaalf",
        "jeden dva tři čtyři pět šest sedm osm devět deset jedenáct dvanáct",
        "jedna dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć jedenaście dwanaście",
        "eine duas",
        "une dvě",
        "einen dwie",
    )
    return {word: number for line in lists for number, word in enumerate(line.split(), 1) if word != "-"}


NUMBER_WORDS = _number_words()
"""Words of numbers, in lower case -> 1 to 12."""
_NUMBER_WORDS = re.compile(rf"\b(?:{'|'.join(NUMBER_WORDS)})\b", re.IGNORECASE)


def number_words(text: str) -> list[tuple[int, Place]]:
    """The words of numbers up to twelve that a text has, in one of the languages above, and their places."""
    return [(NUMBER_WORDS[match[0].lower()], match.span()) for match in _NUMBER_WORDS.finditer(text)]


@lru_cache(maxsize=4)
def find_quantities(text: str) -> Quantities:
    """All numbers, dates and times of a text; time is linear in its length."""
    numbers = _numbers(text)
    return Quantities(numbers, _dates(text), _times(text), _scaled(text, numbers))


CURRENCIES = {
    "EUR": "\u20ac|EUR|euros?",
    "CAD": r"C\$|CAD|Canadian[ ]dollars?",
    "AUD": r"A\$|AUD|Australian[ ]dollars?",
    "BRL": r"R\$|BRL|reais",
    "USD": r"(?:US)?\$|USD|(?:US[ ])?dollars?|d[oó]lares",
    "GBP": "\u00a3|GBP|(?:British[ ])?pounds?",
    "JPY": "\u00a5|JPY|(?:Japanese[ ])?yen",
    "INR": "\u20b9|INR|(?:Indian[ ])?rupees?",
    "CNY": "CNY|RMB|(?:Chinese[ ])?yuan",
    "CHF": "CHF|Swiss[ ]francs?|Franken",
    "CZK": "K\u010d|CZK|korun[ay]?",
    "PLN": "z\u0142(?:otych)?|PLN|zlotys?",
    "SEK": "SEK|(?:Swedish[ ])?kronor",
    "NOK": "NOK|Norwegian[ ]kroner",
    "DKK": "DKK|Danish[ ]kroner",
    "MXN": "MXN|(?:Mexican[ ])?pesos",
}
"""How texts write currencies, by their codes of ISO 4217; of two that fit one place the first one is meant."""
_ALONE = r"(?<![^\W\d_])(?:{})(?![^\W\d_])"
CURRENCY = _ALONE.format("|".join(CURRENCIES.values()))
_CURRENCY = re.compile(
    _ALONE.format("|".join(f"(?P<{code}>{signs})" for code, signs in CURRENCIES.items())), re.IGNORECASE
)
_GROUPED = re.compile(
    rf"""
    (?<![\w.,])(?:
        [0-9]{{1,3}}(?:(?P<comma>[,'\u2019])[0-9]{{3}})(?:(?P=comma)[0-9]{{3}})*(?P<point>\.[0-9]+)?
      | [0-9]{{1,3}}(?:\.[0-9]{{3}})+(?:\.[0-9]{{3}}|(?P<decimals>,[0-9]+))
      | [0-9]{{1,3}}(?:(?P<space>[{_SPACES}])[0-9]{{3}})(?:(?P=space)[0-9]{{3}})*(?P<cents>[,.][0-9]{{1,2}})?
        (?=[{_SPACES}]?{CURRENCY})
      | [0-9]{{1,3}}\.[0-9]{{3}}(?=[{_SPACES}]?{CURRENCY}(?![ ]?/))
    )(?![\w]|[.,'\u2019][0-9])
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Numbers whose digits are in groups beyond doubt; ``1.250`` alone may be a fraction, but for prices, ``12 345`` two numbers."""
_GROUPED_BY_POINTS = re.compile(r"(?<![\w.,])[1-9][0-9]{0,2}(?:\.[0-9]{3})+(?![\w]|[.,'\u2019][0-9])")
_GROUPED_BY_SPACES = re.compile(
    rf"(?<![\w.,+])(?<![0-9][{_SPACES}])[1-9][0-9]{{0,2}}(?:[{_SPACES}][0-9]{{3}})+(?![\w]|[.'\u2019][0-9])"
)
"""Numbers whose digits are in groups if those of others are."""
_DECIMAL_POINT = re.compile(r"(?<![\w.,])[0-9]+\.[0-9]{1,2}(?![\w]|[.,][0-9])|[0-9],[0-9]{3}(?![0-9])")
"""What a text hardly has that groups with points."""


_MAGNITUDES = {
    3: r"thousands?|tausend|Tsd|mille|mila?|tisíce?|tysi[ęą]cy?",
    6: r"millions?|Millionen|Mio|millón|millones|milh(?:ão|ões)|milion[eiyů]?|milionów|mln",
    9: r"billions?|Milliarden?|Mrd|milliards?|miliard[yů]?|mld",
}
_MAGNITUDE_LETTERS = {3: "k", 6: "m|mn", 9: "bn?"}
"""Behind the number of a price."""
MAGNITUDE = re.compile(
    rf"[{_SPACES}-]?(?:{'|'.join(f'(?P<w{zeros}>{words})' for zeros, words in _MAGNITUDES.items())})\b",
    re.IGNORECASE,
)
_MAGNITUDE_LETTER = re.compile(
    rf"(?:{'|'.join(f'(?P<w{zeros}>{letters})' for zeros, letters in _MAGNITUDE_LETTERS.items())})\b",
    re.IGNORECASE,
)
_PRICE_BEGINS = re.compile(rf"{CURRENCY}\s?$", re.IGNORECASE)
_PRICE_ENDS = re.compile(rf"\s?{CURRENCY}", re.IGNORECASE)


def _scaled(text: str, numbers: dict[Decimal, list[Place]]) -> dict[Decimal, list[Place]]:
    found: dict[Decimal, list[Place]] = {}
    for value, places in numbers.items():
        for start, end in places:
            match = MAGNITUDE.match(text, end)
            if match is None:
                match = _MAGNITUDE_LETTER.match(text, end)
                is_price = match is not None and is_priced(text, start, match.end())
                match = match if is_price else None
            if match is not None:
                zeros = next(zeros for zeros in _MAGNITUDES if match[f"w{zeros}"])
                found.setdefault(value.scaleb(zeros), []).append((start, match.end()))
    return found


def is_priced(text: str, start: int, end: int) -> bool:
    """Whether a currency stands at a number of a text: ``389,000 pounds``."""
    return bool(_PRICE_ENDS.match(text, end) or _PRICE_BEGINS.search(text, max(0, start - 8), start))


@lru_cache(maxsize=4)
def currencies(text: str) -> tuple[tuple[str, Place], ...]:
    """The currencies that a text speaks of, by their codes, and where."""
    return tuple((str(match.lastgroup), match.span()) for match in _CURRENCY.finditer(text))


def ungroup_numbers(text: str) -> str:
    """A text with its numbers as JSON writes them, where they have groups of digits: 36,000 and 1.250,00 as 36000 and 1250.00.

    A text that groups the digits of one number with points or spaces does so with others, too: ``85.300 km, 12.900 Euro``.
    """
    groups = "".join(_parted(match)[0] for match in _GROUPED.finditer(text))
    if "." in groups and _DECIMAL_POINT.search(text) is None:
        text = _GROUPED_BY_POINTS.sub(lambda match: _digits(match[0]), text)
    if not set(_SPACES).isdisjoint(groups):
        text = _GROUPED_BY_SPACES.sub(lambda match: _digits(match[0]), text)
    return _GROUPED.sub(_ungrouped, text)


def _ungrouped(match: re.Match[str]) -> str:
    whole, fraction = _parted(match)
    return _digits(whole) + fraction.replace(",", ".")


def _parted(match: re.Match[str]) -> tuple[str, str]:
    """A number in groups before its decimal sign, and from there on."""
    fraction = match["point"] or match["decimals"] or match["cents"] or ""
    return match[0].removesuffix(fraction), fraction


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


def _numbers(text: str) -> dict[Decimal, list[Place]]:
    found: dict[Decimal, list[Place]] = {}
    rest: list[str] = []  # what is no number by itself
    last = 0
    for match in _NUMBER.finditer(text):
        rest += (text[last : match.start()], " " * len(match[0]))
        last = match.end()
        sign, exponent = match["sign"] or "", match["exponent"]
        for value in _readings(match["digits"], match["group"]):
            if exponent:
                value = value.scaleb(int(exponent))
            found.setdefault(value, []).append((match.start("digits"), match.end()))
            if sign and value:  # with a sign both are stated: there is a 7 in "of -7 degrees", and in "a -7"
                found.setdefault(value if sign == "+" else -value, []).append(match.span())
    for match in _DIGITS.finditer(
        "".join((*rest, text[last:]))
    ):  # beside letters and dots: INV-2020, 12kg, 05.01.2026
        if len(match[0]) <= _MAX_DIGITS:
            found.setdefault(Decimal(match[0]), []).append(match.span())
    return {value: sorted(set(places)) for value, places in found.items()}


def _readings(digits: str, group: str | None) -> list[Decimal]:
    """The numbers that digits with separators may stand for."""
    plain = re.sub(rf"['\u2019{_SPACES}]", "", digits)
    commas, points = plain.count(","), plain.count(".")
    if commas and points:
        last = max(plain.rfind(","), plain.rfind("."))
        whole, fraction = re.sub("[.,]", "", plain[:last]), plain[last + 1 :]
        texts = [f"{whole}.{fraction}"] if plain.count(plain[last]) == 1 else []
    elif commas + points > 1:
        texts = [re.sub("[.,]", "", plain)]
    elif commas + points == 1 and group in (",", "."):
        texts = [re.sub("[.,]", "", plain), plain.replace(",", ".")]
    else:
        texts = [plain.replace(",", ".")]
    return [Decimal(text) for text in texts]


def _dates(text: str) -> dict[dt.date, list[Place]]:
    found = _whole_dates(text)
    for value, place in list(_first_days(text, found)):
        found[value] = sorted({*found.get(value, ()), place})
    return found


def _first_days(text: str, found: dict[dt.date, list[Place]]) -> Iterator[tuple[dt.date, Place]]:
    """The days that share month or year with one behind them, and both days of ``August 4-9, 2025``.

    Args:
        text: of all.
        found: the days that are written with month and year.
    """
    for last, places in found.items():
        for start, end in places:
            begins = re.match("[0-9]+", text[start:end])
            if begins is not None and int(begins[0]) != last.day:  # the year, or the month
                continue
            for form in (_FROM_MONTH,) if begins is None else (_FROM_DAY, _FROM_FIGURES):
                match = form.search(text, max(0, start - _LONGEST_FROM), start)
                if match is not None:
                    yield from _day_before(last, match)
    for match in _IN_MONTH.finditer(text):
        try:
            last = dt.date(int(match["year"]), MONTHS[match["month"].lower()], int(match["last"]))
        except ValueError:
            continue
        yield last, (match.start("last"), match.end())
        yield from _day_before(last, match)


def _day_before(last: dt.date, match: re.Match[str]) -> Iterator[tuple[dt.date, Place]]:
    """The first day of two; of another year where its month is a later one."""
    month = match["month"] or str(last.month)
    number = int(month) if month.isdigit() else MONTHS[month.lower()]
    try:
        first = dt.date(last.year - (number > last.month), number, int(match["day"]))
    except ValueError:
        return
    if first < last:
        ends = [match.span(name) for name in ("day", "month") if match[name]]
        yield first, (min(ends)[0], max(ends)[1])


def _whole_dates(text: str) -> dict[dt.date, list[Place]]:
    found: dict[dt.date, list[Place]] = {}
    matches = list(_DATES.finditer(text))
    figures = [(int(one["a2"]), int(one["b2"])) for one in matches if one["y2"] and one["sep2"] != "."]
    orders = {
        day > 12 for day, month in figures if max(day, month) > 12
    }  # in which the day is first, or second
    for match in matches:
        part = match.groupdict()
        choices: list[tuple[str, int | str, str]] = []
        if part["y1"]:
            choices = [(part["y1"], part["m1"], part["d1"])]
        elif part["y2"]:
            choices = [(part["y2"], part["b2"], part["a2"]), (part["y2"], part["a2"], part["b2"])]
            if (part["sep2"] == "." and int(part["b2"]) <= 12) or orders == {True}:
                choices = choices[:1]
            elif part["sep2"] != "." and orders == {False}:
                choices = choices[1:]
        else:
            number = next(i for i in ("3", "4", "5") if part[f"y{i}"])
            choices = [(part[f"y{number}"], MONTHS[part[f"m{number}"].lower()], part[f"d{number}"])]
        for year, month, day in choices:
            for full in (year,) if len(year) == 4 else (f"20{year}", f"19{year}"):
                try:
                    value = dt.date(int(full), int(month), int(day))
                except ValueError:
                    continue
                places = found.setdefault(value, [])
                if match.span() not in places[-1:]:
                    places.append(match.span())
    return found


def read_date(text: str) -> dt.date | None:
    """The date that a text writes in one of the forms above; None if it is none, or could be two.

    Points stand between day, month and year; dates with slashes are read where only one order is possible.
    """
    found = {
        value
        for value, places in _dates(text).items()
        if (0, len(text)) in places and ("." not in text or _is_day(text, value))
    }
    return found.pop() if len(found) == 1 else None


def _is_day(text: str, value: dt.date) -> bool:
    """Whether a date in figures begins with its day, or with its year; any other text does."""
    first = re.match("[0-9]+", text)
    return first is None or int(first[0]) in (value.day, value.year)


def read_time(text: str) -> dt.time | None:
    """The time of day that a text writes in one of the forms above; None if it is none, or stands there as ISO 8601 has it."""
    found = [value for value, places in _times(text).items() if (0, len(text)) in places]
    return None if _ISO_TIME.fullmatch(text) or len(found) != 1 else found[0]


def read_datetime(text: str) -> dt.datetime | None:
    """The day and time that a text writes in the forms above; None if it does not, or stands there as ISO 8601 has it."""
    found = set()
    for day, places in {} if _ISO_DATETIME.fullmatch(text) else _dates(text).items():
        for start, end in places:
            if read_date(text[start:end]) != day or (start and end < len(text)):
                continue
            clock = _BEFORE_DAY.sub("", text[:start]) if start else _BEHIND_DAY.sub("", text[end:])
            times = [time for time, spans in _times(clock).items() if (0, len(clock)) in spans]
            found |= {dt.datetime.combine(day, time) for time in times}
    return found.pop() if len(found) == 1 else None


def _times(text: str) -> dict[dt.time, list[Place]]:
    found: dict[dt.time, list[Place]] = {}
    for match in _TIMES.finditer(text):
        hour, minute, second, half = int(match["h"]), match["m"], match["s"], match["half"]
        if minute is None and half is None and match["clock"] is None:
            continue
        if half:
            if not 1 <= hour <= 12:
                continue
            hour = hour % 12 + (12 if half.lower() == "p" else 0)
        micro = int(f"{(match['f'] or '.')[1:]:0<6}")
        if hour < 24 and int(minute or 0) < 60 and int(second or 0) < 60:
            value = dt.time(hour, int(minute or 0), int(second or 0), micro)
            found.setdefault(value, []).append(match.span())
    return found
