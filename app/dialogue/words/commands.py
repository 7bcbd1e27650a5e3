"""What people say to steer the talking itself: stop, go on, goodbye."""

from __future__ import annotations

from app.dialogue.words.backchannel import is_backchannel
from app.dialogue.words.plain import Phrases, after, beginning, consists_of, phrases, short, starts_with

STOPS = phrases(
    "stop|wait|no|nope|nah|nuh uh|hold on|hold it|hang on|hold up|enough|that's enough|that is enough|that'll do|that will do"
    "|shut up|shut it|shut your mouth|be quiet|be silent|quiet|quiet please|silence|hush|shush|sh|shh|pause|cancel"
    "|never mind|nevermind|forget it|cut it out|zip it|knock it off|not now|one moment|one second|one sec|just a moment"
    "|just a second|just a sec|just a minute|a moment|give me a second|give me a moment|excuse me|let me stop you"
    "|don't talk|quit it|time out|you can stop|you may stop",
    "停|等|不|别|別|够了|夠了|闭嘴|閉嘴|安静|安靜|住口|住嘴|打住|慢着|慢著|且慢|算了|取消|暂停|暫停|行了|好了好了|先别|稍等|我说停",
    "stopp|halt|warte|warten sie|moment|einen moment|nein|genug|sei still|sei ruhig|ruhe|hör auf|hören sie auf|schluss",
    "arrête|arrêtez|attends|attendez|non|tais toi|taisez vous|assez|ça suffit|un moment|une seconde|chut",
    "alto|espera|espere|espérate|basta|cállate|silencio|un segundo|detente|deténgase|ya basta",
)
"""Words that interrupt by themselves, at the beginning of whatever is said."""

_HUSHES = phrases(
    "stop|stop it|stop talking|stop that|stop now|please stop|that's enough|that is enough|enough|shut up|shut it|be quiet"
    "|be silent|quiet|silence|hush|shush|sh|shh|pause|cancel|cut it out|zip it|knock it off|stop right there|enough already"
    "|you can stop|you may stop|you can stop now|you can stop talking",
    "停|停下|停下来|停下來|停止|够了|夠了|闭嘴|閉嘴|安静|安靜|住口|住嘴|打住|别说了|別說了|别说话|別說話|不要说了|不要說了|不要再说了|不要再說了",
    "stopp|genug|sei still|sei ruhig|ruhe|hör auf|schluss|arrête|arrêtez|tais toi|taisez vous|assez|ça suffit|chut",
    "alto|basta|cállate|silencio|ya basta",
)
"""Of these, those that ask for silence and for nothing else: "wait" and "no" have something to follow."""

_WAITS = phrases(
    "wait|wait a moment|wait a second|wait a minute|hold on|hold on a second|hold on a moment|hold on a minute|hold it|hang on"
    "|hang on a second|hang on a moment|one moment|one second|one sec|just a moment|just a second|just a sec|just a minute"
    "|give me a second|give me a moment|a moment",
    "等|等等|等一下|稍等|稍等一下|等一会儿|慢着|慢著|且慢",
    "warte|warten sie|moment|einen moment|attends|attendez|un moment|une seconde|espera|espere|un momento|un segundo",
)
"""Whoever says no more than this is about to go on; being spoken to meanwhile is the last thing they want."""

_ONLY_STOPS = phrases(
    # Cut off in mid-word or mid-phrase: the decision is taken some 400 ms into the utterance.
    "sto|st|wai|hol|hold|hang|shut|be|be qui|that's en|that's an|never|just a|one",
    # What Whisper base has written for a lone "stop" (Piper's voice, and any voice cut after 350 ms), "stop talking",
    # "shut up", "quiet please", "hang on" and "no no". Nobody says them by themselves to someone who is speaking.
    "star|start|stopped|start top|start talk|start talking|stop top|shara|quite|quite please|and on|no number|no nam",
    "para|pare|para ya",  # also Spanish for "for"
)
"""The same, but only as the whole of what was said."""

_NOT_STOPS = phrases(
    "no problem|no worries|no doubt|no kidding|no wonder|no way|no idea|no sweat|no biggie|stop by|non stop|wait for it",
    "不错|不錯|不客气|不客氣|不用谢|不用謝|别人|別人|别的|別的|等于|等於|停车|停車|停不|等不及|不过|不過|不要停|不用停|别停|別停"
    "|不得|不容易|不简单|不簡單|不着急|不用急|别担心|別擔心",
)
"""Beginnings that look like the above and are none."""

