"""Addresses, networks and interfaces as `ipaddress` reads them; URLs and mail addresses as pydantic's types accept them.

URLs are a subset of what pydantic parses. Hosts are ASCII names or addresses: what Punycode decodes to is not regular. Everything is
written with characters of RFC 3986; paths, queries and fragments may contain letters beyond ASCII.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from constrained.grammars import ir
from constrained.grammars.json_schema.text.rfc.hosts import ipv4, ipv6
from constrained.grammars.json_schema.text.rfc.notation import any_case, fragment_regex


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


_SPECIAL = ("http", "https", "ws", "wss", "ftp", "file")
"""Schemes of the URL standard (WHATWG), whose URLs need a host."""
_PLAIN = r"A-Za-z0-9\-._~!$&'()*+,;=:@"
_BEYOND = r"\x{A1}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFEF}"
_ESCAPE = "%[0-9A-Fa-f]{2}"
_LONGEST_CHARACTER = 3
"""Bytes of the longest character in `_BEYOND`."""
_RESERVED = ("arpa", "invalid", "local", "localhost", "onion", "test")
"""Special-use names that no mail can be sent to (IANA)."""


@cache
def _host() -> ir.Regex:
    """A name whose last label is no number, or an address."""
    label = fragment_regex("[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
    punycode = fragment_regex("[Xx][Nn]--[A-Za-z0-9_-]*")
    plain = ir.difference(label, punycode)
    last = ir.intersection(plain, fragment_regex("[A-Za-z_][A-Za-z0-9_-]*"))
    name = ir.concat(ir.repeat(ir.concat(plain, ir.literal(".")), 0, 8), last)
    return ir.union(name, ipv4(), ir.concat(ir.literal("["), ipv6(), ir.literal("]")))


@cache
def _port() -> ir.Regex:
    number = "(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
    return fragment_regex(f"(?::{number})?")


@cache
def _rest(beyond: str) -> ir.Regex:
    """Path, query and fragment."""
    return fragment_regex(
        f"(?:/(?:[{_PLAIN}/{beyond}]|{_ESCAPE})*)?"
        rf"(?:\?(?:[{_PLAIN}/?{beyond}]|{_ESCAPE})*)?(?:#(?:[{_PLAIN}/?{beyond}]|{_ESCAPE})*)?"
    )


def url(
    schemes: Sequence[str] = (), host: bool = True, hosts: bool = False, longest: int | None = None
) -> ir.Regex:
    """Texts of pydantic's URL types.

    Args:
        schemes: the allowed schemes; none: every scheme.
        host: whether a host is required.
        hosts: whether several hosts may stand with commas between them.
        longest: bound of the length in bytes.
    """
    texts = _url(tuple(schemes), host, hosts, _BEYOND)
    if longest is None:
        return texts
    plain = ir.intersection(_url(tuple(schemes), host, hosts, ""), ir.repeat(ir.ANY_CHAR, 0, longest))
    return ir.union(plain, ir.intersection(texts, ir.repeat(ir.ANY_CHAR, 0, longest // _LONGEST_CHARACTER)))


@lru_cache(64)
def _url(schemes: tuple[str, ...], host: bool, hosts: bool, beyond: str) -> ir.Regex:
    one = ir.concat(_host(), _port())
    place = ir.concat(one, ir.repeat(ir.concat(ir.literal(","), one))) if hosts else one
    user = fragment_regex(rf"(?:(?:[A-Za-z0-9\-._~]|{_ESCAPE})*(?::(?:[A-Za-z0-9\-._~!$*+]|{_ESCAPE})*)?@)?")
    slashes, rest = ir.literal("://"), _rest(beyond)
    path = ir.concat(ir.literal("/"), fragment_regex(f"(?:[{_PLAIN}/{beyond}]|{_ESCAPE})*"))
    file = ir.concat(any_case(["file"]), slashes, path)
    any_scheme = fragment_regex("[A-Za-z][A-Za-z0-9+.-]*")
    options: list[ir.Regex] = []
    if schemes:
        networked = [name for name in schemes if name != "file"]
        if networked:
            options.append(ir.concat(any_case(networked), slashes, user, place, rest))
        loose = [name for name in networked if name not in _SPECIAL]
        if loose and not host:
            options.append(ir.concat(any_case(loose), slashes, rest))
        options += [file] if "file" in schemes else []
    else:
        networked_scheme = ir.difference(any_scheme, any_case(["file"]))
        options += [ir.concat(networked_scheme, slashes, user, place, rest), file]
        if not host:
            opaque = fragment_regex(f"(?:[{_PLAIN}{beyond}]|{_ESCAPE})(?:[{_PLAIN}/{beyond}]|{_ESCAPE})*")
            options.append(ir.concat(ir.difference(any_scheme, any_case(_SPECIAL)), ir.literal(":"), opaque))
    return ir.union(*options)


@cache
def email_address() -> ir.Regex:
    """Mail addresses of `pydantic.EmailStr`: no quotes, a domain of at least two labels, of which none is reserved."""
    atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
    local = ir.intersection(fragment_regex(rf"{atom}(?:\.{atom})*"), ir.repeat(ir.ANY_CHAR, 1, 64))
    label = fragment_regex("[A-Za-z0-9](?:[A-Za-z0-9]|-[A-Za-z0-9])*")
    short = ir.intersection(label, ir.repeat(ir.ANY_CHAR, 1, 63))
    last = ir.difference(fragment_regex("[A-Za-z]{2,24}"), any_case(_RESERVED))
    domain = ir.concat(ir.repeat(ir.concat(short, ir.literal(".")), 1, 4), last)
    return ir.intersection(ir.concat(local, ir.literal("@"), domain), ir.repeat(ir.ANY_CHAR, 1, 254))
