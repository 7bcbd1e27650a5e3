"""Roman numerals where they are numbers: after a chapter, a king or a war; never the pronoun "I"."""

from __future__ import annotations

import re

from app.tts.speakable import numbers as say
from app.tts.speakable.tracked import Tracked

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
# "Type C" and "Grade D" are letters: at least one I, V or X makes a numeral.
_VALID = r"(?=[LCDM]*[IVX])M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})(?![A-Za-z0-9'’])"
_SMALL = r"(?=[IVX]{2})(?:X{0,3})(?:IX|IV|V?I{0,3})(?![A-Za-z0-9'’])"
_PLACES = (
    "Chapter|Part|Act|Scene|Volume|Book|Section|Article|Phase|Type|Class|Title|Level|Figure|Table|Appendix|Stage|Grade"
    "|Episode|Season|Round|Vatican|Amendment|Mark|Step|Unit|Lesson|Super Bowl|Schedule|Group|Symphony No\\."
)
_KINDS = {"Type", "Phase", "Stage"}
"""Are never followed by the pronoun: "Type I errors"."""
_RULERS = (
    "Henry|Elizabeth|Louis|Charles|George|James|Edward|Richard|William|John Paul|John|Paul|Pius|Benedict|Philip|Felipe"
    "|Frederick|Friedrich|Catherine|Peter|Nicholas|Alexander|Ivan|Leo|Gregory|Ferdinand|Wilhelm|Otto|Constantine|Mehmed"
    "|Ramses|Ramesses|Thutmose|Cleopatra|Ptolemy|Xerxes|Darius|Cyrus|Napoleon|Francis|Franz|Joseph|Maximilian|Leopold"
    "|Albert|Christian|Gustav|Carlos|Juan Carlos|Alfonso|Isabella|Mary|Robert|Harald|Urban|Innocent|Clement"
    "|Sixtus|Julius|Boniface|Stephen|Theodosius|Justinian|Suleiman|Selim|Murad|Amenhotep|Seti|Baldwin|Umberto|Emmanuel"
)
_GOES_ON = r"(?=\s*(?:$|[.,;:!?)\]])|\s+(?:of|and|was|is|had|has|became|in|began|ended|to|ruled|reigned|died|or|from|who|with|by|at|on)\b)"
"""What follows "Chapter I" and not "Part I like": a lone I is a numeral only before these."""
_WAR = re.compile(r"\b(World War|WW)(\s?)(I{1,3})(?![A-Za-z'’])")
_AFTER_PLACE = re.compile(rf"\b({_PLACES})(\s+)({_VALID})")
_AFTER_RULER = re.compile(rf"\b({_RULERS})(\s+)({_VALID})")
_AFTER_NAME = re.compile(rf"\b([A-Z][\w'’]*[a-z]|[A-Z]{{2,}})(\s+)({_SMALL})(?!-)")
_CENTURY = re.compile(rf"(?<!\w)({_VALID})(?=(?:th)?[\s-]+(?:century|centuries)\b)")
_LIST_MARK = re.compile(r"^([ \t]*)(?=[IVX]+[.)][ \t])((?:X{0,3})(?:IX|IV|V?I{0,3}))[.)](?=[ \t])", re.M)
_SMALL_LIST_MARK = re.compile(r"^([ \t]*)(i{1,3}|iv|vi{0,3}|ix|x)[.)](?=[ \t])", re.M)
_GOES_ON_AT = re.compile(_GOES_ON)


def value(numeral: str) -> int:
    """ "XIV" -> 14. ``numeral`` is well formed."""
    total = 0
    for char, following in zip(numeral, numeral[1:] + " ", strict=True):
        worth = _VALUES[char]
        total += -worth if worth < _VALUES.get(following, 0) else worth
    return total


def _is_pronoun(match: re.Match[str], numeral: str) -> bool:
    return numeral == "I" and not _GOES_ON_AT.match(match.string, match.end())


def _place(match: re.Match[str]) -> str | None:
    word, gap, numeral = match.groups()
    if word not in _KINDS and _is_pronoun(match, numeral):
        return None
    return f"{word}{gap}{say.cardinal(value(numeral))}"


def _ruler(match: re.Match[str]) -> str | None:
    name, gap, numeral = match.groups()
    if _is_pronoun(match, numeral) or (numeral in ("X", "V") and name == "John"):
        return None
    return f"{name}{gap}the {say.ordinal(value(numeral)).capitalize()}"


def _war(match: re.Match[str]) -> str:
    name = "World War" if match.group(1) == "WW" else match.group(1)
    return f"{name} {say.cardinal(value(match.group(3))).capitalize()}"


def say_roman(text: Tracked) -> Tracked:
    """ "Chapter IV", "Henry VIII", "World War II", "Rocky III" -> four, the Eighth, Two, three."""
    text = text.sub(_WAR, _war).sub(_AFTER_RULER, _ruler).sub(_AFTER_PLACE, _place)
    text = text.sub(_CENTURY, lambda match: say.ordinal(value(match.group(1))) if match.group(1) != "I" else None)
    return text.sub(_AFTER_NAME, lambda m: f"{m.group(1)}{m.group(2)}{say.cardinal(value(m.group(3)))}")


def say_list_marks(text: Tracked) -> Tracked:
    """ "IV. Results" at the start of a line -> "four, Results"."""
    for pattern in (_LIST_MARK, _SMALL_LIST_MARK):
        text = text.sub(pattern, lambda match: f"{match.group(1)}{say.cardinal(value(match.group(2).upper()))},")
    return text
