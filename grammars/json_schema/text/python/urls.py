"""URLs, connection strings and mail addresses as pydantic's types accept them; a subset of what they parse.

Hosts are ASCII names or addresses: what Punycode decodes to is not regular. Everything is written with characters of
RFC 3986; paths, queries and fragments may contain letters beyond ASCII.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from constrained.grammars import ir
from constrained.grammars.json_schema.text.rfc.hosts import ipv4, ipv6
from constrained.grammars.json_schema.text.rfc.notation import fragment_regex

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


def _any_case(names: Sequence[str]) -> ir.Regex:
    def one(char: str) -> ir.Regex:
        return ir.chars((ord(form), ord(form)) for form in {char.lower(), char.upper()})

    return ir.union(*(ir.concat(*map(one, name)) for name in names))


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
    file = ir.concat(_any_case(["file"]), slashes, path)
    any_scheme = fragment_regex("[A-Za-z][A-Za-z0-9+.-]*")
    options: list[ir.Regex] = []
    if schemes:
        networked = [name for name in schemes if name != "file"]
        if networked:
            options.append(ir.concat(_any_case(networked), slashes, user, place, rest))
        loose = [name for name in networked if name not in _SPECIAL]
        if loose and not host:
            options.append(ir.concat(_any_case(loose), slashes, rest))
        options += [file] if "file" in schemes else []
    else:
        networked_scheme = ir.difference(any_scheme, _any_case(["file"]))
        options += [ir.concat(networked_scheme, slashes, user, place, rest), file]
        if not host:
            opaque = fragment_regex(f"(?:[{_PLAIN}{beyond}]|{_ESCAPE})(?:[{_PLAIN}/{beyond}]|{_ESCAPE})*")
            options.append(ir.concat(ir.difference(any_scheme, _any_case(_SPECIAL)), ir.literal(":"), opaque))
    return ir.union(*options)


@cache
def email_address() -> ir.Regex:
    """Mail addresses of `pydantic.EmailStr`: no quotes, a domain of at least two labels, of which none is reserved."""
    atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
    local = ir.intersection(fragment_regex(rf"{atom}(?:\.{atom})*"), ir.repeat(ir.ANY_CHAR, 1, 64))
    label = fragment_regex("[A-Za-z0-9](?:[A-Za-z0-9]|-[A-Za-z0-9])*")
    short = ir.intersection(label, ir.repeat(ir.ANY_CHAR, 1, 63))
    last = ir.difference(fragment_regex("[A-Za-z]{2,24}"), _any_case(_RESERVED))
    domain = ir.concat(ir.repeat(ir.concat(short, ir.literal(".")), 1, 4), last)
    return ir.intersection(ir.concat(local, ir.literal("@"), domain), ir.repeat(ir.ANY_CHAR, 1, 254))
