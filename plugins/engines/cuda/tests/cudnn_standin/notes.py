"""The enumerations of the frontend, as far as the engine meets them."""

from __future__ import annotations

import enum


class data_type(enum.Enum):
    """Types of elements."""

    FLOAT = 0
    DOUBLE = 1
    NOT_SET = 99


class heur_mode(enum.Enum):
    """Where plans come from."""

    A = 0
    B = 1
    FALLBACK = 2


class numerical_note(enum.Enum):
    """What is said of a plan's numbers."""

    TENSOR_CORE = 0
    DOWN_CONVERT_INPUTS = 1
    REDUCED_PRECISION_REDUCTION = 2
    FFT = 3
    NONDETERMINISTIC = 4
    WINOGRAD = 5
    WINOGRAD_TILE_4x4 = 6
    WINOGRAD_TILE_6x6 = 7
    WINOGRAD_TILE_13x13 = 8
    STRICT_NAN_PROP = 9


class build_plan_policy(enum.Enum):
    """How many plans are built."""

    HEURISTICS_CHOICE = 0
    ALL = 1
