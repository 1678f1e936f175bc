"""URIs (RFC 3986), IRIs (RFC 3987), templates (RFC 6570), JSON Pointers (RFC 6901) and UUIDs (RFC 4122)."""

from __future__ import annotations

from functools import cache

from constrained.grammars import ir
from constrained.grammars.json_schema.text.rfc.hosts import ipv6
from constrained.grammars.json_schema.text.rfc.notation import fragment_regex

_ESCAPE = "%[0-9A-Fa-f]{2}"
_SUB = "!$&'()*+,;="
_UCS = (
    r"\x{A0}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFEF}"
    + "".join(rf"\x{{{plane:X}0000}}-\x{{{plane:X}FFFD}}" for plane in range(1, 14))
    + r"\x{E1000}-\x{EFFFD}"
)
_PRIVATE = r"\x{E000}-\x{F8FF}\x{F0000}-\x{FFFFD}\x{100000}-\x{10FFFD}"


@cache
def _parts(beyond: str, private: str) -> tuple[ir.Regex, ir.Regex]:
    """A URI and a relative reference, with more characters allowed in general and in the query."""
    free = rf"A-Za-z0-9\-._~{beyond}"
    sub = _SUB
    characters = fragment_regex(rf"[{free}{sub}:@]|{_ESCAPE}")
    slash = ir.literal("/")
    segments = ir.repeat(ir.concat(slash, ir.repeat(characters)))
    some = ir.repeat(characters, 1)
    absolute = ir.concat(slash, ir.optional(ir.concat(some, segments)))
    rootless = ir.concat(some, segments)
    noscheme = ir.concat(fragment_regex(rf"(?:[{free}{sub}@]|{_ESCAPE})+"), segments)
    # the registered names contain the IPv4 addresses
    literal = ir.concat(
        fragment_regex(r"\["),
        ir.union(ipv6(), fragment_regex(rf"[Vv][0-9A-Fa-f]+\.[A-Za-z0-9\-._~{sub}:]+")),
        fragment_regex(r"\]"),
    )
    host = ir.union(literal, fragment_regex(rf"(?:[{free}{sub}]|{_ESCAPE})*"))
    authority = ir.concat(
        ir.literal("//"),
        fragment_regex(rf"(?:(?:[{free}{sub}:]|{_ESCAPE})*@)?"),
        host,
        fragment_regex("(?::[0-9]*)?"),
        segments,
    )
    query = ir.optional(
        ir.concat(fragment_regex(r"\?"), fragment_regex(rf"(?:[{free}{sub}:@/?{private}]|{_ESCAPE})*"))
    )
    fragment = ir.optional(
        ir.concat(fragment_regex("#"), ir.repeat(ir.union(characters, fragment_regex("[/?]"))))
    )
    scheme = fragment_regex(r"[A-Za-z][A-Za-z0-9+.\-]*:")
    full = ir.concat(scheme, ir.union(authority, absolute, rootless, ir.EMPTY_STRING), query, fragment)
    return full, ir.concat(ir.union(authority, absolute, noscheme, ir.EMPTY_STRING), query, fragment)


def uri() -> ir.Regex:
    """``URI``, with a scheme."""
    return _parts("", "")[0]


@cache
def uri_reference() -> ir.Regex:
    """``URI-reference``."""
    return ir.union(*_parts("", ""))


def iri() -> ir.Regex:
    """``IRI``, with a scheme."""
    return _parts(_UCS, _PRIVATE)[0]


@cache
def iri_reference() -> ir.Regex:
    """``IRI-reference``."""
    return ir.union(*_parts(_UCS, _PRIVATE))


@cache
def uri_template() -> ir.Regex:
    """RFC 6570, section 2."""
    name = f"(?:[A-Za-z0-9_]|{_ESCAPE})"
    variable = rf"{name}(?:\.?{name})*(?::[1-9][0-9]{{0,3}}|\*)?"
    literals = fragment_regex(rf"[!#$&-;=?@-\[\]_a-z~{_UCS}{_PRIVATE}]|{_ESCAPE}")
    return ir.repeat(ir.union(literals, fragment_regex(rf"\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}}")))


@cache
def json_pointer() -> ir.Regex:
    """RFC 6901, as a string."""
    return fragment_regex("(?:/(?:[^~/]|~[01])*)*")


@cache
def relative_json_pointer() -> ir.Regex:
    """A number of levels up, then a pointer or ``#``."""
    return ir.concat(fragment_regex("0|[1-9][0-9]*"), ir.union(fragment_regex("#"), json_pointer()))


def uuid(version: int | None = None) -> ir.Regex:
    """RFC 4122, section 3; of one version, in the variant of RFC 9562."""
    some = "[0-9A-Fa-f]"
    kind = f"{some}{{4}}-{some}" if version is None else f"{version:x}{some}{{3}}-[89ABab]"
    return fragment_regex(f"{some}{{8}}-{some}{{4}}-{kind}{some}{{3}}-{some}{{12}}")
