"""Where inside a sentence a speaker could take breath, judged from the words around the place alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """From how many words on a clause may end, and at what."""

    mark: int
    """At a comma, a colon or a dash."""
    turn: int
    """Before a word that begins a new thought ("because"), or the verb of a long subject."""
    link: int
    """Before any other conjunction or a preposition."""
    hard: int
    """Anywhere that is not ugly."""


FIRST = Pace(mark=1, turn=2, link=3, hard=12)
"""Sound starts with it, so it is as short as it can be without sounding cut off: "Sure,", "The capital of France"."""
SECOND = Pace(mark=4, turn=8, link=11, hard=16)
AFTER_A_WORD_OR_TWO = Pace(mark=2, turn=4, link=7, hard=12)
"""The second clause has to be ready before the first is over, also where the model writes 25 tokens a second."""
LATER = Pace(mark=10, turn=24, link=24, hard=36)
"""Whole sentences, which sound best; only long ones are cut."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TURNS = _words("because but so although though while when where which who if unless until since whereas however")
_PAIRING = _words("and or")
_LINKS = _words("that as then than before after with without into from for by at on in through during to")
_VERBS = _words(
    "is are was were will would can could should may might must has have had isn't aren't wasn't weren't won't can't"
)
_WISHES = _words("sorry glad happy here ready able thanks pleased delighted excited")
"""After these even two words may end before "to" and "for": "I'm happy | to help"."""
_LEANING = _words(
    "a an the of to in on at by for from with and or but my your his her its our their this that these those is are "
    "was were be been being very not no about than as into if so how what which who whose when where why because can "
    "could will would should may might must has have had do does did i you he she it we they there here also always "
    "never only just still often more most some any every each all both such much many too really quite i'm you're "
    "it's he's she's we're they're that's there's i'll you'll we'll i'd you'd i've you've let's per over under "
    "between approximately around nearly almost exactly roughly up out off down mr mrs ms dr pin code passcode password "
    "extension zip number"
)
"""What asks for the next word: no clause ends with it."""
_PARTICLE_VERBS = _words(
    "look looking turn turned come came go going went get got put log sign take took depend depends rely think talk "
    "listen wait ask work works based interested made make part kind need want wants try trying used able going like "
    "known called focus referred refers belong consist consists live lives start starts end ends break carry set"
)
"""Their preposition belongs to them: "look | for" is no place to rest."""
_ASKING = _words(
    "what how why when where who which whose what's who's where's how's is are do does did can could would should will "
    "was were if"
)
_LONG_WORD_CHARS = 10
"""A single word this long may be a clause by itself: "Photosynthesis | is how plants ..."."""


def leans_on(word: str) -> bool:
    """Whether ``word`` (lower case) asks for the one after it."""
    return word in _LEANING or not word.isalpha()


def after_first(words: int) -> Pace:
    """Of the second clause, after a first of ``words`` words."""
    return AFTER_A_WORD_OR_TWO if words <= 2 else SECOND


def may_rest_before(word: str, before: str, words: int, pace: Pace) -> bool:
    """Whether a clause of ``words`` words, ``before``, may end before ``word``, which is complete and in lower case."""
    spoken = before.lower().split()
    if not spoken or not spoken[-1].isalpha():
        return False  # a mark decides by itself, and a number belongs to what follows
    last = spoken[-1]
    if last in _LEANING or (last.endswith("ly") and len(last) > 4):
        return False
    if word in _TURNS:
        return words >= pace.turn
    if word in _VERBS:
        long_enough = words >= pace.turn or (pace is FIRST and len(last) >= _LONG_WORD_CHARS)
        return long_enough and spoken[0].strip("\"'“*_") not in _ASKING
    if word in _PAIRING:
        return words >= pace.link + 2 and not (pace is FIRST and before.split()[-1][0].isupper())
    if word not in _LINKS or last in _PARTICLE_VERBS:
        return False
    return words >= (pace.turn if last in _WISHES and word in ("to", "for") else pace.link)
