r"""The formats of JSON Schema as regular expressions over characters, each after its RFC.

Written in the common subset of all dialects, ASCII only, for a match of the whole text. Names not listed here
are annotations, as the specification says; so is ``regex``, which is not a regular language.
"""

from __future__ import annotations

# ---------------------------------------------------------------- RFC 3339: dates and times

# The year 0000 is left out: the date types of Python and most others begin with the year 1.
_YEAR = "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_YEAR_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|{_YEAR_LEAP}-02-29)"
)
_HOUR, _MINUTE = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
_FRACTION = r"(?:\.[0-9]+)?"
_OFFSET = f"(?:[Zz]|[+-]{_HOUR}:{_MINUTE})"


def _leap_seconds() -> str:
    """A 61st second, which only the last minute of a day in UTC has; offsets in whole hours."""
    options = []
    for hour in range(24):
        ahead, behind = (
            (hour + 1) % 24,
            23 - hour,
        )  # hours by which a clock that shows 23 + offset differs from UTC
        zones = [rf"\+{ahead:02}:00", f"-{behind:02}:00"] + (["[Zz]"] if hour == 23 else [])
        options.append(f"{hour:02}:59:60{_FRACTION}(?:{'|'.join(zones)})")
    return "|".join(options)


_TIME = f"(?:{_HOUR}:{_MINUTE}:{_MINUTE}{_FRACTION}{_OFFSET}|{_leap_seconds()})"

# RFC 3339, appendix A: a unit may be left out only at either end
_TIME_SPAN = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DATE_SPAN = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION = f"P(?:{_DATE_SPAN}(?:{_TIME_SPAN})?|{_TIME_SPAN}|[0-9]+W)"

# ---------------------------------------------------------------- RFC 1123, 2673, 4291: hosts

_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME = rf"{_LABEL}(?:\.{_LABEL})*"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_H16 = "[0-9A-Fa-f]{1,4}"
_LS32 = f"(?:{_H16}:{_H16}|{_IPV4})"
_IPV6 = (
    "(?:"
    + "|".join(
        [
            f"(?:{_H16}:){{6}}{_LS32}",
            f"::(?:{_H16}:){{5}}{_LS32}",
            f"(?:{_H16})?::(?:{_H16}:){{4}}{_LS32}",
            f"(?:(?:{_H16}:){{0,1}}{_H16})?::(?:{_H16}:){{3}}{_LS32}",
            f"(?:(?:{_H16}:){{0,2}}{_H16})?::(?:{_H16}:){{2}}{_LS32}",
            f"(?:(?:{_H16}:){{0,3}}{_H16})?::{_H16}:{_LS32}",
            f"(?:(?:{_H16}:){{0,4}}{_H16})?::{_LS32}",
            f"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}",
            f"(?:(?:{_H16}:){{0,6}}{_H16})?::",
        ]
    )
    + ")"
)

# ---------------------------------------------------------------- RFC 5321 and 6531: mailboxes


def _email(beyond: str, host: str) -> str:
    atext = rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{beyond}-]"
    local = rf'(?:{atext}+(?:\.{atext}+)*|"(?:[ !#-\[\]-~{beyond}]|\\[ -~])*")'
    literal = rf"\[(?:{_IPV4}|[Ii][Pp][Vv]6:{_IPV6})\]"
    return rf"{local}@(?:{host}|{literal})"


_NON_ASCII = r"\x{80}-\x{10FFFF}"
_U_LABEL = rf"[A-Za-z0-9{_NON_ASCII}](?:[A-Za-z0-9{_NON_ASCII}-]{{0,61}}[A-Za-z0-9{_NON_ASCII}])?"

# ---------------------------------------------------------------- RFC 3986, 3987, 6570: identifiers


def _uri(beyond: str, private: str) -> tuple[str, str]:
    """A URI and a URI reference, with more characters allowed (for IRIs) in general and in the query."""
    free = rf"A-Za-z0-9\-._~{beyond}"
    sub = "!$&'()*+,;="
    escape = "%[0-9A-Fa-f]{2}"
    pchar = f"(?:[{free}{sub}:@]|{escape})"
    segments = f"(?:/{pchar}*)*"
    absolute = f"/(?:{pchar}+{segments})?"
    rootless = f"{pchar}+{segments}"
    noscheme = f"(?:[{free}{sub}@]|{escape})+{segments}"
    # an IPv4 address is a registered name to this grammar
    host = rf"(?:\[(?:{_IPV6}|[Vv][0-9A-Fa-f]+\.[A-Za-z0-9\-._~{sub}:]+)\]|(?:[{free}{sub}]|{escape})*)"
    authority = f"(?:(?:[{free}{sub}:]|{escape})*@)?{host}(?::[0-9]*)?"
    tail = rf"(?:\?(?:[{free}{sub}:@/?{private}]|{escape})*)?(?:#(?:[{free}{sub}:@/?]|{escape})*)?"
    full = rf"[A-Za-z][A-Za-z0-9+.\-]*:(?://{authority}{segments}|{absolute}|{rootless}|){tail}"
    relative = f"(?://{authority}{segments}|{absolute}|{noscheme}|){tail}"
    return full, f"(?:{full}|{relative})"


_UCS = (
    r"\x{A0}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFEF}"
    + "".join(rf"\x{{{plane:X}0000}}-\x{{{plane:X}FFFD}}" for plane in range(1, 14))
    + r"\x{E1000}-\x{EFFFD}"
).replace(r"\x{E0000}-\x{EFFFD}", "")
_PRIVATE = r"\x{E000}-\x{F8FF}\x{F0000}-\x{FFFFD}\x{100000}-\x{10FFFD}"
_URI, _URI_REFERENCE = _uri("", "")
_IRI, _IRI_REFERENCE = _uri(_UCS, _PRIVATE)

_VARCHAR = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_VARSPEC = rf"{_VARCHAR}(?:\.?{_VARCHAR})*(?::[1-9][0-9]{{0,3}}|\*)?"
_URI_TEMPLATE = (
    rf"(?:[!#$&-;=?@-\[\]_a-z~{_UCS}{_PRIVATE}]|%[0-9A-Fa-f]{{2}}"
    rf"|\{{[+#./;?&=,!@|]?{_VARSPEC}(?:,{_VARSPEC})*\}})*"
)

# ---------------------------------------------------------------- RFC 6901 and others

_POINTER = r"(?:/(?:[^~/]|~[01])*)*"
_UUID = "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"

FORMATS: dict[str, str] = {
    "date-time": f"{_DATE}[Tt]{_TIME}",
    "date": _DATE,
    "time": _TIME,
    "duration": _DURATION,
    "email": _email("", _HOSTNAME),
    "idn-email": _email(_NON_ASCII, rf"{_U_LABEL}(?:\.{_U_LABEL})*"),
    "hostname": _HOSTNAME,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "uri": _URI,
    "uri-reference": _URI_REFERENCE,
    "iri": _IRI,
    "iri-reference": _IRI_REFERENCE,
    "uri-template": _URI_TEMPLATE,
    "uuid": _UUID,
    "json-pointer": _POINTER,
    "relative-json-pointer": rf"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
}
"""Pattern of each format by name."""

LONGEST: dict[str, int] = {"hostname": 253}
"""Most characters of a text, where the format limits the whole."""
