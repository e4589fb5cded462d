"""Operators: functions of variables, functions and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cntk.axis import Axis
from cntk.default_options import default_override_or, get_default_override
from cntk.internal.utils import get_data_type
from cntk.ops import _elements, _images, _leaves, _reductions, _sampling, _shapes
from cntk.ops._elements import *  # noqa: F403
from cntk.ops._images import *  # noqa: F403
from cntk.ops._leaves import *  # noqa: F403
from cntk.ops._making import associative_multi_arg
from cntk.ops._reductions import *  # noqa: F403
from cntk.ops._sampling import *  # noqa: F403
from cntk.ops._shapes import *  # noqa: F403
from cntk.ops.functions import BlockFunction, CloneMethod, Function, ModelFormat, load_model

INFINITELY_REPEAT = 2**64 - 1
