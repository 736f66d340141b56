"""Tail probabilities of Fisher's F and of chi-squared, and normal scores, for compiled code.

These functions are compiled within the kernels that call them; called from Python they are plain Python. They agree
with those of `scipy.special`, which define them, to eight digits; with more than ten million degrees of freedom, to
three.
"""

from __future__ import annotations

import math

from numba.extending import register_jitable

_STEPS = 5000  # of a continued fraction; those needed grow with the root of the degrees of freedom
_ACCURACY = 1e-12
_TINY = 1e-300  # stands for a zero that would be divided by, and for probabilities too small for a score


@register_jitable(error_model="numpy")
def fisher_tails(first: float, second: float, ratio: float) -> tuple[float, float]:
    """Return the probabilities that Fisher's F is below and above a ratio, with ``second`` at least 20.

    ``first`` are the degrees of freedom of the numerator, ``second`` those of the denominator. Not a number where the
    continued fraction does not converge.

    Examples
    --------
    >>> below, above = fisher_tails(2.0, 30.0, 1.5)
    >>> round(below, 6), round(above, 6)
    (0.760608, 0.239392)
    """
    if not ratio > 0:
        return (0.0, 1.0) if ratio <= 0 else (math.nan, math.nan)
    a, b = first / 2, second / 2
    x = first * ratio / (second + first * ratio)
    y = second / (second + first * ratio)
    power = a * math.log(x * (a + b)) - b * math.log1p(first * ratio / second) + (b - 0.5) * math.log1p(a / b) - a
    front = math.exp(power + _stirling_rest(a + b) - _stirling_rest(b) - math.lgamma(a))
    if x * (a + b + 2) < a + 1:
        below = front / a * _beta_fraction(a, b, x)
        return below, 1 - below
    above = front / b * _beta_fraction(b, a, y)
    return 1 - above, above


@register_jitable(error_model="numpy")
def _stirling_rest(value: float) -> float:
    """Return what Stirling's formula lacks of the logarithm of the gamma function, from 10 on."""
    square = value * value
    return (1 / 12 - (1 / 360 - 1 / (1260 * square)) / square) / value


@register_jitable(error_model="numpy")
def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    upper, lower = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = lower
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        lower = 1 / _not_zero(1 + even * lower)
        upper = _not_zero(1 + even / upper)
        value *= lower * upper
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        lower = 1 / _not_zero(1 + odd * lower)
        upper = _not_zero(1 + odd / upper)
        value *= lower * upper
        if abs(lower * upper - 1) < _ACCURACY:
            return value
    return math.nan


@register_jitable(error_model="numpy")
def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


@register_jitable(error_model="numpy")
def normal_score(above: float) -> float:
    """Return the number that a standard normal one exceeds with a probability of at most a half.

    It is a rational approximation (Abramowitz and Stegun 1964, 26.2.23), refined by one step of Halley's method.

    Examples
    --------
    >>> round(normal_score(0.025), 6)
    1.959964
    """
    if above < _TINY:
        above = _TINY
    t = math.sqrt(-2 * math.log(above))
    score = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    density = math.exp(-score * score / 2) / math.sqrt(2 * math.pi)
    step = (math.erfc(score / math.sqrt(2)) / 2 - above) / density
    return score + step / (1 - score * step / 2)


@register_jitable(error_model="numpy")
def chi_squared_above(freedom: int, distance: float) -> float:
    """Return the probability that a chi-squared number with so many degrees of freedom is above a distance.

    Examples
    --------
    >>> round(chi_squared_above(1, 3.841459), 6), round(chi_squared_above(4, 9.487729), 6)
    (0.05, 0.05)
    """
    half = distance / 2
    if freedom % 2 == 0:
        total, term, number = 0.0, math.exp(-half), 0.0
    else:
        total, number = math.erfc(math.sqrt(half)), 0.5
        term = math.exp(-half) * math.sqrt(half) * 2 / math.sqrt(math.pi)
    for _ in range(freedom // 2):
        total += term
        number += 1
        term *= half / number
    return total
