"""Names that a door had once: where each is now, and until which version the old place answers.

A name that leaves a door stays here for two minor versions at least and gives a ``DeprecationWarning``;
``docs/stability.md`` is the policy, and a test lets nothing stay past its version.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import attrs


@attrs.frozen
class Retired:
    """Names that have left a door together.

    Attributes:
        door: the module that had them.
        now: the module that has them.
        since, until: versions of the door: the first that warns, and the first that no longer has them.
        names: old name to the new one.
    """

    door: str
    now: str
    since: str
    until: str
    names: Mapping[str, str]


def same(names: str) -> dict[str, str]:
    """Return names, separated with spaces, that stay as they are."""
    return {name: name for name in names.split()}


def retired(door: str, name: str) -> Any:
    """Return what a name of a door meant, with a warning in the line that asks for it.

    Raises:
        AttributeError: the door never had it, or no longer has.
    """
    for row in RETIRED:
        if row.door == door and name in row.names:
            new = row.names[name]
            told = f"has moved to {row.now}" if new == name else f"is {row.now}.{new} now"
            warnings.warn(
                f"'{name}' {told}; it leaves {door} with version {row.until}", DeprecationWarning, stacklevel=3
            )
            return getattr(import_module(row.now), new)
    raise AttributeError(f"module '{door}' has no attribute '{name}'")


CONTRACT = "cntk_core.api"

RETIRED = (
    Retired(
        door=CONTRACT,
        now=CONTRACT,
        since="1.0",
        until="1.2",
        names={
            "ICNBuilder": "NetworkBuilder",
            "IDataReader": "DataReader",
            "IExecutionEngine": "ExecutionEngine",
            "ILearner": "Learner",
        },
    ),
    Retired(
        door=CONTRACT,
        now="cntk_core.api.readers",
        since="1.0",
        until="1.2",
        names=same(
            """
            Block CACHE_BYTES Chunk ChunkInfo ChunkSource ChunkedReader Column CompositeSource FrameSource
            Part PendingRows Piece RandomOrder RowMaker SlotPlan SweepOrder Truncation UtteranceKeys
            UtterancePartKeys UtteranceReader Window chunk_windows class_column context_window cut_chunks
            read_utterance_block read_utterance_part read_windows slot_layout window_of
            """
        ),
    ),
    Retired(
        door=CONTRACT,
        now="cntk_core.api.engines",
        since="1.0",
        until="1.2",
        names=same(
            """
            AnyStep Axes Buffer DROPOUT_RATE Expr Geometry GradientStep Interpreter LOG_ZERO Loop
            LoopGradient Meeting Names PhonePath PlanProgram Program ProgramState SMALLEST_DIVISOR
            StackWeights Stage Statistics Step TAIL TRAINS Target TraceMath Tree UNNORMALIZED align
            best_columns blend_share broadcast check_axes check_lengths check_size check_statistics
            check_word_classes clipped_log convolution_geometry cosine_gradients cosines delay_rows
            derive_layout derived_nodes explain fill_outside flow_back forward_trees frame_layout
            gathered_places gradient_trees image_pooling_geometry initial_rows is_legacy is_open
            is_sparse_product is_total keep_tail label_inputs last_sequence latest_frames layout_of_root
            legacy_pooling_geometry log_softmax longest_axes longest_sequence make_plan makes_axis_by_values
            math_of meetings_of paired path_of phone_path pooling_geometry product_matrices product_results
            quantized_product reader_slots reconciled_rows rename_symbols run_forward run_gradient
            same_sequences samples sequence_layout sequence_rows sequences_of settle_statistics sharing_of
            shift_of skips_of slice_ranges sparse_inputs sparse_matrix split_weights stages_of
            statistics_used stream_of symbol symbols_in_order transposed_axes unbroadcast unpaired
            update_share whole_sequences with_lengths
            """
        ),
    ),
    Retired(
        door=CONTRACT,
        now="cntk_core.api.builders",
        since="1.0",
        until="1.2",
        names=same(
            """
            COMMAND_LINE Content Document EvaluatedEntry FixedValue FromFile FromLiteral NamePattern OpTable
            PARAMETER_USES Random SeedNumbers SourceText check_links clone_nodes complete_network
            copy_inputs copy_nodes copy_sub_tree duplicate find_nodes freeze_statistics
            initialize_parameters initializer nodes_to_clone numbered paired_names parse_text read_source
            remove_nodes rename_nodes replace_node revise_parameter set_input set_inputs set_learning_rate
            set_needs_gradient set_role sub_tree users_of write_dump
            """
        ),
    ),
    Retired(
        door=CONTRACT,
        now="cntk_core.api.parallel",
        since="1.0",
        until="1.2",
        names=same(
            """
            BackgroundWorker Launcher Mesh MeshCommunicator Message NetworkModel Pending Rendezvous
            SimulatedRank Simulation SimulationPlan StepCounts TimeSpent Traffic Watch Whereabouts WireSize
            sum_by_rank
            """
        ),
    ),
)
"""Everything that has left a door and still answers there."""
