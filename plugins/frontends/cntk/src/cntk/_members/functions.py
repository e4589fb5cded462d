"""What functions have of the original's library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from cntk.ops.functions import Function

_COMPOSITE, _PRIMITIVE = 3, 24


class LibraryFunction:
    """Members of :class:`cntk.Function`."""

    max_num_outputs: ClassVar[int] = 64
    name: Any
    is_composite: Any
    custom_attributes: Any

    def as_string(self, *args: Any) -> str:
        """Return what it is made of, as ``repr`` does."""
        return repr(self)

    def set_name(self, name: str) -> None:
        """Give it a name.

        Raises:
            ValueError: it has one.
        """
        self.name = name

    def current_version(self) -> int:
        """Return the number of the way in which the original's files have it."""
        return _COMPOSITE if self.is_composite else _PRIMITIVE

    def get_custom_attributes(self) -> dict[str, Any]:
        """Return the dictionary that is kept with it."""
        found: dict[str, Any] = self.custom_attributes
        return found

    def reset_custom_attributes(self) -> None:
        """Empty the dictionary that is kept with it."""
        self.custom_attributes = {}

    @staticmethod
    def load_from_buffer(buffer: bytes, device: Any = None) -> Function:
        """Read the bytes of a model file.

        Raises:
            ValueError: they are no model.
        """
        from cntk.ops.functions import Function

        return Function.load(bytes(buffer))

    @staticmethod
    def native_user_function(*args: Any) -> Any:
        """Raise NotImplementedError: user functions in C++ need the original's library."""
        from cntk.ops import _user

        _user.native_user_function(*args)

    @staticmethod
    def register_native_user_function(*args: Any) -> Any:
        """Raise NotImplementedError: user functions in C++ need the original's library."""
        from cntk.ops import _user

        _user.register_native_user_function(*args)
