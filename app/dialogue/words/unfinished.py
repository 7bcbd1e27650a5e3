"""Words that nobody ends on. Full stops are no help: recognisers end what was broken off with one too."""

from __future__ import annotations

import re
from enum import Enum

from app.dialogue.words.dictation import still_dictating
from app.dialogue.words.plain import after, consists_of, ends_with, phrases, plain, vocabulary
from app.dialogue.words.prepositions import dangles, omits_verb


class Ending(Enum):
    """What the words say of whether a speaker has come to an end."""

    WHOLE = "whole"
    HALF = "half"
    """By its mark a sentence, and an answer that people do give; yet mostly only the first half of one: "Because it was
    late.", "I want to."."""
    NUMBER = "number"
    """A number that is short for what it is. As much is waited for as after an open end, but it may be answered early."""
    OPEN = "open"
    """Nobody ends on that, whatever mark was set behind it."""


_LAST_CHARACTERS = 400
"""As much of the end is looked at."""

_BROKEN_OFF = re.compile(r"(?:\.\.+|…|[-–—,:;、，：；])[\s\"'”’]*$")
_SENTENCES = re.compile(r"[.?!:;]\s+|[。？！：；…]")
_CLAUSES = re.compile(r"[.?!:;,]\s+|[。？！：；…，、]")
_FULL_STOP = re.compile(r"[.?!。？！][\s\"'”’]*$")
_MARKS = ".?!。？！ \"'”’"

_OPEN_ENDS = phrases(
    # Conjunctions. "Though", "that" and "then" end sentences well enough.
    "and|or|but|nor|because|cause|cuz|if|unless|until|whether|while|whereas|although|than|whenever|wherever|plus|as|since"
    "|which|whose|so|so that|even if|even though|as if|as though|in case|provided that|given that|such as|as well as"
    "|for instance|and then|or maybe|that maybe|and maybe|but maybe|that perhaps|happens when|happens if|happen when"
    "|happen if|do you think that|think that|hope that|believe that|dreamed that|told me that|means that|the fact that",
    # Articles, possessives and what else needs a noun. "Her" and "his" may stand alone.
    "a|an|the|my|your|our|their|its|every|very|these kinds of|some kind of|a lot of",
    # Fillers.
    "um|uh|uhm|erm|er|umm|ehm|i mean|kind of like|sort of like|let me think|let me see|let's see|how do i say"
    "|what's it called|how should i put it|what do you call it",
    # Requests that have not come to what is asked for. Recognisers write "Could you?" for "Could you".
    "i would like|i'd like|i would love|we'd like|could you|could you please|can you|can you please|would you"
    "|would you please|will you please|could i|could i have|can i have|may i|may i have|can i get|i want you to|tell me about"
    "|give me a|i'm trying|i'm looking|do you know if|do you know whether|i was wondering|i was thinking|i was just"
    "|i would like to know|i'd like to know|i want to know|i need to know|i wanted to know|i would like to ask|i'd like to ask"
    "|i want to ask|i wanted to ask|i wanted to ask you|i want to ask you|i would like to have|i'd like to have|i want to buy"
    "|i need to buy|i want to have|i need to get|remind me to|remind me to call|remind me to buy"
    "|the thing is|my question is|the question is|the problem is|the reason is|what i mean is|what i want is|the point is",
    # Chinese, the same in this order.
    "和|跟|或|或者|还是|還是|但|但是|可是|不过|不過|因为|因為|由于|由於|所以|如果|要是|假如|虽然|雖然|然后|然後|还有|還有|而且|并且|並且|另外"
    "|比如|比如说|比如說|例如|就是说|就是說|的话|的話|的时候|的時候|以及|关于|關於|对于|對於|根据|除了|为了|為了|把|被|向|从|從|往|住在"
    "|这是一个|很|非常|特别是|特別是|呃|额|嗯那个|嗯那個|那个那个|那個那個|让我想想|讓我想想|我想想|怎么说呢|怎麼說呢|我的意思是"
    "|我觉得|我覺得|我在想|请帮我|請幫我|帮我|幫我|能不能|可不可以|可以帮我|你能|你能不能|请问|請問|号码是|號碼是|电话是|電話是|名字是|地址是|密码是",
    # German, French, Spanish. What ends sentences, also English ones ("die", "on", "ton", "y"), is left out.
    "und|oder|aber|weil|dass|wenn|ob|ein|eine|einen|einem|einer|mein|meine|meinen|meiner|äh|ähm|für|von|zur|zum|ich möchte"
    "|ich hätte gern|könntest du|können sie|kannst du|meine nummer ist|ich heiße",
    "et|mais|parce que|puisque|lorsque|avec|pour|dans|chez|des|les|une|euh|je voudrais|j'aimerais|est ce que|pouvez vous"
    "|peux tu|je m'appelle|mon numéro est",
    "pero|porque|aunque|cuando|por|del|el|los|las|una|mi|quisiera|me gustaría|podrías|puedes|podría|puede|mi número es|me llamo",
)
_CLOSED_ENDS = phrases(
    # Whole in spite of such an end, or of a preposition.
    "think so|hope so|that so|believe so|guess so|suppose so|afraid so|told you so|said so|say so|do so|or so|so so|and so on|so on"
    "|and so forth|even so|if so|go on|come on|come in|come over|carry on|move on|hold on|hang on|later on|early on|from now on"
    "|from then on|what's on|going on|went on|goes on|let me in|i'm in|count me in|you and me|ever since|long since|what if|as well"
    "|just because"
    "|i'm with you|on and on|in and out|to and fro|what for|how about|where to|where from|who with|by and by|way in"
    "|vitamin a|plan a|type a|grade a|an a|you're on|ja und|na und"
)
_ASKED_WHOLE = phrases("and|and then|or|but|because|so|such as|und|oder|et|可是|但是|所以|然后|因为")
"""Short questions that would be openings without their question mark."""

