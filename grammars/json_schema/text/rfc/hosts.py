"""Host names (RFC 1123, 5890), addresses (RFC 2673, 4291) and mailboxes (RFC 5321, 6531)."""

from __future__ import annotations

import unicodedata
from functools import cache

from constrained.grammars import ir
from constrained.grammars.json_schema.text.rfc.notation import fragment_regex, separated

MAX_HOSTNAME_LENGTH = 253
"""Maximum length of a host name in characters."""
_NON_ASCII = r"\x{80}-\x{10FFFF}"


def _name(label: ir.Regex) -> ir.Regex:
    return ir.intersection(separated(label, "."), ir.repeat(ir.ANY_CHAR, 1, MAX_HOSTNAME_LENGTH))


@cache
def _ldh_label() -> ir.Regex:
    return fragment_regex("[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


@cache
def ldh_hostname() -> ir.Regex:
    """Labels of letters, digits and hyphens."""
    return _name(_ldh_label())


@cache
def hostname() -> ir.Regex:
    """Host names without labels that begin with ``xn--``.

    Those have to decode to a sound label of another script, and what Punycode decodes to is not regular.
    """
    return _name(_plain_label())


@cache
def _plain_label() -> ir.Regex:
    last, inner = "[A-Za-z0-9]", "[A-Za-z0-9-]"
    return fragment_regex(
        f"[A-WYZa-wyz0-9](?:{inner}{{0,61}}{last})?"
        f"|[Xx](?:[A-MO-Za-mo-z0-9-]{inner}{{0,60}}{last}|[A-MO-Za-mo-z0-9]|[Nn])?"
        f"|[Xx][Nn]{last}(?:{inner}{{0,59}}{last})?"
        f"|[Xx][Nn]-{last}(?:{inner}{{0,58}}{last})?"
    )


_LONGEST_LABEL = 9
"""Maximum length of a non-ASCII label: Punycode needs at most six of 59 characters for each."""
_IDEOGRAPHS_AND_HANGUL = ((0x3400, 0x4DBF), (0x4E00, 0x9FFC), (0xAC00, 0xD7A3))
"""Letters without case that no normalisation changes."""
_OTHERS = (range(0x61, 0x1100), range(0x1200, 0x3400), range(0xA000, 0xA960), range(0xA980, 0xAC00))
"""Ranges of other letters, without Hangul Jamo."""


@cache
def idn_hostname() -> ir.Regex:
    """A small regular subset of RFC 5891.

    A label is one of `hostname`, or a few letters and digits of scripts that are written from left to right. Left out
    are longer ones, marks, digits beyond ASCII, characters that are sound only next to certain others, and scripts
    written from right to left: their rules look at a label as a whole, or at what normalising it would make of it.
    """
    letters = [
        *_IDEOGRAPHS_AND_HANGUL,
        *((code, code) for part in _OTHERS for code in part if _is_sound(code)),
    ]
    some = ir.chars((*letters, (0x30, 0x39)))
    first = ir.chars(letters)  # some validators refuse a leading digit
    inner = ir.repeat(ir.chars((*letters, (0x30, 0x39), (0x2D, 0x2D))), 0, 1)
    label = ir.concat(first, ir.optional(ir.concat(inner, ir.repeat(some, 1, _LONGEST_LABEL - 2))))
    name = separated(ir.union(_plain_label(), label), ".")
    return ir.intersection(name, ir.repeat(ir.ANY_CHAR, 1, MAX_HOSTNAME_LENGTH // 8))


@cache
def idn_hostname_superset() -> ir.Regex:
    """Non-empty texts without ASCII characters that labels exclude, and without a hyphen at either end."""
    inside = r"[A-Za-z0-9.\x{80}-\x{10FFFF}]"
    return fragment_regex(rf"{inside}(?:[A-Za-z0-9.\x{{80}}-\x{{10FFFF}}-]*{inside})?")


def _is_sound(code: int) -> bool:
    """Whether a character is a left-to-right letter that no normalisation changes (RFC 5892)."""
    char = chr(code)
    return (
        unicodedata.category(char) in ("Ll", "Lo")
        and unicodedata.bidirectional(char) == "L"
        and unicodedata.normalize("NFKC", char.casefold()) == char
    )


@cache
def ipv4() -> ir.Regex:
    """Four decimal numbers."""
    byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
    return fragment_regex(rf"{byte}(?:\.{byte}){{3}}")


@cache
def ipv6() -> ir.Regex:
    """RFC 4291, section 2.2: groups of up to four hexadecimal digits, at most one run of zero groups elided."""
    group = fragment_regex("[0-9A-Fa-f]{1,4}")
    before = ir.concat(group, ir.literal(":"))
    last = ir.union(ir.concat(before, group), ipv4())
    gap = ir.literal("::")
    options = [ir.concat(ir.repeat(before, 6, 6), last)]
    for ahead in range(8):  # number of groups before the elided run
        left = ir.optional(ir.concat(ir.repeat(before, 0, ahead - 1), group)) if ahead else ir.EMPTY_STRING
        right = 5 - ahead
        if right >= 0:
            rest = ir.concat(ir.repeat(before, right, right), last)
        else:
            rest = group if right == -1 else ir.EMPTY_STRING
        options.append(ir.concat(left, gap, rest))
    return ir.union(*options)


def _mailbox(beyond: str, host: ir.Regex) -> ir.Regex:
    """A local part and a host, with more characters allowed in the first."""
    atom = fragment_regex(rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{beyond}-]+")
    quoted = fragment_regex(rf'"(?:[ !#-\[\]-~{beyond}]|\\[ -~])*"')
    literal = ir.concat(
        fragment_regex(r"\["),
        ir.union(ipv4(), ir.concat(fragment_regex("[Ii][Pp][Vv]6:"), ipv6())),
        fragment_regex(r"\]"),
    )
    return ir.concat(ir.union(separated(atom, "."), quoted), ir.literal("@"), ir.union(host, literal))


@cache
def email() -> ir.Regex:
    """RFC 5321, section 4.1.2: ``Mailbox``."""
    return _mailbox("", separated(_ldh_label(), "."))


@cache
def idn_email() -> ir.Regex:
    """RFC 6531: mailboxes with characters of any script."""
    some = f"[A-Za-z0-9{_NON_ASCII}]"
    label = fragment_regex(rf"{some}(?:[A-Za-z0-9{_NON_ASCII}-]{{0,61}}{some})?")
    return _mailbox(_NON_ASCII, separated(label, "."))
