"""All cases, by category. Names are stable: a failed one is run again with ``--case NAME``."""

from __future__ import annotations

from itertools import cycle

from app.bench.turns.cases import Background, Case, Echo, Excerpt, Gap, Hummed, Made, Must, Part, Phrase, Say, spoken
from app.bench.turns.sounds import Noise
from app.bench.turns.voices import Voice

GREETING = (
    "Welcome to the city museum. On the ground floor there are paintings from four centuries, a hall full of old "
    "clocks, and behind them a garden with a small pond. The doors are closed at six."
)
"""What the assistant is saying when it is spoken over; about nine seconds."""

_OVER_S = 2.2
"""In mid-sentence: a pause of the greeting would make any interruption look obeyed at once."""
_VOICES: tuple[Voice, ...] = ("woman", "man", "low")
_OTHERS: tuple[Voice, ...] = ("man", "low")
"""Over the assistant nobody speaks in its own voice."""

_QUESTIONS = (
    "What is the capital of France?",
    "How many days are there in a year?",
    "Can you tell me a short story about a fox?",
    "Where do penguins live?",
    "Why do cats purr when you touch them?",
    "What should I cook for dinner tonight?",
)
_STATEMENTS = (
    "I went to the park with my dog this morning.",
    "My sister is moving to Canada next month.",
    "Tell me something about the moon.",
    "I think it is going to rain today.",
    "Please explain how a bicycle works.",
)
_SHORT = ("Yes.", "No.", "Okay, sure.", "Thank you.", "Maybe later.", "Tock.")
"""The last is what a Polish "tak" sounds like; its spelling is not scored."""

_PAUSED: tuple[tuple[str, Voice, tuple[int, ...]], ...] = (
    ("I would like to book a table for, | four people on Friday evening.", "woman", (500,)),
    ("Please send it to the, | marketing team on Monday.", "man", (900,)),
    ("I was thinking, um, | maybe we could meet tomorrow.", "man", (1000,)),
    ("When I was young, | my family lived in a house near the river.", "woman", (300,)),
    ("If the weather is good, | we could go to the beach.", "low", (700,)),
    ("Can you help me with, uh, | a question about my garden?", "woman", (800,)),
    ("We bought a new car, and, | it is already making a strange noise.", "man", (1200,)),
    ("The thing I wanted to ask you is, | how long does it take to boil an egg?", "low", (600,)),
    ("My favorite color is, | blue.", "man", (1500,)),
    ("I would like to know, | what time the train leaves.", "man", (400,)),
    ("So, um, | yesterday I was at the, | at the library with a friend.", "man", (700, 500)),
    ("Because it was so late, | I decided to stay at home.", "low", (1000,)),
)
_LISTS: tuple[tuple[str, Voice, tuple[int, ...]], ...] = (
    ("We need eggs, | milk, | butter, | and a loaf of bread.", "man", (500, 600, 400)),
    ("I have been to Spain, | Italy, | Greece, | and Norway.", "woman", (400, 700, 500)),
    ("My children are called Anna, | Peter, | and Maria.", "man", (700, 800)),
)
_NUMBERS: tuple[tuple[str, Voice, tuple[int, ...]], ...] = (
    ("My number is five five five, | oh one two, | three four five six.", "man", (600, 600)),
    ("The order number is seven three, | nine one, | eight two.", "woman", (700, 700)),
    ("You can call me at two one two, | six six four, | seven six six five.", "man", (900, 900)),
    ("The code is four, | nine, | one, | seven.", "man", (500, 500, 500)),
    ("The house number is nine, | and the door code is two eight one.", "low", (800,)),
)
_MONOLOGUE: tuple[Part, ...] = (
    Say("Last summer we went on a long trip through the mountains, | and I still think about it almost every day.", "man", (600,)),
    Gap(250),
    Say("We started early in the morning, | when it was still dark outside, | and nobody else was on the road.", "man", (400, 700)),
    Gap(300),
    Say("After a few hours we came to a small village, | where an old woman sold bread, cheese and honey.", "man", (500,)),
    Gap(250),
    Say("She told us that the bridge was closed, and, um, | that we would have to walk around the lake.", "man", (900,)),
    Gap(300),
    Say("So now I am planning to go back there, | and I wonder what I should bring with me.", "man", (500,)),
)  # fmt: skip
_MM_HM, _UH_HUH = Hummed("mm-hm", 120.0), Hummed("uh-huh", 200.0)
_BACKCHANNELS = (_MM_HM, "Yeah.", "Right.", "Okay.", "I see.", _UH_HUH, "Yeah, okay.", "Right, right.")
_BARE_STOPS = ("Stop.", "Wait.", "No.", "Stop talking.", "Hold on a second, please.")
_INTERRUPTIONS = (
    "No, I meant Tuesday.",
    "Sorry, I wanted to ask about the weather.",
    "What time is it in Tokyo?",
    "Actually, can you tell me about dogs instead?",
    "Excuse me, I have another question.",
)
_NOISES: tuple[tuple[Noise, float, float], ...] = (
    ("cough", 0.8, 0.0),
    ("click", 1.0, -6.0),
    ("typing", 2.5, -10.0),
    ("pink", 2.0, -10.0),
    ("hiss", 0.4, 0.0),
)
_ALONE: tuple[tuple[Noise, float, float], ...] = (
    ("cough", 1.0, 0.0),
    ("typing", 5.0, -8.0),
    ("music", 6.0, -3.0),
    ("fan", 6.0, -6.0),
    ("pink", 6.0, -3.0),
    ("click", 3.0, -3.0),
)