_BEFORE = phrases(
    "okay|ok|oh|ah|um|er|hey|please|so|well|sorry|alright|right|just|yeah|yes|and|but|hi|i said|can you|could you|would you"
    "|all right|actually|whoa|yo|thanks|thank you|thank you very much|parley",
    "好|好的|好了|嗯|啊|哎|请|請|你|快|先|谢谢|謝謝|bitte|s'il te plaît|por favor",
)
"""Courtesy and hesitation may come before a command."""

_AROUND_HUSHES = _BEFORE | phrases("no|nope|now|right now|danke|merci|gracias")
"""...and around a call for silence what only lends weight to it."""

_MUST_GO = (
    "i have to|i've got to|i got to|i gotta|gotta|got to|i need to|i should|i must|i'm going to|i'm gonna|i better|i'll"
)
_LEAVING = "|".join(
    f"{must} {leave}" for must in _MUST_GO.split("|") for leave in ("go", "run", "leave", "be going", "let you go")
)

_FAREWELLS = phrases(
    "bye|bye bye|byebye|buh bye|goodbye|good bye|farewell|so long|see you|see ya|see you later|see you soon|see you then"
    "|see you tomorrow|see you next time|see you around|catch you later|talk to you later|talk to you soon|talk later"
    "|talk soon|speak to you later|speak soon|talk to you tomorrow|i'll talk to you tomorrow|good night"
    "|goodnight|take care|cheerio|ciao|until next time|till next time"
    "|have a good one|have a nice day|have a good day|have a great day|have a good night|have a nice evening"
    "|have a good evening|have a nice weekend|have a good weekend|have a great weekend|peace out",
    # Asking to be rung off is a goodbye in what follows from it.
    "hang up|you can hang up|hang up now|you may hang up|please hang up|end the call|end call|hang up the phone",
    "再见|再見|拜拜|拜|再会|再會|回头见|回頭見|回见|明天见|明天見|下次见|下次見|一会儿见|晚安|挂了|掛了|我挂了|我掛了|先挂了|先掛了"
    "|我先挂了|我先掛了|不聊了|下次再聊|改天再聊|改天聊|回聊|慢走|保重",
    "tschüss|tschüs|tschau|auf wiedersehen|wiedersehen|auf wiederhören|bis bald|bis später|bis morgen|bis dann|gute nacht"
    "|mach's gut|schönen tag noch",
    "au revoir|à bientôt|à plus|à plus tard|à demain|à tout à l'heure|bonne nuit|bonne journée|bonne soirée|adieu",
    "adiós|adios|hasta luego|hasta mañana|hasta pronto|hasta la vista|nos vemos|chao|chau|que tengas un buen día",
)

_AROUND_FAREWELLS = phrases(
    "okay|ok|thanks|thank you|thank you very much|thank you so much|thanks a lot|many thanks|thanks so much|cheers|well"
    "|alright|all right|right|great|good|perfect|fine|cool|then|so|now|for now|and|yeah|yes|oh|um|uh|no|please|later"
    "|that's all|that is all|that's it|that was all|that will be all|that's everything|nothing else|i'm leaving|i'm off"
    "|i'm going now|i'm done|nice talking to you|it was nice talking to you|good talking to you|nice chatting with you"
    "|for your help|for everything|for the help|for the chat|for your time|everyone|everybody|all|my friend|mate|parley|dear"
    "|today|you too|again|hi",
    _LEAVING,
    "on|monday|tuesday|wednesday|thursday|friday|saturday|sunday|tomorrow|tonight|next week|next month|next year|next time"
    "|this evening|this afternoon|in the morning|in a bit|in a while|in a minute",
    "好|好的|好吧|嗯|谢谢|謝謝|谢谢你|謝謝你|谢谢您|多谢|多謝|那|那就|那么|先|这样|這樣|就这样|就這樣|吧|啦|了|哦|啊|呀|我走了|我先走了|我要走了|没事了|沒事了|今天|你|您",
    "danke|vielen dank|danke schön|ja|gut|also|na dann|bitte|merci|merci beaucoup|bon|alors|gracias|muchas gracias|bueno|pues",
)

