"""Seals of messages: nobody but the other rank can have sent them, and none is missing, doubled or in another place."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from hashlib import blake2b

import attrs

SEAL = 16
"""Bytes of a seal."""


@attrs.define(eq=False)
class Seal:
    """Seals the messages that go over a connection in one direction, or checks them: keyed BLAKE2b (RFC 7693).

    Head and body of a message have a seal each, over the message's number as well, so that no length is believed that
    the other rank has not sent.

    Attributes:
        key: of this connection and direction.
        count: messages so far.
    """

    key: bytes = attrs.field(repr=False)
    count: int = 0

    def of_head(self, head: bytes) -> bytes:
        """Return the seal of a head, and go on to this message."""
        self.count += 1
        return self._begin(b"head", head).digest()

    def of_body(self) -> blake2b:
        """Return what makes the seal of the body of this message when it is given all its bytes."""
        return self._begin(b"body", b"")

    def _begin(self, person: bytes, data: bytes) -> blake2b:
        return blake2b(self.count.to_bytes(8, "little") + data, digest_size=SEAL, key=self.key, person=person)


is_same: Callable[[bytes, bytes], bool] = hmac.compare_digest
"""Whether two seals are the same; takes as long whatever they are."""