def catalogue() -> tuple[Case, ...]:
    """Every case, whether or not this machine has all that it is made of."""
    return (
        *_plain("question", _QUESTIONS),
        *_plain("statement", _STATEMENTS),
        *_plain("short", _SHORT),
        *_said("pause", _PAUSED),
        *_said("list", _LISTS),
        *_said("number", _NUMBERS),
        *_monologues(),
        *_real(),
        *_in_noise(),
        *_over("backchannel", Must.PLAY_ON, _BACKCHANNELS),
        *_over("stop", Must.STOP, _BARE_STOPS),
        *_over("interruption", Must.STOP, _INTERRUPTIONS),
        *_noises_over(),
        *_nothing(),
        *_echoes(),
    )


def quick(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """A third of them: the first of every three of each category."""
    place: dict[str, int] = {}
    chosen = []
    for case in cases:
        place[case.category] = place.get(case.category, -1) + 1
        if place[case.category] % 3 == 0:
            chosen.append(case)
    return tuple(chosen)


def _plain(category: str, texts: tuple[str, ...]) -> list[Case]:
    return [
        Case(
            f"{category}-{number}",
            category,
            Must.ANSWER,
            (Say(text, voice),),
            None if text == "Tock." else spoken(text),
        )
        for number, (text, voice) in enumerate(zip(texts, cycle(_VOICES), strict=False), 1)
    ]


def _said(category: str, scripts: tuple[tuple[str, Voice, tuple[int, ...]], ...]) -> list[Case]:
    return [
        Case(f"{category}-{number}", category, Must.ANSWER, (Say(text, voice, pauses_ms),), spoken(text))
        for number, (text, voice, pauses_ms) in enumerate(scripts, 1)
    ]


def _monologues() -> list[Case]:
    words = " ".join(spoken(part.text) for part in _MONOLOGUE if isinstance(part, Say))
    return [
        Case("monologue-1", "monologue", Must.ANSWER, _MONOLOGUE, words),
        Case(
            "monologue-2",
            "monologue",
            Must.ANSWER,
            (Excerpt(39.0, 62.1),),
            "The sample configuration also has a single user with extension 1234 and password 4242. That user is "
            "configured to ring the console when their extension is dialed. If you dial 1234 you can try to ring the "
            "console. If the console is busy or unavailable you will be given the option to leave voicemail.",
        ),
    ]


def _real() -> list[Case]:
    phrases = (
        ("hello_world", "Hello world."),
        ("quick_brown_fox", "The quick brown fox jumps over the lazy dog."),
        ("counting", "One two three four five six seven eight nine ten."),
    )
    excerpts = (
        (68.8, 72.4, "You can press the pound key to disconnect from the PBX."),
        (32.0, 38.7, "This test is most useful when you have connected to this asterisk server from a remote location."),
        (19.7, 31.5, "In order for this test to work, you will need to be connected to the internet and have at least "
         "a 28.8 kilobyte modem. To execute an echo test dial 600."),
    )  # fmt: skip
    return [
        *(Case(f"real-{name}", "real", Must.ANSWER, (Phrase(name),), words) for name, words in phrases),
        *(
            Case(f"real-telephone-{number}", "real", Must.ANSWER, (Excerpt(start_s, end_s),), words)
            for number, (start_s, end_s, words) in enumerate(excerpts, 1)
        ),
    ]


def _in_noise() -> list[Case]:
    texts = (
        "What do you know about whales?",
        "I am looking for a good book, | something about history.",
        "How far is it to the moon?",
    )
    kinds: tuple[Noise, ...] = ("pink", "fan")
    return [
        Case(
            f"{kind}-{snr_db}db",
            "in noise",
            Must.ANSWER,
            (Say(text, voice, (500,) if "|" in text else ()),),
            spoken(text),
            background=Background(kind, snr_db),
        )
        for kind in kinds
        for snr_db, text, voice in zip((20, 10, 5), texts, _VOICES, strict=True)
    ]


def _over(category: str, must: Must, said: tuple[str | Hummed, ...], echo: Echo | None = None) -> list[Case]:
    """``words`` are scored only where they must become a turn."""
    bare = category in ("backchannel", "stop")
    return [
        Case(
            f"{category}-{number}",
            category,
            must,
            (Say(part, voice) if isinstance(part, str) else part,),
            None if bare or not isinstance(part, str) else spoken(part),
            over_s=_OVER_S,
            echo=echo,
        )
        for number, (part, voice) in enumerate(zip(said, cycle(_OTHERS), strict=False), 1)
    ]


def _noises_over() -> list[Case]:
    return [
        Case(f"{kind}-over", "noise over", Must.PLAY_ON, (Made(kind, seconds, level_db),), over_s=_OVER_S)
        for kind, seconds, level_db in _NOISES
    ]


def _nothing() -> list[Case]:
    return [
        Case("silence-alone", "nothing", Must.NOTHING, (Gap(5000),)),
        *(
            Case(f"{kind}-alone", "nothing", Must.NOTHING, (Made(kind, seconds, level_db),))
            for kind, seconds, level_db in _ALONE
        ),
    ]


def _echoes() -> list[Case]:
    """Of a greeting with nobody speaking, of an answer, and under what the user says over it."""
    return [
        *(
            Case(f"echo-{delay_ms}ms", "echo", Must.PLAY_ON, (Gap(1000),), over_s=_OVER_S, echo=Echo(delay_ms))
            for delay_ms in (80, 140, 200)
        ),
        Case(
            "echo-of-answer",
            "echo",
            Must.ANSWER,
            (Say("What is your favorite season?", "man"),),
            "What is your favorite season?",
            echo=Echo(120),
        ),
        *(
            Case(name, "echo", must, (said,), over_s=_OVER_S, echo=Echo(delay_ms))
            for name, must, said, delay_ms in (
                ("echo-stop", Must.STOP, Say("Stop.", "man"), 120),
                ("echo-wait", Must.STOP, Say("Wait a moment.", "low"), 160),
                ("echo-backchannel", Must.PLAY_ON, _MM_HM, 100),
            )
        ),
    ]
