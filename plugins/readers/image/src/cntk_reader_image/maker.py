"""Worker threads that make the samples of minibatches ahead of time."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError
from cntk_core.api.readers import PendingRows, RowMaker, reader_threads
from cntk_reader_image.decode import decode
from cntk_reader_image.jpeg import SMALL, Scratch
from cntk_reader_image.limits import BrokenImageError
from cntk_reader_image.listing import MOST_PROBLEMS, Images
from cntk_reader_image.pipeline import Pipeline

_TASKS_OF_THREAD = 4
"""A minibatch is divided into so many tasks for each thread: few, but the threads end at about the same time."""
_TOO_LARGE = 2
"""Decoded images are kept if all of them had up to so many times the bytes that there are for them."""

Failure = tuple[int, str]
"""The place of an image in a minibatch, and what is wrong with it."""


class ErrorBudget:
    """Counts broken images, each once.

    Args:
        limit: so many are left out; one more is an error.
        warn: gets a line for each.
    """

    def __init__(self, limit: int, warn: Callable[[str], None] | None) -> None:
        self._limit = limit
        self._warn = warn
        self._seen: set[int] = set()
        self._remarked: set[int] = set()
        self._lock = threading.Lock()

    def spend(self, image: int, error: DataError) -> None:
        """Count a broken image. Raises the error if there are too many."""
        with self._lock:
            if image in self._seen:
                return
            self._seen.add(image)
            count = len(self._seen)
        if count > self._limit:
            hint = f"maxErrors={count} leaves {'it' if count == 1 else f'{count} such images'} out."
            raise DataError(error.message, where=error.where, hint=hint)
        if self._warn is not None:
            self._warn(f"WARNING: left out: {error.where}: {error.message}")

    def remark(self, image: int, text: str) -> None:
        """Say what is odd about an image that is used: once for each, and of the first ones."""
        with self._lock:
            known = image in self._remarked or len(self._remarked) > MOST_PROBLEMS
            self._remarked.add(image)
            last = len(self._remarked) > MOST_PROBLEMS
        if not known and self._warn is not None:
            self._warn("WARNING: there are remarks on more images" if last else f"WARNING: {text}")


class PixelCache:
    """Decoded images, if about all of them fit.

    Args:
        limit: bytes.
        images: how many there are.
    """

    def __init__(self, limit: int, images: int) -> None:
        self._limit = limit
        self._images = images
        self._pixels: dict[int, NDArray[np.uint8]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, image: int) -> NDArray[np.uint8] | None:
        """Return the pixels of an image if they are there."""
        return self._pixels.get(image)

    def wants(self, size: int) -> bool:
        """Return whether an image of so many bytes is kept."""
        return size * self._images <= _TOO_LARGE * self._limit and self._bytes + size <= self._limit

    def put(self, image: int, pixels: NDArray[np.uint8]) -> None:
        """Keep the pixels of an image if there is room, without a fourth plane."""
        planes = min(pixels.shape[2], 3)
        if not self.wants(pixels.shape[0] * pixels.shape[1] * planes):
            return
        pixels = np.array(pixels[:, :, :planes])
        with self._lock:
            if self._bytes + pixels.nbytes <= self._limit and image not in self._pixels:
                self._pixels[image] = pixels
                self._bytes += pixels.nbytes

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._pixels.clear()
            self._bytes = 0


@attrs.frozen(eq=False)
class PendingImages(PendingRows):
    """The samples of a minibatch that threads are making."""

    rows: NDArray[Any]
    tasks: Sequence[Future[list[Failure]]]
    report: Callable[[int, str], None]

    def result(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Wait for the threads. Raises DataError when too many images are broken."""
        broken = np.zeros(len(self.rows), dtype=bool)
        for task in self.tasks:
            for place, reason in task.result():
                broken[place] = True
                self.report(place, reason)
        return self.rows, broken

    def cancel(self) -> None:
        """Do not begin what has not begun."""
        for task in self.tasks:
            task.cancel()


