"""Windows over the places of an image, as attributes of convolution and pooling say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from cntk_model_onnx.read.borders import padded
from cntk_model_onnx.read.values import Tensor, Unreadable
from cntk_model_onnx.sizes import are_free

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer


@attrs.define
class Windows:
    """Windows over the places of an image, in memory order."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    lower: list[int]
    upper: list[int]

    @classmethod
    def of(cls, given: dict[str, Any], image: Tensor, kernel: Sequence[int]) -> Windows:
        """Read the attributes of a node.

        Raises:
            Unreadable: they do not belong to such an image.
        """
        rank = len(image.shape) - 1
        pads = list(given.get("pads", [0] * (2 * rank)))
        found = cls(
            [int(size) for size in kernel],
            list(given.get("strides", [1] * rank)),
            list(given.get("dilations", [1] * rank)),
            pads[:rank],
            pads[rank:],
        )
        lists = (found.kernel, found.strides, found.dilations, found.lower, found.upper)
        if any(len(each) != rank for each in lists) or min(pads, default=0) < 0:
            raise Unreadable("its settings do not belong to such an image")
        if given.get("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
            found._pad_alike(image.shape[1:], upper=given["auto_pad"] == "SAME_UPPER")
        return found

    @property
    def reach(self) -> list[int]:
        """How many elements a window covers along each axis, gaps included."""
        return [(width - 1) * apart + 1 for width, apart in zip(self.kernel, self.dilations, strict=True)]

    def _pad_alike(self, sizes: Sequence[int], *, upper: bool) -> None:
        """Pad so that there is a window for each stride."""
        if are_free(sizes):
            raise Unreadable("its padding depends on sizes that are known only with the data")
        for axis, (size, step, reach) in enumerate(zip(sizes, self.strides, self.reach, strict=True)):
            total = max((-(-size // step) - 1) * step + reach - size, 0)
            self.lower[axis] = total // 2 if upper else -(-total // 2)
            self.upper[axis] = total - self.lower[axis]

    def rests(self, sizes: Sequence[int], *, ceil: bool = False) -> list[int] | None:
        """Elements behind the last window (negative: that it lacks); None if the sizes are not known."""
        if are_free(sizes):
            return None
        found = []
        for axis, (size, step, reach) in enumerate(zip(sizes, self.strides, self.reach, strict=True)):
            whole = size + self.lower[axis] + self.upper[axis] - reach
            rest = whole % step
            # A last window must begin on the image or before it.
            begins = whole - rest + step < size + self.lower[axis]
            found.append(rest - step if ceil and rest and begins else rest)
        return found

    def settings(self) -> dict[str, Any]:
        """Attributes of an operation, in CNTK's order of axes."""
        return {
            "kernel_shape": tuple(self.kernel[::-1]),
            "stride": tuple(self.strides[::-1]),
            "auto_padding": (False,),
            "lower_pad": tuple(self.lower[::-1]),
            "upper_pad": tuple(self.upper[::-1]),
        }

    def placed(self, reader: Importer, image: Tensor, fill: float, *, ceil: bool = False) -> Tensor:
        """Return the image so that windows with this padding fit it: padded or cut where they do not."""
        rests = self.rests(image.shape[1:], ceil=ceil)
        if rests is not None and not any(rests):
            return image
        if rests is None and (ceil or not any(self.lower + self.upper)):
            if ceil:
                raise Unreadable("its padding depends on sizes that are known only with the data")
            return image
        extra = [max(0, -rest) for rest in rests] if rests is not None else [0] * len(self.kernel)
        if not any(self.lower + self.upper + extra):
            return image
        widths = {
            axis + 1: (low, high + more)
            for axis, (low, high, more) in enumerate(zip(self.lower, self.upper, extra, strict=True))
        }
        self.lower, self.upper = [0] * len(self.kernel), [0] * len(self.kernel)
        return padded(reader, image, widths, fill=fill)
