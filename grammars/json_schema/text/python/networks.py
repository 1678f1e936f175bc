"""Addresses, networks and interfaces as `ipaddress` reads them."""

from __future__ import annotations

from functools import cache

from constrained.grammars import ir
from constrained.grammars.json_schema.text.rfc.hosts import ipv4, ipv6
from constrained.grammars.json_schema.text.rfc.notation import fragment_regex


def addresses(version: int | None = None, form: str = "address") -> ir.Regex:
    """Texts of `ipaddress` types.

    Args:
        version: 4 or 6; None: both.
        form: ``"address"``; ``"interface"``: an address with an optional prefix length; ``"network"``: the same, and all
            bits after the prefix are zero. Networks of version 6 with a prefix are written without a ``::`` in the
            middle, unless the prefix is ``/128``.
    """
    forms = {4: (ipv4, _interface_4, _network_4), 6: (ipv6, _interface_6, _network_6)}
    at = ("address", "interface", "network").index(form)
    return ir.union(*(made[at]() for number, made in forms.items() if version in (None, number)))


@cache
def _interface_4() -> ir.Regex:
    return ir.concat(ipv4(), fragment_regex("(?:/(?:[12]?[0-9]|3[0-2]))?"))


@cache
def _interface_6() -> ir.Regex:
    return ir.concat(ipv6(), fragment_regex("(?:/(?:[1-9]?[0-9]|1[01][0-9]|12[0-8]))?"))


@cache
def _network_4() -> ir.Regex:
    byte = fragment_regex("25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9]")
    zero, dot = ir.literal("0"), ir.literal(".")
    options: list[ir.Regex] = [ir.concat(ipv4(), fragment_regex("(?:/32)?"))]
    for length in range(32):
        whole, bits = divmod(length, 8)
        step = 1 << (8 - bits)
        part = ir.union(*(ir.literal(str(value)) for value in range(0, 256, step)))
        octets = [byte] * whole + [part] + [zero] * (3 - whole)
        dotted = [piece for octet in octets for piece in (dot, octet)][1:]
        options.append(ir.concat(*dotted, ir.literal(f"/{length}")))
    return ir.union(*options)


@cache
def _network_6() -> ir.Regex:
    group, colon = fragment_regex("[0-9A-Fa-f]{1,4}"), ir.literal(":")
    zero = fragment_regex("0{1,4}")
    options: list[ir.Regex] = [ir.concat(ipv6(), fragment_regex("(?:/128)?"))]

    def groups(count: int, last: ir.Regex) -> list[ir.Regex]:
        """`count` groups, of which `last` is the last one."""
        return [piece for part in [group] * (count - 1) + [last] for piece in (colon, part)][1:]

    for count in range(8):  # groups before `::`; all groups after them are zero
        start = groups(count, group) if count else []
        longer = ir.union(*(ir.literal(str(length)) for length in range(16 * count, 129)))
        options.append(ir.concat(*start, ir.literal("::/"), longer))
    for whole in range(8):  # groups that lie in the prefix as a whole
        for bits in range(16):
            length = ir.literal(f"/{16 * whole + bits}")
            part = groups(whole + 1, _multiple_of_power(16 - bits))
            options.append(
                ir.concat(*part, *[piece for _ in range(7 - whole) for piece in (colon, zero)], length)
            )
            if whole < 7 and bits:
                options.append(ir.concat(*part, ir.literal("::"), length))
    return ir.union(*options)


@cache
def _multiple_of_power(bits: int) -> ir.Regex:
    """Up to four hexadecimal digits of a number whose last `bits` bits are zero."""
    digits, rest = divmod(bits, 4)
    zeros = ir.literal("0" * digits)
    options: list[ir.Regex] = [ir.repeat(ir.literal("0"), 1, 4)]
    if digits < 4:
        values = [format(value, "x") for value in range(0, 16, 1 << rest)]
        some = ir.chars((ord(char), ord(char)) for value in values for char in {value, value.upper()})
        options.append(ir.concat(ir.repeat(fragment_regex("[0-9A-Fa-f]"), 0, 3 - digits), some, zeros))
    return ir.union(*options)
