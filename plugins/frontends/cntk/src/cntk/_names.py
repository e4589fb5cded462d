"""The names of the package, and the modules in which they are."""

from __future__ import annotations

from cntk import _training_names

_OPS = """
abs acos alias argmax argmin as_block as_composite asin asinh assign associative_multi_arg atan atanh
batch_normalization cast ceil clip combine constant convolution convolution_transpose cos cosh crop_automatic
crop_automatic_with_ancestors crop_manual depth_to_space dropout element_and element_divide element_max element_min
element_not element_or element_select element_times element_xor elu equal exp expand_dims eye_like flatten floor
forward_backward gather greater greater_equal hard_sigmoid hardmax image_scaler input input_variable labels_to_graph
leaky_relu less less_equal local_response_normalization log log_add_exp log_softmax mean mean_variance_normalization
minus negate not_equal one_hot ones_like optimized_rnnstack output_variable pad param_relu parameter
per_dim_mean_variance_normalize placeholder plus pooling pow random_sample random_sample_inclusion_frequency reciprocal
reconcile_dynamic_axes reduce_l1 reduce_l2 reduce_log_sum_exp reduce_max reduce_mean reduce_min reduce_prod reduce_sum
reduce_sum_square relu reshape roipooling round selu sigmoid sin sinh slice softmax softplus softsign space_to_depth
splice sqrt square squeeze stop_gradient straight_through_impl sum swapaxes tan tanh times times_transpose to_batch
to_sequence to_sequence_like top_k transpose unpack_batch unpooling zeros_like
AVG_POOLING CONSTANT_PAD MAX_POOLING MAX_UNPOOLING PoolingType_Average PoolingType_Max REFLECT_PAD SYMMETRIC_PAD
TIMES_NO_INFERRED_INPUT_RANK TIMES_REDUCE_SEQUENCE_AXIS_WITHOUT_INFERRED_INPUT_RANK INFINITELY_REPEAT
"""

_BY_MODULE = {
    "cntk.ops": _OPS,
    "cntk.ops.functions": "BlockFunction CloneMethod Function ModelFormat UserFunction load_model native_user_function"
    " register_native_user_function",
    "cntk.axis": "Axis",
    "cntk.variables": "Constant Parameter Record Variable",
    "cntk.core": "NDArrayView Value asarray asvalue user_function",
    "cntk.device": "DeviceDescriptor DeviceKind all_devices cpu get_gpu_properties gpu set_excluded_devices"
    " try_set_default_device use_default_device",
    "cntk.default_options": "default_options default_options_for default_override_or get_default_override"
    " get_global_option is_default_override set_global_option",
    "cntk.initializer": "DefaultParamInitScale SentinelValueForAutoSelectRandomSeed"
    " SentinelValueForInferParamInitRank bilinear glorot_normal glorot_uniform he_normal he_uniform"
    " initializer_with_rank normal truncated_normal uniform xavier",
    "cntk.losses": "binary_cross_entropy cosine_distance cosine_distance_with_negative_samples"
    " cross_entropy_with_softmax fmeasure hierarchical_softmax_layer lambda_rank lattice_sequence_with_softmax nce_loss"
    " squared_error weighted_binary_cross_entropy",
    "cntk.metrics": "classification_error edit_distance_error ndcg_at_1",
    "cntk.internal": "map_if_possible sanitize_axis sanitize_axis_list sanitize_batch sanitize_convolution_args"
    " sanitize_dtype_cntk sanitize_dynamic_axes sanitize_function sanitize_input sanitize_multi_axis_reduction_list"
    " sanitize_permutation sanitize_pooling_args sanitize_shape sanitize_var_map typemap",
    "cntk.internal.utils": "get_data_type",
    "cntk.layers.typing": "Signature",
}

NAMES = {
    name: module
    for table in (_BY_MODULE, _training_names.BY_MODULE)
    for module, names in table.items()
    for name in names.split()
}
"""Each name with the module that has it."""

MODULES = {
    **{
        name: f"cntk.{name}"
        for name in [
            "axis",
            "cntk_py",
            "core",
            "device",
            "initializer",
            "internal",
            "layers",
            "losses",
            "metrics",
            "ops",
            "random",
            "tensor",
            "variables",
        ]
    },
    "sequence": "cntk.ops.sequence",
    "functions": "cntk.ops.functions",
    "typing": "cntk.layers.typing",
    "utils": "cntk.internal.utils",
    **_training_names.MODULES,
}
"""Names that are modules."""
