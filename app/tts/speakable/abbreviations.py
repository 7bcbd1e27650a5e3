"""Abbreviations: what they are read as, and which dots therefore end no sentence."""

from __future__ import annotations

import re

from app.tts.speakable.tracked import Tracked

TITLES = {
    "Mr": "Mister",
    "Mrs": "Missus",
    "Ms": "Miz",
    "Dr": "Doctor",
    "Prof": "Professor",
    "St": "Saint",
    "Mt": "Mount",
    "Ft": "Fort",
    "Gen": "General",
    "Gov": "Governor",
    "Sen": "Senator",
    "Rep": "Representative",
    "Capt": "Captain",
    "Lt": "Lieutenant",
    "Col": "Colonel",
    "Sgt": "Sergeant",
    "Rev": "Reverend",
    "Hon": "Honorable",
    "Pres": "President",
}
"""Stand before a name: their dot never ends a sentence."""

INNER = {
    "e.g": "for example",
    "i.e": "that is",
    "vs": "versus",
    "cf": "compare",
    "approx": "approximately",
    "incl": "including",
    "esp": "especially",
    "viz": "namely",
    "fig": "figure",
    "Fig": "Figure",
    "vol": "volume",
    "Vol": "Volume",
    "pp": "pages",
    "ca": "circa",
    "resp": "respectively",
    "max": "maximum",
    "ext": "extension",
    "Eq": "Equation",
    "eq": "equation",
    "Sec": "Section",
    "Ch": "Chapter",
}
"""Always go on: their dot never ends a sentence."""

OPEN = {
    "etc": "et cetera",
    "Jr": "Junior",
    "Sr": "Senior",
    "Inc": "Incorporated",
    "Ltd": "Limited",
    "Corp": "Corporation",
    "Co": "Company",
    "Ave": "Avenue",
    "Blvd": "Boulevard",
    "Rd": "Road",
    "Dept": "Department",
    "Jan": "January",
    "Feb": "February",
    "Mar": "March",
    "Apr": "April",
    "Aug": "August",
    "Sep": "September",
    "Sept": "September",
    "Oct": "October",
    "Nov": "November",
    "Dec": "December",
    "Mon": "Monday",
    "Tue": "Tuesday",
    "Tues": "Tuesday",
    "Wed": "Wednesday",
    "Thu": "Thursday",
    "Thurs": "Thursday",
    "Fri": "Friday",
    "a.k.a": "also known as",
    "et al": "and others",
    "Ph.D": "P.H.D",
    "a.m": "A.M",
    "p.m": "P.M",
    "A.M": "A.M",
    "P.M": "P.M",
    "Bros": "Brothers",
    "Est": "Established",
    "est": "estimated",
    "misc": "miscellaneous",
}
"""May end a sentence: whether they do shows in the letter that follows."""

_DOTTED_UNITS = frozenset({"min", "hr", "hrs", "sec", "oz", "lb", "lbs", "ft", "in", "tsp", "tbsp", "mi", "yd", "gal"})
_DOTTED_UNIT = re.compile(rf"(?<=\d)(\s?)({'|'.join(_DOTTED_UNITS)})\.(?=\s+[a-z])")
_STREET = re.compile(
    r"\b(?!The\b|Your\b|My\b|Our\b)([A-Z][\w']+)(\s+)(?:(St)\.(?=\s+[a-z]|\s*,|\s*$)|(Dr)\.(?=\s*,|\s*$))"
)
_DAYS = {
    "Mon": "Monday",
    "Tue": "Tuesday",
    "Wed": "Wednesday",
    "Thu": "Thursday",
    "Fri": "Friday",
    "Sat": "Saturday",
    "Sun": "Sunday",
}
_DAY_RANGE = re.compile(rf"\b({'|'.join(_DAYS)})\.?\s?[-–]\s?({'|'.join(_DAYS)})\b")
_PAGE = re.compile(r"(?<![\w.])p\.\s?(?=\d)")
_CIRCA = re.compile(r"(?<![\w.])c\.\s?(?=\d{3,4})")
_NUMBER_SIGN = re.compile(r"\b([Nn])(o|os)\.\s?(?=\d)")
_TITLE = re.compile(rf"(?<![\w.])({'|'.join(TITLES)})\.(?=\s+\S)")
_BARE_TITLE = re.compile(r"(?<![\w.])(Dr|Mr|Mrs|Ms|Prof)(?=\s+[A-Z])")
_INNER = re.compile(rf"(?<![\w.])({'|'.join(re.escape(key) for key in sorted(INNER, key=len, reverse=True))})\.(?!\w)")
_BARE_VERSUS = re.compile(r"(?<=\s)vs(?=\s)")
_OPEN = re.compile(rf"(?<![\w.])({'|'.join(re.escape(key) for key in sorted(OPEN, key=len, reverse=True))})\.(?!\w)")
_INITIALS = re.compile(r"(?<![\w.])((?:[A-Z]\.){2,})(?!\w)")
_WITH = re.compile(r"(?<!\w)w/(?=\s)|(?<!\w)w/o(?=\s)")
_INITIALS_END = re.compile(r"(?:^|[^\w.])(?:[A-Z]\.)+$")


def dot_ends_sentence(before: str) -> bool | None:
    """Whether the dot that ``before`` ends with closes a sentence; None when the next letter decides."""
    token = before[:-1].split()[-1].lstrip("(\"'“‘[*_") if before[:-1].strip() else ""
    if token in TITLES or token in INNER:
        return False
    if token.lower() in ("no", "nos", "p", "c") or (token in _DOTTED_UNITS and any(char.isdigit() for char in before)):
        return None
    if token in OPEN or token.lower() == "al":
        return None
    if _INITIALS_END.search(before):
        # "J. Smith" against "vitamin C. Then": a lone initial goes on, several ("U.S.") may end.
        return None if token.count(".") or token == "I" else False
    return True


def _open(match: re.Match[str]) -> str:
    word = OPEN[match.group(1)]
    return f"{word}." if not match.string[match.end() :].strip() else word


def _street(match: re.Match[str]) -> str:
    name, gap, word, _ = match.groups()
    end = "." if not match.string[match.end() :].strip() else ""
    return f"{name}{gap}{'Street' if word else 'Drive'}{end}"


def _initials(match: re.Match[str]) -> str:
    letters = match.group(1)[:-1]
    return f"{letters}." if not match.string[match.end() :].strip() else letters


def say_abbreviations(text: Tracked) -> Tracked:
    """ "Dr. Smith vs. e.g. the U.S." -> "Doctor Smith versus for example the U.S"."""
    text = text.sub(
        _NUMBER_SIGN, lambda m: f"{'N' if m.group(1) == 'N' else 'n'}umber{'s' if m.group(2) == 'os' else ''} "
    )
    text = text.sub(_DOTTED_UNIT, lambda m: m.group(1) + ("inches" if m.group(2) == "in" else m.group(2))).sub(
        _STREET, _street
    )
    text = text.sub(_DAY_RANGE, lambda m: f"{_DAYS[m.group(1)]} to {_DAYS[m.group(2)]}")
    text = text.sub(_PAGE, "page ").sub(_CIRCA, "circa ")
    text = text.sub(_TITLE, lambda match: TITLES[match.group(1)])
    text = text.sub(_BARE_TITLE, lambda match: TITLES[match.group(1)])
    text = text.sub(_INNER, lambda match: INNER[match.group(1)]).sub(_BARE_VERSUS, "versus")
    text = text.sub(_WITH, lambda match: "without" if match.group() == "w/o" else "with")
    return text.sub(_OPEN, _open).sub(_INITIALS, _initials)
