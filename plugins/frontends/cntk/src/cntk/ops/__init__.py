"""Operators: functions of variables, functions and numbers."""

from __future__ import annotations

from typing import Any

from cntk._inherited import inherit
from cntk.axis import Axis as Axis
from cntk.default_options import default_override_or as default_override_or
from cntk.default_options import get_default_override as get_default_override
from cntk.internal.utils import get_data_type as get_data_type
from cntk.ops._elements import *  # noqa: F403
from cntk.ops._images import *  # noqa: F403
from cntk.ops._leaves import *  # noqa: F403
from cntk.ops._making import associative_multi_arg as associative_multi_arg
from cntk.ops._reductions import *  # noqa: F403
from cntk.ops._sampling import *  # noqa: F403
from cntk.ops._shapes import *  # noqa: F403
from cntk.ops._user import native_user_function as native_user_function
from cntk.ops._user import register_native_user_function as register_native_user_function
from cntk.ops.functions import BlockFunction as BlockFunction
from cntk.ops.functions import CloneMethod as CloneMethod
from cntk.ops.functions import Function as Function
from cntk.ops.functions import ModelFormat as ModelFormat
from cntk.ops.functions import load_model as load_model

INFINITELY_REPEAT = 2**64 - 1


def __getattr__(name: str) -> Any:
    """Return the module of operators along sequences, which is imported now.

    Raises:
        AttributeError: there is nothing else.
    """
    if name == "sequence":
        from importlib import import_module

        return import_module("cntk.ops.sequence")
    raise AttributeError(f"module 'cntk.ops' has no attribute '{name}'")


inherit(__name__)
