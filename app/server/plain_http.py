"""http spoken to the https port: the answer is where to go, not silence.

asyncio shakes hands through ``SSLObject.do_handshake`` over two memory buffers, and ``ssl`` lets a context say which
class that is (``sslobject_class``). A client that begins with text instead of a TLS record is answered there.
"""

from __future__ import annotations

import re
import ssl
from typing import Any

_TLS_HANDSHAKE = 0x16
"""First byte of a client that speaks TLS (RFC 8446, section 5.1)."""
_MAX_HEAD = 8 * 1024
_REQUEST = re.compile(rb"^[A-Z]+ (/[!-~]*) HTTP/1\.[01]\r\n(?:.*\r\n)*?host:[ \t]*([\w.:\[\]-]+)[ \t]*\r\n", re.I)


class _Redirecting(ssl.SSLObject):
    """Shakes hands, or answers a plain request."""

    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    _is_tls = False
    _answered = False

    def do_handshake(self) -> None:
        if not self._is_tls:
            begun = self.incoming.read()
            if begun and begun[0] != _TLS_HANDSHAKE:
                self._answer(begun)
            self.incoming.write(begun)
            self._is_tls = bool(begun)
        super().do_handshake()

    def _answer(self, begun: bytes) -> None:
        """Raises SSLWantReadError, upon which asyncio sends what is in ``outgoing``; the client hangs up then, or
        asyncio does at the end of its time for handshakes."""
        if b"\r\n\r\n" not in begun and len(begun) < _MAX_HEAD and not self._answered:
            self.incoming.write(begun)
        elif not self._answered:
            self._answered = True
            self.outgoing.write(_response(begun))
        raise ssl.SSLWantReadError


class RedirectingContext(ssl.SSLContext):
    """A server's context that answers http by the same address with https."""

    sslobject_class = _Redirecting

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        wrapped = super().wrap_bio(incoming, outgoing, *args, **kwargs)
        assert isinstance(wrapped, _Redirecting)
        wrapped.incoming, wrapped.outgoing = incoming, outgoing
        return wrapped


def _response(head: bytes) -> bytes:
    """A redirect to the same address; only the advice where there is no address in ``head``."""
    text = b"This is Parley, and it speaks https here: write https:// in front of the address.\n"
    status, location = b"400 Bad Request", b""
    if found := _REQUEST.match(head):
        # Temporary: the port may speak http again tomorrow, and browsers keep permanent ones for ever.
        status, location = b"307 Temporary Redirect", b"location: https://" + found[2] + found[1] + b"\r\n"
    length = str(len(text)).encode()
    return (
        b"HTTP/1.1 " + status + b"\r\n" + location + b"content-type: text/plain; charset=utf-8\r\ncontent-length: "
        + length + b"\r\nconnection: close\r\n\r\n" + text
    )  # fmt: skip
