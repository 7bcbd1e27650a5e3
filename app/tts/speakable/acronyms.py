"""Which capitals are spelled ("FBI"), which are read as a word ("NASA"), and which only shout ("STOP")."""

from __future__ import annotations

import re

from app.tts.speakable.tracked import Tracked

_AS_WORDS = {
    "JSON": "Jason",
    "GUI": "gooey",
    "JPEG": "jay peg",
    "MPEG": "em peg",
    "ASCII": "askey",
    "YAML": "yammel",
    "UNESCO": "Unesco",
    "UNICEF": "Unicef",
    "FIFA": "Feefa",
    "CRUD": "crud",
    "WIFI": "Wi-Fi",
    "SCOTUS": "Scotus",
    "POTUS": "Potus",
    "COVID": "COVID",
}
"""Those that voices get wrong as they are written."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORDS = _set(
    "NASA NATO RAM ROM GIF PIN SIM AIDS SARS MERS OPEC ASEAN NAFTA UEFA NASDAQ OSHA FEMA IKEA LEGO BIOS LAN WAN "
    "ZIP LASER RADAR SONAR SCUBA COBOL CUDA LIDAR SWAT CAPTCHA REST SOAP DARPA CERN PETA FOMO YOLO IMAX VISA "
    "NIMBY BASIC ARM BERT LLAMA AM AN AS AT BE BY DO GO HA HE HI HO IF IN IS IT ME MY NO OF OH OK ON OR OX SO TO "
    "UP WE YE YO ACT ADD AGE AGO AIM AIR ALL AND ANY ARE ART ASK ATE BAD BAG BAN BAR BAT BED BEE BET BIG BIN BIT "
    "BOX BOY BUS BUT BUY BYE CAN CAP CAR CAT COW CRY CUP CUT DAD DAY DID DIE DIG DOG DRY DUE EAR EAT EGG END EYE "
    "FAN FAR FAT FEW FIT FIX FLY FOR FOX FUN GAS GET GOD GOT GUN GUY HAD HAS HAT HER HEY HIM HIS HIT HOT HOW HUG "
    "ICE ILL ITS JAM JOB JOY KEY KID LAW LAY LEG LET LIE LIP LOT LOW MAD MAN MAP MAY MEN MET MIX MOM MUD NET NEW "
    "NEXT NOR NOT NOW NUT ODD OFF OIL OLD ONE OUR OUT OWE OWN PAN PAY PEN PET PIE PIG POT PUT RAN RAW RED RID ROW "
    "RUN SAD SAT SAW SAY SEA SEE SET SEX SHE SIT SIX SKY SON SUN TAX TEA TEN THE TIE TIP TOE TOO TOP TOY TRY TWO "
    "USE VAN WAR WAS WAY WET WHO WHY WIN WON YES YET YOU ZOO"
)
"""Read as they stand: acronyms that are words by now, and short words, which may be written in capitals."""

_SPELLED = _set(
    "US USA UK EU UN UAE AI API AWS IBM CIA FBI IRS ATM CEO CFO CTO COO CIO GPU CPU TPU NPU UI UX ID IP IQ EQ ICU "
    "IOU IPO ISO ISP IVF LED MIT MBA MRI UFO URL URI USSR UV VIP AC EV EMT EKG ECG EEG ABC ESPN AOL AMD ADHD DIY "
    "FAQ ETA EST UTC ASAP AKA RIP SOS DNA RNA GDP IMF AMA NBA NFL NHL UCLA USC NYU USB IDE ORM OOP IO OS PDA SUV "
    "IUD UPS USPS EPA FDA FAA NSA SEC FCC NIH NGO ETF IRA APR APY ROI KPI SEO SAAS CRM ERP IOT AR VR XR OLED EPUB "
    "ADSL ESA ISS EULA LOL OMG IDK AFK IMDB OECD UNHCR AAA AARP ACLU NAACP IEEE AUX EDT CET CEST IPA IPV LLM AGI "
    "UTF OCR APA MLA"
)
_SPELLED_UNLESS_SHOUTED = frozenset({"US", "AR", "AC", "OS"})
_IN_CONTEXT = re.compile(
    r"(?<=[Tt]he )(WHO)\b|\b(IT)(?= (?:support|department|team|staff|services?|industry|manager|sector|infrastructure|jobs?|company|security)\b)"
)
_VOWEL = re.compile("[AEIOUY]")
_CAPITALS = re.compile(r"(?<![A-Za-z.'’])([A-Z]{2,6})(s?)(?![A-Za-z]|'[a-rt-z]|\.[A-Z])")
_BEFORE = re.compile(r"([A-Za-z']+)[^A-Za-z]*$")
_AFTER = re.compile(r"[^A-Za-z]*([A-Za-z']+)")
_PAIR = re.compile(r"(?<![\w/])([A-Z]{2,6})/(?=[A-Z]{2,6}(?![\w/]))")
_LETTERS = re.compile(r"(?<![\w/.])([A-Z])/([A-Z])(?![\w/])")


def say_acronyms(text: Tracked) -> Tracked:
    """ "the FBI uses JSON" -> "the F.B.I uses Jason".

    Letters joined by dots, without one at the end, are what voices spell: "F B I" would turn an A into the article.
    """
    text = text.sub(_LETTERS, lambda match: f"{match.group(1)}.{match.group(2)}").sub(_PAIR, lambda m: f"{m.group(1)} ")
    text = text.sub(_IN_CONTEXT, lambda match: spell(match.group()))
    return text.sub(_CAPITALS, _capitals)


def spell(letters: str) -> str:
    """ "pdf" -> "P.D.F"."""
    return ".".join(letters.upper())


def _capitals(match: re.Match[str]) -> str | None:
    letters, plural = match.groups()
    if letters in _AS_WORDS:
        return _AS_WORDS[letters] + plural
    if letters in _WORDS or (letters in _SPELLED_UNLESS_SHOUTED and _shouted(match)):
        return None
    beside_digit = match.string[match.end() :].lstrip("-")[:1].isdigit()
    if letters in _SPELLED or beside_digit or not _VOWEL.search(letters) or (len(letters) <= 3 and not _shouted(match)):
        # "the APIs": voices spell capitals with a plural s by themselves.
        return None if plural else spell(letters)
    return None


def _shouted(match: re.Match[str]) -> bool:
    """Whether a neighbour is a longer word in capitals, so that these are only loud."""
    before = _BEFORE.search(match.string, max(0, match.start() - 24), match.start())
    after = _AFTER.match(match.string, match.end())
    return any(
        word is not None
        and word.group(1).isupper()
        and len(word.group(1)) > 1
        and word.group(1) not in _SPELLED
        and bool(_VOWEL.search(word.group(1)))
        for word in (before, after)
    )