_GO_ONS = phrases(
    "go on|go ahead|continue|carry on|keep going|keep talking|proceed|resume|go on with it|continue with that|you can continue"
    "|you can go on|you may continue|you may go on|you were saying|as you were saying|what were you saying|what are you saying"
    "|what were you going to say|what were you about to say|finish what you were saying|go back to what you were saying"
    "|continue what you were saying|continue where you left off|pick up where you left off|carry on where you left off"
    "|go on where you left off|continue from where you left off|where were we|where were you|i'm listening|finish your sentence"
    "|continue your story|go on with the story|continue the story|continue with the story|keep reading|keep speaking"
    "|don't stop|don't stop now|don't stop talking|continue from there|go on from there|continue reading",
    "继续|繼續|继续说|繼續說|继续讲|繼續講|继续吧|接着说|接著說|接着讲|接著講|接着|往下说|往下說|往下讲|说下去|說下去|讲下去|講下去|说吧|說吧|讲吧|你说|你說|你继续"
    "|你继续说|然后呢|然後呢|后来呢|後來呢|你刚才说什么|你剛才說什麼|你刚才说到哪了|你刚才说到哪儿了|刚才说到哪了|刚才说到哪儿了"
    "|别停|別停|别停下|別停下|不要停|不要停下|不要停下来|不要停下來|不用停|继续讲故事|繼續講故事",
    "weiter|mach weiter|machen sie weiter|erzähl weiter|sprich weiter|sprechen sie weiter|fahr fort|fahren sie fort"
    "|red weiter|was wolltest du sagen|was hast du gesagt",
    "continuez|vas y|allez y|poursuis|poursuivez|qu'est ce que tu disais|tu disais|vous disiez",
    "sigue|siga|continúa|continua|continúe|adelante|qué decías|qué estabas diciendo",
)

_AROUND_GO_ONS = phrases(
    "please|okay|ok|yes|yeah|yep|sure|alright|all right|right|sorry|i'm sorry|so|no|oh|um|uh|mm|hm|mhm|well|then|now|and|just"
    "|can you|could you|would you|you can|thanks|thank you|before|just now|before that|again|never mind|nevermind|my bad|with it"
    "|nope|nah|will you|sorry for interrupting|sorry for interrupting you|sorry to interrupt|sorry to interrupt you"
    "|sorry about that|i didn't mean to interrupt",
    "请|請|好|好的|嗯|对|那|那就|不好意思|对不起|吧|啊|呀|没事|沒事|没关系|沒關係|麻烦|麻煩",
    "bitte|ja|gut|entschuldigung|oui|pardon|s'il te plaît|s'il vous plaît|sí|por favor|perdón",
)


def is_stop(words: str) -> bool:
    """True when the user wants the assistant to be quiet: ``words`` begin with "stop", "wait", "no" and their like.

    Works on words cut off in mid-utterance. What was asked for in the same breath ("no, the other one") is still
    theirs to answer.
    """
    if asks_to_go_on(words) or is_backchannel(words):
        return False
    said = beginning(words)
    return any(
        rest in _ONLY_STOPS or (starts_with(rest, STOPS) > 0 and not starts_with(rest, _NOT_STOPS))
        for rest in (said, after(said, _BEFORE))
    )


def asks_for_silence(words: str) -> bool:
    """True when somebody who has just interrupted the assistant wants no answer: to be quiet, or to wait."""
    return is_hush(words) or is_wait(words)


def is_hush(words: str) -> bool:
    """True when somebody who has just interrupted the assistant asks for nothing but silence."""
    said = short(words)
    return said in _ONLY_STOPS or consists_of(said, _HUSHES, _AROUND_HUSHES)


def is_wait(words: str) -> bool:
    """True when somebody who has just interrupted the assistant asks for a moment, and for nothing else."""
    return consists_of(short(words), _WAITS, _AROUND_HUSHES)


def is_farewell(words: str) -> bool:
    """True when the whole turn is a goodbye, thanks and excuses included. Nobody asks one."""
    return not words.rstrip().endswith(("?", "？")) and _is_only(words, _FAREWELLS, _AROUND_FAREWELLS)


def asks_to_go_on(words: str) -> bool:
    """True when the user asks for nothing but that an interrupted reply be continued."""
    return _is_only(words, _GO_ONS, _AROUND_GO_ONS)


def _is_only(words: str, kind: Phrases, around: Phrases) -> bool:
    return consists_of(short(words), kind, around)
