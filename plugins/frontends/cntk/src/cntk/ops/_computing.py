"""What functions compute, and the files that they are written into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, cast

from cntk._graph.errors import GraphError
from cntk._graph.primitive import preorder
from cntk.internal import sanitize_var_map, sanitize_variables_or_functions, variable_of

if TYPE_CHECKING:
    from cntk.ops.functions import Function
    from cntk.variables import Variable


@unique
class ModelFormat(Enum):
    """Formats of model files."""

    CNTKv2 = 0
    ONNX = 1


class Computed:
    """The part of functions that evaluates, differentiates, trains, writes and reads."""

    outputs: Any
    arguments: Any

    # -- computing ------------------------------------------------------------------------------------------

    def eval(self, arguments: Any = None, outputs: Any = None, device: Any = None, as_numpy: bool = True) -> Any:
        """Compute it.

        Args:
            arguments: what its arguments are given, by variable or name; of the only one it may stand alone.
            outputs: those that are wanted; by default all.
            device: is taken for compatibility; the engine is one of the program.
            as_numpy: give arrays; otherwise :class:`~cntk.core.Value`.

        Returns:
            The value of the only output, or the values by variable: an array ``(samples, *shape)``, or a list with an
            array ``(frames, *shape)`` for each sequence.

        Raises:
            ValueError: something is missing, or does not fit.
        """
        from cntk._graph.evaluating import evaluate

        wanted = self._wanted(outputs)
        self._check(wanted)
        found = evaluate(self._asked(wanted), self._given(arguments), as_numpy=as_numpy)
        return found[wanted[0]] if len(wanted) == 1 else found

    def forward(
        self,
        arguments: Any,
        outputs: Any = None,
        keep_for_backward: Any = None,
        device: Any = None,
        as_numpy: bool = True,
    ) -> tuple[Any, dict[Variable, Any]]:
        """Compute it, and keep what :meth:`backward` needs.

        Args:
            arguments, outputs, device, as_numpy: as of :meth:`eval`.
            keep_for_backward: outputs from which gradients will flow back.

        Returns:
            The state for :meth:`backward`, None if nothing was kept, and the values by variable.

        Raises:
            ValueError: something is missing, or does not fit.
        """
        from cntk._graph.evaluating import forward

        wanted = self._wanted(outputs)
        self._check(wanted)
        kept = sanitize_variables_or_functions(list(keep_for_backward)) if keep_for_backward else []
        return forward(self._asked(wanted), wanted, self._given(arguments), kept, as_numpy=as_numpy)

    def backward(self, state: Any, root_gradients: Any, variables: Iterable[Any], as_numpy: bool = True) -> dict[Variable, Any]:  # fmt: skip  # noqa: E501
        """Let gradients flow back from outputs to variables.

        Args:
            state: of :meth:`forward`.
            root_gradients: the gradients of outputs, laid out as the values; of the only output, without its name.
            variables: by which gradients are wanted.
            as_numpy: give arrays; otherwise :class:`~cntk.core.Value`.

        Raises:
            ValueError: nothing was kept, or something does not fit.
        """
        from cntk._graph.evaluating import backward

        if not isinstance(root_gradients, Mapping):
            root_gradients = {cast("Function", self).output: root_gradients}
        given = {variable_of(each): value for each, value in root_gradients.items()}
        return backward(state, given, [variable_of(each) for each in variables], as_numpy=as_numpy)

    def grad(
        self,
        at: Any,
        wrt: Any = None,
        outputs: Any = None,
        device: Any = None,
        as_numpy: bool = True,
        grad_root: Any = None,
    ) -> Any:
        """Compute gradients of the sum of all elements of an output.

        Args:
            at: what its arguments are given.
            wrt: the variables by which gradients are wanted; by default its arguments.
            outputs: values that are wanted as well.
            device: is taken for compatibility.
            as_numpy: give arrays; otherwise :class:`~cntk.core.Value`.
            grad_root: the output, where there are several.

        Returns:
            The gradient by the only variable, or gradients by variable; with ``outputs``, also their values.

        Raises:
            ValueError: something is missing, or does not fit.
        """
        from cntk._graph.evaluating import gradients

        return gradients(cast("Function", self), at, wrt, outputs, grad_root, as_numpy=as_numpy)

    def _wanted(self, outputs: Any) -> list[Variable]:
        return list(self.outputs) if outputs is None else sanitize_variables_or_functions(
            list(outputs) if isinstance(outputs, list | tuple | set | frozenset) else outputs
        )  # fmt: skip

    def _check(self, wanted: list[Variable]) -> None:
        """Look whether it depends on variables. Raises GraphError: on one it does not."""
        own = set(cast("Function", self).outputs)
        others = [each for each in wanted if each not in own and each._owner is not None]
        if not others:
            return
        found = set(preorder([cast("Function", self)._primitive], nested=True))
        strange = next((each for each in others if each._owner not in found), None)
        if strange is not None:
            raise GraphError(f"{strange} is no output of the function, and of nothing that it depends on")

    def _asked(self, wanted: list[Variable]) -> list[Variable]:
        return wanted

    def _given(self, arguments: Any) -> dict[Variable, Any]:
        return sanitize_var_map(self.arguments, arguments)

    # -- files ----------------------------------------------------------------------------------------------

    def save(self, filename: Any, format: Any = ModelFormat.CNTKv2, use_external_files_to_store_parameters: bool = False) -> None:  # fmt: skip  # noqa: E501
        """Write it into a model file.

        Args:
            filename: the file.
            format: CNTK 2's own, or ONNX.
            use_external_files_to_store_parameters: is taken for compatibility.

        Raises:
            CntkError: it cannot be written.
        """
        from cntk._graph.files import save

        save(cast("Function", self), filename, format)

    @staticmethod
    def load(model: Any, device: Any = None, format: Any = ModelFormat.CNTKv2) -> Function:
        """Read a model file, or its bytes.

        Raises:
            ValueError: it is no model.
        """
        from cntk._graph.files import load

        return load(model, format)

    def restore(self, filename: Any) -> None:
        """Take the values of parameters from the file of the same function.

        Raises:
            ValueError: the file is that of another function.
        """
        from cntk._graph.files import restore

        restore(cast("Function", self), filename)

    def train(
        self,
        minibatch_source: Any,
        minibatch_size: Any = 32,
        streams: Any = None,
        model_inputs_to_streams: Any = None,
        parameter_learners: Any = (),
        callbacks: Any = (),
        progress_frequency: Any = None,
        max_epochs: Any = None,
        epoch_size: Any = None,
        max_samples: Any = None,
    ) -> Any:
        """Train its parameters (:func:`cntk._train_functions.train`); it is a loss, or a loss and a metric."""
        from cntk._train_functions import train

        return train(
            self, minibatch_source, minibatch_size, streams, model_inputs_to_streams, parameter_learners, callbacks,
            progress_frequency, max_epochs, epoch_size, max_samples,
        )  # fmt: skip

    def test(
        self,
        minibatch_source: Any,
        minibatch_size: Any = 32,
        streams: Any = None,
        model_inputs_to_streams: Any = None,
        callbacks: Any = None,
    ) -> Any:
        """Return its average over data (:func:`cntk._train_functions.measure`); of two, that of the second."""
        from cntk._train_functions import measure

        return measure(self, minibatch_source, minibatch_size, streams, model_inputs_to_streams, callbacks)

    def print_node_timing(self) -> None:
        """Say where times are told: by the profiler of :mod:`cntk.debugging`."""
        print("Times of nodes: cntk.debugging.start_profiler() and stop_profiler() write them into files.")
