"""Words that nobody ends on. Full stops are no help: recognisers end what was broken off with one too."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.dialogue.words.dictation import still_dictating
from app.dialogue.words.plain import consists_of, ends_with, phrases, plain


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BROKEN_OFF = re.compile(r"(?:\.\.+|…|[-–—,:;、，：；])[\s\"'”’]*$")

_OPEN_WORDS = phrases(
    # Conjunctions. "Though", "that" and "then" end sentences well enough.
    "and|or|but|nor|because|cause|cuz|if|unless|until|whether|while|whereas|although|than|whenever|wherever|plus|as|since"
    "|so that|even if|even though|as if|as though|in case|provided that|given that|such as|as well as|for example|for instance"
    "|and then|or maybe|that maybe|and maybe|but maybe|that perhaps|or like|i was|we were|i'm|you're|we're|they're|there's|there are|it's like|i think that|i know that",
    # Articles, possessives and what else needs a noun. "Her" and "his" may stand alone.
    "a|an|the|my|your|our|their|its|every|very|these kinds of|some kind of|a lot of",
    # Fillers.
    "um|uh|uhm|erm|er|umm|ehm|i mean|kind of like|sort of like|let me think|let me see|let's see|how do i say|what's it called"
    "|how should i put it|what do you call it",
    # Requests that have not come to what is asked for.
    "i would like|i'd like|i would love|we'd like|could you|could you please|can you|can you please|would you|would you please"
    "|will you please|could i|could i have|can i have|may i|may i have|can i get|i want you to|tell me about|give me a|i'm trying"
    "|i'm looking|do you know if|do you know whether|i was wondering|i was thinking|i was just|the thing is|my question is"
    "|the question is|the problem is|the reason is|what i mean is|what i want is|the point is",
    "|i would like to know|i'd like to know|i want to know|i need to know|i wanted to know|i would like to ask|i'd like to ask"
    "|i want to ask|i wanted to ask|i wanted to ask you|i want to ask you|i would like to have|i'd like to have|i want to buy"
    "|i need to buy|i want to have|i need to get|remind me to|remind me to call|remind me to buy|do you think that"
    "|think that|i hope that|i believe that|dreamed that|told me that|means that|the fact that|happens when"
    "|happens if|happen when|happen if|the difference|which|whose",
    # Chinese: conjunctions, what needs an object, fillers.
    "和|跟|或|或者|还是|還是|但|但是|可是|不过|不過|因为|因為|由于|由於|所以|如果|要是|假如|虽然|雖然|然后|然後|还有|還有|而且|并且|並且|另外|比如|比如说|比如說|例如|就是|就是说|就是說"
    "|的话|的話|的时候|的時候|以及|关于|關於|对于|對於|根据|除了|为了|為了|把|被|向|从|從|往|呃|额|嗯那个|嗯那個|那个那个|那個那個|我想|我要|我想要|我需要|我觉得|我覺得|我在想|我的意思是|请帮我|請幫我"
    "|帮我|幫我|能不能|可不可以|可以帮我|你能|你能不能|请问|請問|号码是|號碼是|电话是|電話是|名字是|地址是|密码是|住在|第一个|一个|一個|这是一个|很|非常|特别是|特別是|让我想想|讓我想想|我想想|怎么说呢|怎麼說呢",
    # German, French, Spanish. Words that end English sentences ("die", "on", "a", "me") are left out.
    "und|oder|aber|weil|dass|wenn|ob|ein|eine|einen|einem|einer|mein|meine|meinen|meiner|äh|ähm|für|von|zur|zum|ich möchte"
    "|ich hätte gern|könntest du|können sie|kannst du|meine nummer ist|ich heiße",
    "et|mais|parce que|puisque|lorsque|avec|pour|dans|chez|du|des|les|une|un|mon|ton|euh|je voudrais|j'aimerais|est ce que"
    "|pouvez vous|peux tu|je m'appelle|mon numéro est",
    "y|pero|porque|aunque|cuando|con|por|del|el|los|las|una|mi|tu|eh|quisiera|me gustaría|podrías|puedes|podría|puede"
    "|mi número es|me llamo",
)

_CLOSED_ENDS = phrases(
    # ...which end in one of the above, or of the below, and are whole.
    "i think so|i hope so|is that so|i believe so|i guess so|i suppose so|i'm afraid so|i don't think so|told you so|said so|say so"
    "|even so|or so|so so|and so on|so on|and so forth|if so|go on|come on|come in|come over|carry on|move on|hold on|hang on"
    "|later on|early on|from now on|and on|from then on|what's on|what's up|going on|went on|goes on|let me in|let them in|i'm in"
    "|count me in|log in|sign in|check in|tune in|stay in|get in|go in|check it out|you and me|ever since|long since|what if"
    "|as well|such as that|thank you very|the who|not at|i'm with you|yours and my|on and on|in and out|to and fro|what for"
    "|how about|where to|where from|who with|by and by|way in|a b|vitamin a|plan a|you're on|on it|ja und|na und|y tu|solo tu"
)

_ANNOUNCED = re.compile(
    r"\b(?:have|had|got|want|wanted|need|see|are|know) (?:two|three|four|five|several|some|a few|a couple of) "
    r"(?:more |other )?(?:questions|things|points|reasons|options|ideas|problems|requests|wishes|topics)[.:]?$"
)
"""Who counts what they have to say has not said it."""
_PREPOSITIONS = _words(
    "of to for from with in on at by about into onto upon between among during without within against towards toward through "
    "under over above below behind beside beneath beyond near across along around via per despite like"
)
_PARTICLES = _words("in on over through around under along by across near behind above below within")
"""Prepositions that end sentences as part of a verb ("turn it on", "come on in", "think it over")."""
_PARTICLE_VERBS = _words(
    "turn turned turning switch switched put putting log logged sign signed come came coming go goes going went get got getting "
    "keep kept move moved drop dropped check checked join joined plug plugged fill filled bring brought let try tried trying "
    "jump hop hold hang carry take took pass think start started stop run ran walk walked look looked sleep slept drive "
    "pull stay stayed"
)
_BE = _words("be been is are was were am it's that's he's she's they're i'm what's who's isn't aren't you're")
"""...and so do these just before one ("what's on", "I was in"), or far before it in a question ("Is the light on?")."""

_WH = _words(
    "what what's whats who who's whom whose which where where's when how how's why whatever wherever whoever whichever "
    "anything something nothing everything"
)
"""After these a preposition may be left at the end: "What is that for?", "something to look at"."""
_PRONOUNS = _words("you it that this they he she we i those these him her them me us one")
_STRANDING_VERBS = _words(
    "look live come go talk speak think care work start begin play stay sit belong wait listen pay ask stand deal made based "
    "born good bad known famous used called written happened happen refer point end ends begins starts comes goes works "
    "hear heard dream mean use need go do sound sounds look looks feel feels taste tastes run runs agree depend care"
)
_WITH_TO = _words(
    "talk speak listen belong belongs happened happen refer point reply respond write relate it connect listened"
)
"""After other verbs "to" wants another: "What are you going to", "What do I have to"."""
_WITH_OF = _words(
    "made think thought thinking heard hear dream dreaming afraid proud tired sort kind part capable tell fond speaking"
)
_LIKE_OPENERS = _words(
    "was is just it's something someone somebody things stuff be and looks sounds feels like would i'd um are were i'm that's"
)
"""Before "like" at the end: the comparison is still to come."""

_COPULAS = _words("is are was were be equals contains includes costs means")
_POSSESSED = _words("my your our their his her the this these")
_LIST_OPENERS = phrases(
    "first|firstly|second|secondly|third|thirdly|next|then|also|finally|first of all|number one|number two|number three|step one"
    "|for one thing|on the one hand|on the other hand|one|a|b|well|so|okay so|ok so|yeah so|and so|right so|so basically|basically"
    "|actually|anyway|anyways|i think|i guess|i want|i need|i have|i wanted|i just|i just wanted|i'd|i'll|i'm|i|this is|that is|it's|it is"
    "|let's|so i|so you know|well you know|like|you know|because|hey so|so um|so like|please tell me|tell me|because i|if i|if you"
    "|第一|第二|第三|首先|其次|另外|那个|那個|这个|這個|那|我|我是|我叫|这是|這是|你|请|請"
)
"""With these as all of a sentence a speaker has only begun. A lone number is an answer all the same: see below."""
_ANSWERS = phrases("one|a|b|这个|這個|那个|那個|我|你")
"""...and these are answers when they are all of the turn."""


_ASKED_WHOLE = phrases("and|or|but|because|so|und|oder|et|y|可是|但是|所以|然后|因为")
"""Short questions that would be openings without their question mark. "Could you?" is no such: recognisers write it for one."""

_CONDITIONS = _words("if when whenever while although though once unless until after before since as")
_SUBJECTS = _words(
    "i you he she it we they i'm you're he's she's it's we're they're i've you've there there's the this that these those my your our "
    "his her their a an someone somebody everyone people"
)
_CONDITION_MOST_WORDS = 7
"""A longer one has its consequence in it, even where the recogniser set no comma between them."""
_WHOLE_CONDITIONS = phrases(
    "if you want|if you like|if you wish|if you must|if you insist|if you say so|if you please|if it helps"
)


_ALONE = phrases(
    "please|thanks|thank you|okay|ok|yes|no|yeah|yep|nope|right|sure|bye|goodbye|hello|hi|hey|sorry|stop|wait|now|today|tomorrow|tonight"
    "|really|exactly|great|good|fine|cool|nice|wow|maybe|never|always|honestly|seriously|period|continue|again|quickly|parley"
    "|danke|bitte|ja|nein|merci|oui|non|gracias|sí|alright|absolutely|definitely|perfect|correct|done|enough|ever|though|too"
)
"""Sentences of one word that are no item of a list."""


def sounds_unfinished(words: str) -> bool:
    """True when a speaker would go on after ``words``: they end in a conjunction, an article, a filler, an opened list,
    digits with more to come. Made to miss rather than to fire on a whole sentence."""
    if not (said := plain(words)):
        return False
    if _BROKEN_OFF.search(words):
        return True
    clause = plain(re.split(r"[.?!,;:。？！，；：]\s+|[。？！，；：]", words.strip().rstrip(".?!。？！ "))[-1])
    asked = words.rstrip().endswith(("?", "？"))
    if clause in _LIST_OPENERS and not (clause == said and (clause in _ANSWERS or asked)):
        return True
    if still_dictating(words) or _lists(words, clause, said, asked):
        return True
    closed, opened = ends_with(said, _CLOSED_ENDS), ends_with(said, _OPEN_WORDS)
    if asked and said in _ASKED_WHOLE:
        return False
    if opened or closed:
        return opened > closed
    return (
        _preposition_dangles(clause, asked)
        or _subject_only(clause)
        or _ANNOUNCED.search(words.lower().rstrip()) is not None
        or (not asked and _condition_only(words, said))
    )


def _lists(words: str, clause: tuple[str, ...], said: tuple[str, ...], asked: bool) -> bool:
    """ "We need eggs. Milk." Recognisers set full stops between the items of a list that is said slowly."""
    single = re.search(r"[^.?!,\s]\.\s+[^\s.,]+\.?\s*$", words)
    before = said[: -len(clause)]
    return (
        bool(single)
        and not asked
        and len(before) >= 3
        and not consists_of(before, _ALONE)
        and clause[-1:] not in _ALONE
    )


def _preposition_dangles(clause: Sequence[str], asked: bool) -> bool:
    if not clause or (last := clause[-1]) not in _PREPOSITIONS:
        return False
    *before, _ = clause
    previous = before[-1] if before else ""
    open_question = bool(_WH & {*before}) or "that" in before[:-1]
    if last == "like":
        return not open_question and previous in _LIKE_OPENERS
    if last in _PARTICLES and not (open_question and previous == "it" and last == "in"):  # "what time is it in"
        if _PARTICLE_VERBS & {*before[-4:]} or previous in _BE:
            return False
        if asked and before and before[0] in _BE:
            return False
    if not open_question:
        return True
    if last == "to":
        return previous not in _WITH_TO and not previous.endswith(("lking", "aking", "ening", "rring"))
    if last == "of":
        return previous not in _WITH_OF
    if last == "about":
        return False
    if last == "in" and previous == "it":
        return True
    return not (previous in _PRONOUNS or previous in _STRANDING_VERBS or previous.endswith(("ing", "ed")))


def _subject_only(clause: Sequence[str]) -> bool:
    """ "My phone number is" and "the code is", but neither "yes, it is" nor "I don't know what the code is"."""
    if len(clause) < 3 or clause[-1] not in _COPULAS:
        return False
    before = clause[:-1]
    return before[0] in _POSSESSED and before[-1] not in _PRONOUNS and not _WH & {*before}


def _condition_only(words: str, said: tuple[str, ...]) -> bool:
    """ "If it rains tomorrow" wants its consequence, "when I was young" its story."""
    return (
        3 <= len(said) <= _CONDITION_MOST_WORDS
        and said[0] in _CONDITIONS
        and said[1] in _SUBJECTS
        and "," not in words
        and not ends_with(said, _WHOLE_CONDITIONS)
    )
