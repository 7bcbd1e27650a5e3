"""Which words of an utterance are certain while it is still being spoken.

LocalAgreement-2 (Liu, Spanakis and Niehues, "Low-latency sequence-to-sequence speech recognition and translation by
partial hypothesis selection", Interspeech 2020): what two successive hypotheses begin with alike is confirmed.
"""

from __future__ import annotations

from app.dialogue.words.plain import words_of


def agreed(previous: str, latest: str, confirmed: str) -> str:
    """``confirmed`` and the words after it on which ``previous`` and ``latest`` agree, in ``latest``'s spelling.

    The last word of a hypothesis may have been cut by the end of the sound, so it waits until both go on after it.
    The result always begins with ``confirmed``; should the recogniser change its mind about that, nothing is added.
    """
    before, now, known = words_of(previous), words_of(latest), words_of(confirmed)
    alike = 0
    while alike < min(len(before), len(now)) and before[alike].plain == now[alike].plain:
        alike += 1
    alike = min(alike, len(before) - 1, len(now) - 1)
    if alike <= len(known) or any(old.plain != new.plain for old, new in zip(known, now, strict=False)):
        return confirmed
    begin = now[len(known) - 1].end if known else now[0].start
    addition = latest[begin : now[alike - 1].end]
    if known and confirmed[known[-1].end :].strip():  # its last word has its punctuation already
        addition = latest[now[len(known)].start : now[alike - 1].end]
        addition = addition if confirmed[-1].isspace() or begin == now[len(known)].start else f" {addition}"
    return confirmed + addition
