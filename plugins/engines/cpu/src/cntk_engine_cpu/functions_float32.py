"""Exponential and its relatives in single precision, for compiled kernels: polynomials that vectorise.

The exponential is that of the Cephes library (``expf``: range reduction by ln 2 in two parts, degree 5), relative
error 3e-7; the hyperbolic tangent is a rational function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

F = np.float32


def _between(x: Any, low: Any, high: Any) -> Any:
    # In this order each line is one instruction, and NaN stays.
    c = high if high < x else x
    return low if low > c else c


def _parts(c: Any) -> Any:
    """Exponent n and factor p with e^c = p 2^n."""
    n = np.floor(c * F(1.44269504088896341) + F(0.5))
    r = c - n * F(0.693359375)
    r = r + n * F(2.12194440e-4)
    p = F(1.9875691500e-4)
    p = p * r + F(1.3981999507e-3)
    p = p * r + F(8.3334519073e-3)
    p = p * r + F(4.1665795894e-2)
    p = p * r + F(1.6666665459e-1)
    p = p * r + F(5.0000001201e-1)
    return np.int32(n), p * (r * r) + r + F(1)


def exp(x: Any) -> Any:
    """Exponential function: 0 below -87, infinity above 88.72, NaN stays."""
    n, p = _parts(_between(x, F(-87), F(88.7228)))
    # 2^(n - 1) is a bit pattern for every n from -125 to 128; 2^128 is not.
    y = p * np.int32((n + np.int32(126)) << np.int32(23)).view(np.float32)
    y = F(np.inf) if x > F(88.7228) else y + y
    return F(0) if x < F(-87) else y


def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x); at least 6e-39."""
    n, p = _parts(_between(-x, F(-87), F(88)))
    return F(1) / (F(1) + p * np.int32((n + np.int32(127)) << np.int32(23)).view(np.float32))


def tanh(x: Any) -> Any:
    """Hyperbolic tangent: a rational function, odd over even, relative error 3e-7; NaN stays.

    Coefficients of a minimax approximation up to 7.905, where single precision rounds to 1 (as in the Eigen library).
    """
    c = _between(x, F(-7.90531110763549805), F(7.90531110763549805))
    z = c * c
    p = F(-2.76076847742355e-16)
    p = p * z + F(2.00018790482477e-13)
    p = p * z + F(-8.60467152213735e-11)
    p = p * z + F(5.12229709037114e-08)
    p = p * z + F(1.48572235717979e-05)
    p = p * z + F(6.37261928875436e-04)
    p = p * z + F(4.89352455891786e-03)
    q = F(1.19825839466702e-06)
    q = q * z + F(1.18534705686654e-04)
    q = q * z + F(2.26843463243900e-03)
    q = q * z + F(4.89352518554385e-03)
    return c * p / q


def erf(x: Any) -> Any:
    """Error function: a rational function, odd over even, relative error 5e-7; NaN stays.

    Coefficients of a minimax approximation up to 4, where single precision rounds to 1 (as in the Eigen library).
    """
    c = _between(x, F(-4), F(4))
    z = c * c
    p = F(-2.72614225801306e-10)
    p = p * z + F(2.77068142495902e-08)
    p = p * z + F(-2.10102402082508e-06)
    p = p * z + F(-5.69250639462346e-05)
    p = p * z + F(-7.34990630326855e-04)
    p = p * z + F(-2.95459980854025e-03)
    p = p * z + F(-1.60960333262415e-02)
    q = F(-1.45660718464996e-05)
    q = q * z + F(-2.13374055278905e-04)
    q = q * z + F(-1.68282697438203e-03)
    q = q * z + F(-7.37332916720468e-03)
    q = q * z + F(-1.42647390514189e-02)
    return _between(c * p / q, F(-1), F(1))
