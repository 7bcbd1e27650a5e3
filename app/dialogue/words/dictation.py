"""Numbers being dictated: one group after another, with a pause after each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.dialogue.words.plain import plain, vocabulary

_DIGITS = vocabulary("zero oh one two three four five six seven eight nine", " ".join("零一二三四五六七八九〇幺"))
_COUNTED = ("one two three four five six seven eight nine", " ".join("一二三四五六七八九"), " ".join("123456789"))
_REPEATS = {"double": 2, "triple": 3}
_SENTENCES = re.compile(r"[.?!]\s+|[。？！]")
_CLOCK = re.compile(r"\d:\d\d\W*$")
_NUMERAL = re.compile(r"\+?\d+")

_WHOLE_LENGTHS = (
    # What is being dictated, and how many digits it has at least when it is whole. The first that fits counts.
    (vocabulary("card 卡"), 15),
    (vocabulary("phone mobile cell telephone tel fax call ring 电 電 手"), 10),
    (vocabulary("zip postal postcode 邮 郵"), 5),
    (vocabulary("pin passcode password 密"), 4),
    (vocabulary("code 码 碼"), 3),
    (vocabulary("account serial member customer"), 6),
    (vocabulary("order reference booking ticket id"), 4),
    (vocabulary("flight"), 2),
    (vocabulary("house room bus gate page door apartment platform line 房 门 門 间 間"), 1),
    (vocabulary("number 号 號"), 7),
)
_OWN = vocabulary("my me the our it's is 是 我")
_LINKS = vocabulary("is it's are at me number code pin card phone fax zip password 是 为 為 号 號 码 碼 话 話")
"""What stands between that and its digits: "the number is 5", but not "the number of guests is about 5"."""
_OTHERWISE = vocabulary(
    "what what's who whose which how why when where calculate 什 谁 誰 多",
    "about around over under nearly almost roughly only just another be than of",
)
"""Asked for, or counted."""
_BARE_LENGTHS = range(3, 10)
"""Nothing but digits, said one by one: fewer are an answer ("five"), a phone number has ten."""
_LOCAL_LENGTH = 7
"""A whole phone number where no area code is needed."""


def still_dictating(words: str) -> bool:
    """True when ``words`` end in digits and what they belong to has more of them."""
    said = plain(_SENTENCES.split(words.strip().rstrip(".。 "))[-1])
    digits, groups = _digits_at_end(said)
    if not digits or _CLOCK.search(words):
        return False
    before = said[: len(said) - groups]
    if not before:
        return groups > 1 and digits in _BARE_LENGTHS and digits != _LOCAL_LENGTH and not _is_counting(said)
    if not _LINKS & {*before[-2:]} or not _OWN & {*before} or _OTHERWISE & {*before}:
        return False
    for cues, whole in _WHOLE_LENGTHS:
        if cues & {*before}:
            return digits < whole and digits != _LOCAL_LENGTH
    return False


def _is_counting(said: Sequence[str]) -> bool:
    """Whether ``said`` are digits in their order: "one two three" is no number."""
    return any(" ".join(said) in counted for counted in _COUNTED)


def _digits_at_end(said: Sequence[str]) -> tuple[int, int]:
    """How many digits ``said`` ends with, and in how many words."""
    digits = groups = 0
    for index in range(len(said) - 1, -1, -1):
        word = said[index]
        if word in _DIGITS:
            times = _REPEATS.get(said[index - 1], 1) if index else 1
            digits += times
        elif _NUMERAL.fullmatch(word):
            digits += len(word.lstrip("+"))
        elif word not in _REPEATS:
            break
        groups += 1
    return digits, groups
