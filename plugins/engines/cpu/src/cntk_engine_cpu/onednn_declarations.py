"""What of oneDNN's C interface, version 3, and of OpenMP the engine calls.

A change takes effect by ``python tools/onednn_bindings.py``, which writes it in the form that needs no parser of C at
the start of each run.
"""

DECLARATIONS = """
int dnnl_sgemm(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha, uintptr_t a, int64_t lda,
               uintptr_t b, int64_t ldb, float beta, uintptr_t c, int64_t ldc);
void omp_set_num_threads(int n);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
void GOMP_parallel(void (*function)(void *), void *data, unsigned threads, unsigned flags);
typedef struct { int arg; void *memory; } dnnl_exec_arg_t;
int dnnl_engine_create(void **engine, int kind, size_t index);
int dnnl_stream_destroy(void *stream);
int dnnl_stream_create(void **stream, void *engine, unsigned flags);
int dnnl_memory_desc_create_with_strides(void **desc, int rank, const int64_t *dims, int type, const int64_t *strides);
int dnnl_memory_desc_create_with_tag(void **desc, int rank, const int64_t *dims, int type, int tag);
size_t dnnl_memory_desc_get_size(void *desc);
int dnnl_memory_desc_equal(void *first, void *second);
int dnnl_memory_create(void **memory, void *desc, void *engine, uintptr_t handle);
int dnnl_memory_set_data_handle(void *memory, uintptr_t handle);
int dnnl_primitive_attr_create(void **attr);
int dnnl_primitive_attr_set_scratchpad_mode(void *attr, int mode);
int dnnl_primitive_attr_set_post_ops(void *attr, void *post_ops);
int dnnl_post_ops_create(void **post_ops);
int dnnl_post_ops_append_eltwise(void *post_ops, int algorithm, float alpha, float beta);
int dnnl_post_ops_append_sum(void *post_ops, float scale, int32_t zero_point, int type);
int dnnl_convolution_forward_primitive_desc_create(void **pd, void *engine, int kind, int algorithm, void *src,
    void *weights, void *bias, void *dst, const int64_t *strides, const int64_t *dilates, const int64_t *lower,
    const int64_t *upper, void *attr);
int dnnl_convolution_backward_data_primitive_desc_create(void **pd, void *engine, int algorithm, void *src,
    void *weights, void *dst, const int64_t *strides, const int64_t *dilates, const int64_t *lower,
    const int64_t *upper, void *hint, void *attr);
int dnnl_convolution_backward_weights_primitive_desc_create(void **pd, void *engine, int algorithm, void *src,
    void *weights, void *bias, void *dst, const int64_t *strides, const int64_t *dilates, const int64_t *lower,
    const int64_t *upper, void *hint, void *attr);
int dnnl_pooling_forward_primitive_desc_create(void **pd, void *engine, int kind, int algorithm, void *src, void *dst,
    const int64_t *strides, const int64_t *kernel, const int64_t *dilates, const int64_t *lower, const int64_t *upper,
    void *attr);
int dnnl_pooling_backward_primitive_desc_create(void **pd, void *engine, int algorithm, void *src, void *dst,
    const int64_t *strides, const int64_t *kernel, const int64_t *dilates, const int64_t *lower, const int64_t *upper,
    void *hint, void *attr);
int dnnl_reorder_primitive_desc_create(void **pd, void *src, void *src_engine, void *dst, void *dst_engine, void *attr);
int dnnl_primitive_create(void **primitive, void *pd);
int dnnl_memory_desc_destroy(void *desc);
int dnnl_memory_destroy(void *memory);
int dnnl_primitive_attr_destroy(void *attr);
int dnnl_post_ops_destroy(void *post_ops);
int dnnl_primitive_desc_destroy(void *pd);
int dnnl_primitive_destroy(void *primitive);
int dnnl_primitive_execute(void *primitive, void *stream, int count, const dnnl_exec_arg_t *arguments);
int dnnl_primitive_desc_query(void *pd, int what, int index, void *result);
int dnnl_primitive_desc_next_impl(void *pd);
void *dnnl_primitive_desc_query_md(void *pd, int what, int index);
"""
# Addresses are declared as numbers where they are numbers to us: these need no conversion at every call.
