"""Puts RTP packets in order and decides how long a missing one is waited for. Pure: no clock, no sockets.

Nothing is held back while packets come in order: what the user says is not played, only listened to,
so there is no jitter to smooth and no latency to pay for it, nor any to win back after a loss.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Packet = TypeVar("Packet")

PATIENCE_S = 0.05
"""How long a gap is waited for: two and a half packets."""
_LONGEST_GAP = 3
"""Packets; a longer gap is lost, not late: its first packet is overdue by more than the patience already."""
_MAX_HELD = 16
_RESTART_AHEAD = 1000
_RESTART_BEHIND = 100
"""A jump of the sequence number by more than these is a new stream, not a loss or a late packet (cf. RFC 3550 A.1)."""
_MODULUS = 1 << 16


class Reorderer(Generic[Packet]):
    """Feed packets with ``push``; when ``deadline`` has passed, call ``expire``. Both give packets in order."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._held: dict[int, Packet] = {}
        self.deadline: float | None = None
        """When the gap in front of the held packets will be given up; None while there is none."""
        self.lost = 0
        """Packets given up on so far."""

    def push(self, sequence: int, packet: Packet, now: float) -> list[Packet]:
        """What can be released now that packet ``sequence`` (RFC 3550, 16 bits, wraps) has arrived at ``now`` (s)."""
        if self._next is None:
            self._next = sequence
        ahead = _ahead(sequence, self._next)
        if ahead > _RESTART_AHEAD or ahead < -_RESTART_BEHIND:
            return [*self.restart(), *self.push(sequence, packet, now)]
        if ahead < 0 or sequence in self._held:  # too late, or a duplicate
            return []
        return self._accept(sequence, packet, now)

    def expire(self, now: float) -> list[Packet]:
        """Give up the gap if its time is over; what was held behind it."""
        if self.deadline is None or now < self.deadline:
            return []
        self._skip_gap()
        return self._release_run(now)

    def _accept(self, sequence: int, packet: Packet, now: float) -> list[Packet]:
        self._held[sequence] = packet
        released = self._release_run(now)
        if self._gap() > _LONGEST_GAP or len(self._held) >= _MAX_HELD:
            self._skip_gap()
            released += self._release_run(now)
        return released

    def _release_run(self, now: float) -> list[Packet]:
        assert self._next is not None
        released = []
        while self._next in self._held:
            released.append(self._held.pop(self._next))
            self._next = (self._next + 1) % _MODULUS
        if not self._held:
            self.deadline = None
        elif released or self.deadline is None:
            self.deadline = now + PATIENCE_S
        return released

    def _gap(self) -> int:
        """How many packets are missing in front of those held."""
        base = self._next or 0
        return min((_ahead(sequence, base) for sequence in self._held), default=0)

    def _skip_gap(self) -> None:
        assert self._next is not None
        gap = self._gap()
        self.lost += gap
        self._next = (self._next + gap) % _MODULUS

    def restart(self) -> list[Packet]:
        """A new stream begins with the next packet; what was held of the old one."""
        base = self._next or 0
        released = [self._held[key] for key in sorted(self._held, key=lambda sequence: _ahead(sequence, base))]
        self._held.clear()
        self._next = None
        self.deadline = None
        return released


def _ahead(sequence: int, base: int) -> int:
    """Signed distance from ``base`` to ``sequence`` on the 16-bit circle."""
    return (sequence - base + _MODULUS // 2) % _MODULUS - _MODULUS // 2