_LEADS = phrases("okay|ok|yeah|well|um|uh|so|oh|and|but|right|hey|please|嗯|好|好的|那")
_OPENINGS = phrases(
    "first|firstly|second|secondly|third|thirdly|next|then|also|finally|first of all|number one|number two|number three|step one"
    "|for one thing|for example|on the one hand|on the other hand|well|so|basically|actually|anyway|anyways|like|you know"
    "|i think|i guess|i want|i need|i have|i wanted|i just|i just wanted|i'd|i'll|i'm|i|i was|we were|you're|we're|they're"
    "|there's|there are|this is|that is|it's|it's like|it is|let's|so i|tell me|please tell me|because i|if i|if you",
    "第一|第二|第三|首先|其次|那个|那個|这个|這個|那|我是|我叫|我想|我要|我想要|我需要|这是|這是|请|請",
)
"""With these as all of a sentence a speaker has only begun."""

_SAID_FOR_SHORT = phrases("next|also|actually|anyway|you know|这个|這個|那个|那個")
"""Of these, those that answer a question."""

_COPULAS = vocabulary("is are was were be equals contains includes costs means")
_POSSESSED = vocabulary("my your our their his her the this these")
_PRONOUNS = vocabulary("i you he she it we they this that those these one")
_INDIRECT = vocabulary("what who whom whose which where when how why whatever wherever whoever")

_CONDITIONS = vocabulary("if when whenever while although though once unless until after before since as because")
_TIMES = vocabulary("after before until since")
_NOUN_OPENERS = vocabulary("the this that these those my your our his her their a an")
_SUBJECTS = vocabulary(
    "i you he she it we they i'm you're he's she's it's we're they're i've you've there there's the this that these those my",
    "your our his her their a an someone somebody everyone people",
)
_CONDITION_MOST_WORDS = 7
"""A longer one has its consequence in it, even where the recogniser set no comma between them."""
_WHOLE_CONDITIONS = phrases("if you want|if you like|if you wish|if you must|if you insist|if you say so|if it helps")
_WHOLE_MOST_WORDS = 3
"""So short, and with a full stop, it is a time ("before the meeting") or a remark ("as I said", "if you can")."""

_ANNOUNCED = re.compile(
    r"\b(?:have|had|got|want|wanted|need|see|are|know) (?:two|three|four|five|several|some|a few|a couple of) "
    r"(?:more |other )?(?:questions|things|points|reasons|options|ideas|problems|requests|wishes|topics)$"
)
"""Who counts what they have to say has not said it."""

