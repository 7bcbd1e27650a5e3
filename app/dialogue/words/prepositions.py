"""Prepositions that still want their noun ("the weather in"), and those that do not ("Where are you from?")."""

from __future__ import annotations

from collections.abc import Sequence

from app.dialogue.words.plain import vocabulary

_PREPOSITIONS = vocabulary(
    "of to for from with in on at by about into onto upon between among during without within against towards toward",
    "through under over above below behind beside beneath beyond near across along around via per despite like",
)
_PARTICLES = vocabulary("in on over through around under along by across near behind above below within")
"""Prepositions that end sentences as part of a verb ("turn it on", "come on in", "think it over")..."""
_PARTICLE_VERBS = vocabulary(
    "turn turned turning switch switched put putting log logged sign signed come came coming go goes going went get got",
    "getting keep kept move moved drop dropped check checked join joined plug plugged fill filled bring brought let try",
    "tried trying jump hop hold hang carry take took pass think start started stop run ran walk walked look looked sleep",
    "slept drive pull stay stayed",
)
_BE = vocabulary("be been is are was were am it's that's he's she's they're i'm what's who's isn't aren't you're")
"""...of a form of "to be" just before them ("what's on", "I was in"), or at the head of a question ("Is the light on?")."""

_OPENING = vocabulary(
    "what what's whats who who's whom whose which where where's when how how's why whatever wherever whoever whichever",
    "anything something nothing everything",
)
"""After these a preposition may be left at the end: "What is that for?", "something to look at"..."""
_PRONOUNS = vocabulary("you it that this they he she we i those these him her them me us one")
_VERBS = vocabulary(
    "look live come go talk speak think care work start begin play stay sit belong wait listen pay ask stand deal made based",
    "born good bad known famous used called written happened happen refer point end ends begins starts comes goes works hear",
    "heard dream mean use need do sound sounds looks feel feels taste tastes run runs agree depend",
)
"""...behind a pronoun or one of these: "What is the capital of?" lacks something all the same."""
_VERBS_WITH_TO = vocabulary(
    "talk talking talked speak speaking spoke listen listening listened belong belongs happen happened happening refer referring point",
    "pointing reply respond write relate connect it",
)
"""After other verbs "to" wants another: "What are you going to", "What do I have to"."""
_VERBS_WITH_OF = vocabulary(
    "made think thought thinking heard hear dream dreaming know afraid proud tired sort kind part capable tell fond speaking"
)
_VERBS_WITHOUT_TO = vocabulary(
    "want wants wanted have has had need needs needed love hate used going got supposed allowed ought"
)
"""Behind these "to" may stand for what was spoken of ("I want to", "Do I have to?"), though not behind "like"."""
_ELLIPSIS_MOST_WORDS = 6
_SPEAKERS = vocabulary("i you he she we they")
_ARTICLES = vocabulary("the a an those")
_COMPARED = vocabulary(
    "was is just it's something someone somebody things stuff be and looks sounds feels like would i'd um are were i'm that's"
)
"""Behind these "like" has still to say what something is like."""


def dangles(clause: Sequence[str]) -> bool:
    """Whether ``clause`` (plain words) ends in a preposition that it cannot end in."""
    if not clause or (last := clause[-1]) not in _PREPOSITIONS:
        return False
    *before, previous = "", *clause[:-1]
    head = [*before, previous]
    opening = bool(_OPENING & {*head}) or "that" in before or _has_relative_clause(head)
    if last == "like":
        return previous in _COMPARED and not opening
    if opening and last == "in" and previous == "it":  # "what time is it in"
        return True
    if last in _PARTICLES and (_PARTICLE_VERBS & {*head[-4:]} or previous in _BE or (clause[0] in _BE and not opening)):
        return False
    if not opening:
        return True
    match last:
        case "to":
            return previous not in _VERBS_WITH_TO
        case "of":
            return previous not in _VERBS_WITH_OF
        case "about":
            return False
    return not (previous in _PRONOUNS or previous in _VERBS or previous.endswith(("ing", "ed")))


def omits_verb(clause: Sequence[str]) -> bool:
    """Whether ``clause`` ends in a "to" that may refer to something said before: "I want to.", "Do you have to?"."""
    return 3 <= len(clause) <= _ELLIPSIS_MOST_WORDS and clause[-1] == "to" and clause[-2] in _VERBS_WITHOUT_TO


def _has_relative_clause(words: Sequence[str]) -> bool:
    """ "The one I told you about", but not "in the winter I live in"."""
    return any(
        words[at] in _SPEAKERS and words[at - 2] in _ARTICLES and not (at > 2 and words[at - 3] in _PREPOSITIONS)
        for at in range(2, len(words))
    )