class ImageMaker(RowMaker):
    """Makes samples of images; the number of a row is ``image * views + view``.

    Args:
        images: where they are.
        pipeline: what is done with them.
        shape: of a sample.
        gray: decode them as gray.
        views: how many views of each image there are.
        threads: how many make samples, as ``numCPUThreads`` says it.
        budget: counts broken images.
        cache_bytes: decoded images that are kept.
    """

    def __init__(
        self,
        images: Images,
        pipeline: Pipeline,
        *,
        shape: tuple[int, ...],
        gray: bool,
        views: int,
        threads: int,
        budget: ErrorBudget,
        cache_bytes: int,
    ) -> None:
        self._images = images
        self._pipeline = pipeline
        self._shape = shape
        self._gray = gray
        self._views = views
        self._threads = reader_threads(threads)
        self._budget = budget
        self._cache = PixelCache(cache_bytes, len(images))
        self._keys = images.random_keys()
        self._scratch = Scratch()
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def start(self, numbers: NDArray[np.int64], sweep: int) -> PendingImages:
        """Begin to make the samples of some numbers for a sweep."""
        images, views = np.divmod(numbers, self._views)
        rows = np.empty((len(numbers), *self._shape), dtype=self._pipeline.dtype)
        draws = self._pipeline.draw(self._keys[images], views, sweep)
        image_of, view_of = images.tolist(), views.tolist()
        together = self._pipeline.makes_together(math.prod(self._shape))

        def lowest(place: int, rows: int, columns: int) -> int:
            own = draws[0][place].tolist() if draws else []
            return self._pipeline.lowest(rows, columns, own, view_of[place])

        def work(first: int, last: int) -> list[Failure]:
            failures = []
            small: list[NDArray[np.uint8]] = []
            places: list[int] = []
            for place in range(first, last):
                try:
                    with self._images.limits.one_image():
                        make(place, small, places)
                except BrokenImageError as error:
                    failures.append((place, str(error)))
            if small:
                self._pipeline.make_together(small, draws, views, np.array(places), rows)
            return failures

        def make(place: int, small: list[NDArray[np.uint8]], places: list[int]) -> None:
            pixels = self.pixels(image_of[place], partial(lowest, place))
            if together and pixels.nbytes <= SMALL:
                small.append(pixels)
                places.append(place)
            elif together:
                self._pipeline.make_together([pixels], draws, views, np.array([place]), rows)
            else:
                own = [numbers[place].tolist() for numbers in draws]
                self._pipeline.make(pixels, own, view_of[place], rows[place])

        def report(place: int, reason: str) -> None:
            image = image_of[place]
            self._budget.spend(image, broken_image(self._images, image, reason))

        step = max(-(-len(numbers) // (self._threads * _TASKS_OF_THREAD)), 1)
        pool = self._pool()
        tasks = [pool.submit(work, first, min(first + step, len(numbers))) for first in range(0, len(numbers), step)]
        return PendingImages(rows, tasks, report)

    def pixels(self, image: int, lowest: Callable[[int, int], int] | None = None) -> NDArray[np.uint8]:
        """Return the decoded pixels of an image, until this thread decodes another one.

        Args:
            image: which one.
            lowest: says how many of the upper rows of its rows and columns are wanted; None: all.

        Raises:
            BrokenImageError: it cannot be decoded.
        """
        known = self._cache.get(image)
        if known is not None:
            return known
        whole = True

        def wanted(rows: int, columns: int, planes: int) -> int:
            nonlocal whole
            whole = lowest is None or self._cache.wants(rows * columns * planes)
            return rows if lowest is None or whole else lowest(rows, columns)

        known = decode(
            self._images.read(image),
            gray=self._gray,
            limits=self._images.limits,
            scratch=self._scratch,
            lowest=wanted,
            tell=lambda text: self._budget.remark(image, _remark(self._images, image, text)),
        )
        if whole:
            self._cache.put(image, known)
        return known

    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="cntk-images")
            return self._executor

    def close(self) -> None:
        """End the threads and forget the pixels. May be called more than once."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=True)
        self._cache.clear()


def broken_image(images: Images, image: int, reason: str) -> DataError:
    """Return the error of an image that cannot be used."""
    return DataError(f"cannot use image {images.title(image)}: {reason}", where=images.where(image))


def _remark(images: Images, image: int, text: str) -> str:
    return f"{images.where(image)}: image {images.title(image)}: {text}"
