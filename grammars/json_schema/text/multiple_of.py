"""``multipleOf``: the multiples of any decimal number as a regular language, with or without bounds and excluded multiples.

Numbers are counted in units of the last decimal place of the step: a step of 0.25 is 25 units with two places. The digits
after a prefix are an `ir.DecimalMultiple`, whose state is the remainder of the prefix, by the excluded numbers as well. Bounds are
enforced by writing out prefixes until they lie strictly between both bounds; the digits after that are free.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from math import gcd, lcm
from typing import Literal

from constrained.grammars import ir
from constrained.grammars.json_schema.text.numbers import Bounds, digit_ranges

MAX_PLACES = 400
"""Most decimal places of a step; the least positive 64-bit float has 324."""
MAX_REQUIRED_DIGITS = 32
"""Most free digits that a bound may require, where more states than `MAX_STATES` come of them."""
MAX_STATES = 1 << 14
"""Each of the required digits has a state for each remainder: near a token limit a mask visits most of them."""

_MINUS, _POINT = ir.literal("-"), ir.literal(".")


def multiples_of(
    steps: tuple[Decimal, ...],
    bounds: Bounds,
    integers_only: bool,
    places: int | None = None,
    excluded: tuple[Decimal, ...] = (),
    short: int | None = None,
) -> ir.Regex:
    """The numbers within bounds that are multiples of all the steps and of no excluded number, written without an exponent.

    Args:
        steps: positive numbers.
        bounds: the interval of the numbers.
        integers_only: integers only, written without a fraction.
        places: most digits after the point, at least those of the steps; None: any number.
        excluded: positive numbers.
        short: most digits before the point; None: any number.

    Returns:
        `ir.EMPTY_SET` if there are none without bounds.

    Raises:
        UnsupportedMultiples: there are too many remainders by the steps and what is excluded, or a step has too many places, or a
            bound too many digits.
    """
    fractions = [Fraction(number) for number in (*steps, *([Decimal(1)] if integers_only else []))]
    # The least positive number that is a multiple of all of them.
    step = Fraction(lcm(*(one.numerator for one in fractions)), gcd(*(one.denominator for one in fractions)))
    if any((step / Fraction(number)).denominator == 1 for number in excluded):
        return ir.EMPTY_SET
    return _Multiples(step, integers_only, places, excluded, short).within(bounds)


def numbers_beyond(places: int, bounds: Bounds, most: int | None) -> ir.Regex:
    """The numbers within bounds with a digit other than zero after so many decimal places, written without an exponent.

    Args:
        places: at least those of the bounds.
        bounds: the interval of the numbers.
        most: most digits after the point; None: any number.
    """
    unit = 10**places
    low, high = (
        None if bound is None else int(Fraction(bound) * unit) for bound in (bounds.low, bounds.high)
    )
    texts = _Multiples(Fraction(1, unit), False, most, beyond=True)
    return ir.union(
        texts.whole_units(max(low or 0, 0), None if high is None else high - 1),
        ir.concat(_MINUS, texts.whole_units(max(-(high or 0), 0), None if low is None else -low - 1)),
    )


def decimal_places(number: Decimal) -> int:
    """Digits after the point that a number needs."""
    exponent = number.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(-exponent, 0)


class UnsupportedMultiples(Exception):
    """The multiples cannot be enforced; the text of the exception is the reason."""


class _Multiples:
    """The multiples of one step: digits in units of ``10 ** -places``, then `zeros` trailing digits that are always 0."""

    def __init__(
        self,
        step: Fraction,
        integers_only: bool,
        places: int | None = None,
        excluded: tuple[Decimal, ...] = (),
        short: int | None = None,
        *,
        beyond: bool = False,
    ) -> None:
        self.short = short
        self.places = self.zeros = 0
        while (step * 10**self.places).denominator > 1:
            self.places += 1
            if self.places > MAX_PLACES:
                raise UnsupportedMultiples(
                    f"the least common step has more than {MAX_PLACES} digits after the point"
                )
        self.modulus = int(step * 10**self.places)
        while self.modulus % 10 == 0:  # the step has no decimal places then
            self.modulus //= 10
            self.zeros += 1
        self.step = step
        self.beyond = beyond
        self.excluded = self._moduli_of(excluded)
        self.common = self.modulus
        for modulus in self.excluded:
            self.common = min(lcm(self.common, modulus), ir.MAX_REMAINDERS + 1)
        if self.common > ir.MAX_REMAINDERS:
            raise UnsupportedMultiples(
                f"the multiples of all steps together have more than {ir.MAX_REMAINDERS:,} remainders"
            )
        self.integers_only = integers_only
        self.padding = None if places is None else max(places - self.places, 0)
        self.no_fraction = ir.optional(ir.concat(_POINT, ir.repeat(ir.literal("0"), 1, places)))
        self.tail = ir.concat(
            ir.literal("0" * self.zeros),
            self.no_fraction if self.zeros and not integers_only else ir.EMPTY_STRING,
        )

    def _moduli_of(self, excluded: tuple[Decimal, ...]) -> tuple[int, ...]:
        """What excludes the multiples of some numbers from those of the step, in the same units; as small as possible.

        Among the multiples of 6 those of 4 are those of 12, and those of 90 are those of 9 and 5. Where those of 2 are excluded,
        those of 4 are too.
        """
        found = set()
        for number in excluded:
            units = (Fraction(number) * Fraction(10**self.places, 10**self.zeros)).numerator
            apart = units // gcd(units, self.modulus)
            modulus, factor = 1, gcd(units, apart)
            while factor > 1:  # only the prime factors that the step has less often
                modulus, units = modulus * factor, units // factor
                factor = gcd(units, apart)
            found.add(modulus)
        return tuple(
            one for one in sorted(found) if not any(other != one and one % other == 0 for other in found)
        )

    def _belongs(self, units: int) -> bool:
        """Whether so many units are one of the numbers."""
        return not self.beyond and units % self.modulus == 0 and all(units % other for other in self.excluded)

    def within(self, bounds: Bounds) -> ir.Regex:
        """The multiples within bounds."""
        first = None if bounds.low is None else -(-Fraction(bounds.low) // self.step)
        last = None if bounds.high is None else Fraction(bounds.high) // self.step
        if first is not None and bounds.low_exclusive and first * self.step == Fraction(bounds.low or 0):
            first += 1
        if last is not None and bounds.high_exclusive and last * self.step == Fraction(bounds.high or 0):
            last -= 1
        options = []
        if (first is None or first <= 0) and (last is None or last >= 0) and self._belongs(0):
            zero = ir.literal("0") if self.integers_only else ir.concat(ir.literal("0"), self.no_fraction)
            options.append(ir.concat(ir.optional(_MINUS), zero))
        if last is None or last > 0:
            options.append(self.between(max(first or 0, 1), last))
        if first is None or first < 0:
            nearest = 1 if last is None else max(-last, 1)
            options.append(ir.concat(_MINUS, self.between(nearest, None if first is None else -first)))
        return ir.union(*options)

    def between(self, first: int, last: int | None) -> ir.Regex:
        """The multiples number `first` (at least 1) to `last`."""
        low, high = first * self.modulus, None if last is None else last * self.modulus
        if high is not None and low > high:
            return ir.EMPTY_SET
        unit = 10**self.places
        if unit == 1:
            return ir.union(*(ir.concat(text, self.tail) for text in self.wholes(low, high)))
        bottom, low_digits = divmod(low, unit)
        top, high_digits = (None, 0) if high is None else divmod(high, unit)
        nines = unit - 1
        if bottom == top:
            return ir.union(*self.fractions(bottom, low_digits, high_digits))
        options = [*self.fractions(bottom, low_digits, nines)]
        options += self.wholes(bottom + 1, None if top is None else top - 1)
        if top is not None:
            options += self.fractions(top, 0, high_digits)
        return ir.union(*options)

    def whole_units(self, first: int, last: int | None) -> ir.Regex:
        """The numbers whose whole units are from `first` (at least 0) to `last`."""
        if last is not None and last < first:
            return ir.EMPTY_SET
        options = [self.between(max(first, 1), last)]
        if first == 0:
            zero = ir.DecimalMultiple(1, 0, 0, None, 0, "fraction", self.padding, beyond=True)
            options.append(ir.concat(ir.literal("0." + "0" * self.places), zero))
        return ir.union(*options)

    # ------------------------------------------------------------ digits before the point

    def wholes(self, low: int, high: int | None) -> Iterator[ir.Regex]:
        """Texts whose integer part is from `low` (at least 1) to `high`, with any fraction."""
        first = str(low)
        short = None if self.short is None else max(self.short - self.zeros, 0)
        if short is not None and (high is None or len(str(high)) > short):
            high = 10**short - 1
        last = str(high) if high is not None else "9" * len(first)
        if high is not None and low > high:
            return
        if len(first) == len(last):
            yield from self.same_length(first, last)
        else:
            yield from self.same_length(first, "9" * len(first))
            yield from self.same_length("1" + "0" * (len(last) - 1), last)
        most = None if high is None else len(last) - 2
        if most is None or most >= len(first):
            yield from (self.with_prefix(str(digit), len(first), most) for digit in range(1, 10))

    def same_length(self, low: str, high: str) -> Iterator[ir.Regex]:
        """Digit strings of equal length between two others."""
        for text, free in _ranges(low, high):
            yield self.with_prefix(text, free, free)

    def with_prefix(self, text: str, low: int, high: int | None) -> ir.Regex:
        """A prefix, then `low` to `high` more digits."""
        if low > MAX_REQUIRED_DIGITS and low * self.common > MAX_STATES:
            raise UnsupportedMultiples(
                f"beside a bound that requires more than {MAX_REQUIRED_DIGITS} digits few remainders are told apart"
            )
        form: Literal["whole", "number"] = "whole" if self.integers_only or self.zeros else "number"
        rest = ir.DecimalMultiple(
            self.modulus,
            int(text) % self.common,
            low,
            high,
            self.places,
            form,
            self.padding,
            self.excluded,
            beyond=self.beyond,
        )
        return ir.concat(ir.literal(text), rest)

    # ------------------------------------------------------------ digits after the point

    def fractions(self, integers_only: int, low: int, high: int) -> Iterator[ir.Regex]:
        """Texts with this integer part, and a fraction of `low` to `high` units."""
        size = self.places
        if low == 0 and high == 10**size - 1:
            yield self.with_prefix(str(integers_only), 0, 0)
            return
        first, last = f"{low:0{size}d}", f"{high:0{size}d}"
        stem = ir.literal(f"{integers_only}.")
        for text, free in _ranges(first, last):
            value = (integers_only * 10 ** len(text) + int(text)) % self.common
            rest: ir.Regex = ir.DecimalMultiple(
                self.modulus,
                value,
                0,
                None,
                free,
                "fraction",
                self.padding,
                self.excluded,
                beyond=self.beyond,
            )
            yield ir.concat(stem, ir.literal(text), rest)
        # A fraction that ends before it lies strictly between the bounds is padded with zeros.
        base = integers_only * 10**size
        for length in range(size):
            for text in {first[:length], last[:length]}:
                value = int(text or "0") * 10 ** (size - length)
                if low <= value <= high and self._belongs(base + value):
                    yield ir.concat(stem, ir.literal(text)) if text else ir.literal(str(integers_only))


def _ranges(low: str, high: str) -> Iterator[tuple[str, int]]:
    """Digit strings of equal length between two others, as prefixes with the number of free digits after each."""
    for prefix, least, most, free in digit_ranges(low, high):
        yield from ((f"{prefix}{digit}", free) for digit in range(least, most + 1))