_ITEM_AFTER_STATEMENT = re.compile(r"[^.?!,\s]\.\s+[^\s.,?!]+$")
_AFTER_PLACE = re.compile(r"\b(?:in|from|near|at) [^\W\d_][^\s.]*\.\s+\S+$")
"""What follows a place says where that is ("I live in Ulm. Germany")."""
_SAID_ALONE = phrases(
    "please|thanks|okay|ok|yes|no|yeah|yep|nope|right|sure|alright|bye|goodbye|hello|hi|hey|sorry|stop|wait|now|today|tomorrow"
    "|tonight|really|exactly|absolutely|definitely|perfect|correct|done|enough|great|good|fine|cool|nice|wow|maybe|never|always"
    "|honestly|seriously|period|continue|again|quickly|ever|though|too|parley|danke|bitte|ja|nein|merci|oui|non|gracias|sí"
)
"""Sentences of one word that are no item of a list."""


def sounds_unfinished(words: str) -> bool:
    """True when a speaker would go on after ``words``: they end in a conjunction, an article, a filler, an opened list,
    digits with more to come. Made to miss rather than to fire on a whole sentence."""
    return ending(words) is not Ending.WHOLE


def ending(words: str) -> Ending:
    """How far ``words``, the utterance so far as it was recognised, have come to an end."""
    words = words.strip()[-_LAST_CHARACTERS:]
    if not (said := plain(words)):
        return Ending.WHOLE
    if _BROKEN_OFF.search(words):
        return Ending.OPEN
    bare = words.rstrip(_MARKS)
    sentence, clause = plain(_SENTENCES.split(bare)[-1]), plain(_CLAUSES.split(bare)[-1])
    asked, marked = words.endswith(("?", "？")), _FULL_STOP.search(words) is not None
    dangling = dangles(clause) and not ends_with(said, _CLOSED_ENDS)
    half = Ending.HALF if marked else Ending.OPEN
    if asked:
        if said in _ASKED_WHOLE or sentence in _OPENINGS or not (_ends_open(said) or dangling):
            return Ending.WHOLE
        return half if omits_verb(clause) else Ending.OPEN
    if said in _SAID_FOR_SHORT or (dangling and omits_verb(clause)):
        return half
    if (
        _ends_open(said)
        or sentence in _OPENINGS
        or after(sentence, _LEADS) in _OPENINGS
        or dangling
        or _lacks_predicate(clause)
        or _lacks_second_part(said)
        or _ANNOUNCED.search(bare.lower())
        or _is_item(bare, said)
    ):
        return Ending.OPEN
    if _lacks_consequence(words, said, marked):
        return half
    if still_dictating(words):
        return Ending.NUMBER if marked else Ending.OPEN
    return Ending.WHOLE


def _ends_open(said: tuple[str, ...]) -> bool:
    return ends_with(said, _OPEN_ENDS) > ends_with(said, _CLOSED_ENDS)


def _lacks_predicate(clause: tuple[str, ...]) -> bool:
    """ "My phone number is" and "the code is", but neither "yes, it is" nor "I don't know what the code is"."""
    if len(clause) < 3 or clause[-1] not in _COPULAS:
        return False
    subject = clause[:-1]
    return subject[0] in _POSSESSED and subject[-1] not in _PRONOUNS and not _INDIRECT & {*subject}


def _lacks_second_part(said: tuple[str, ...]) -> bool:
    return said[:2] == ("not", "only") and not {"but", "also"} & {*said}


def _lacks_consequence(words: str, said: tuple[str, ...], marked: bool) -> bool:
    """ "If it rains tomorrow" wants its consequence, "when I was young" its story; "once a week" wants neither."""
    if not 3 <= len(said) <= _CONDITION_MOST_WORDS or "," in words or ends_with(said, _WHOLE_CONDITIONS):
        return False
    first, second = said[:2]
    if first not in _CONDITIONS or second not in _SUBJECTS or (first == "once" and second in ("a", "an", "every")):
        return False
    short = marked and len(said) <= _WHOLE_MOST_WORDS
    return not (
        short and ((first in _TIMES and second in _NOUN_OPENERS) or first == "as" or (first, second) == ("if", "you"))
    )


def _is_item(bare: str, said: tuple[str, ...]) -> bool:
    """ "We need eggs. Milk." Recognisers set full stops between the items of a list that is said slowly."""
    if not _ITEM_AFTER_STATEMENT.search(bare) or said[-1:] in _SAID_ALONE or _AFTER_PLACE.search(bare):
        return False
    if said[-2:-1] and (said[-2] in _PRONOUNS or said[-1].endswith("ly")):  # "We talked about it. Mostly."
        return False
    return len(said) > 3 and not consists_of(said[:-1], _SAID_ALONE)
