"""Random numbers as ``rand`` of the GNU C library gives them, which CNTK's HTKMLFReader draws its order with."""

from __future__ import annotations

_MOST = 2**31 - 1
"""What C calls RAND_MAX."""
_DROPPED = 310
"""Numbers that are dropped after seeding."""


class GnuRandom:
    """The numbers of ``rand()`` after ``srand(seed)``.

    The generator is an additive feedback of 31 words: each new one is the sum of those 3 and 31 places before it,
    modulo 2**32, and its lowest bit is dropped. The first words come from x -> 16807 x modulo 2**31 - 1.
    """

    def __init__(self, seed: int) -> None:
        word = seed & 0xFFFFFFFF or 1
        words = [word]
        if word >= 2**31:
            word -= 2**32
        for _ in range(30):
            # C's division rounds towards zero, which matters for a seed that C takes for negative.
            high = abs(word) // 127773 * (1 if word >= 0 else -1)
            word = 16807 * (word - 127773 * high) - 2836 * high
            if word < 0:
                word += _MOST
            words.append(word)
        self._words = words
        self._at = 3
        for _ in range(_DROPPED):
            self.next()

    def next(self) -> int:
        """Return the next number, below 2**31."""
        at = self._at
        word = (self._words[at] + self._words[at - 3]) & 0xFFFFFFFF
        self._words[at] = word
        self._at = (at + 1) % 31
        return word >> 1

    def between(self, begin: int, end: int) -> int:
        """Return ``begin <= number < end`` as CNTK makes it of two numbers.

        Their product and sum overflow 32 bits, and a negative result becomes a large one of 64 bits.
        """
        word = (self.next() * _MOST) & 0xFFFFFFFF
        word = (word + self.next()) & 0xFFFFFFFF
        if word >= 2**31:
            word += 2**64 - 2**32
        return begin + word % (end - begin)
