// Small kernels that many steps use.

// Adds a value to a total, in double precision.
extern "C" __global__ void add_total(const F* value, double* total)
{
    if (threadIdx.x == 0 && blockIdx.x == 0)
        total[0] += (double)value[0];
}

// out[i, :] = source[i] >= 0 ? in[source[i], :] : out[i, :]
extern "C" __global__ void gather_rows(const F* in, const long long* source, F* out, long long rows, long long width)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < rows * width; i += stride) {
        const long long row = source[i / width];
        if (row >= 0)
            out[i] = in[row * width + i % width];
    }
}

// out[target[i], :] = in[i, :]; no two rows have one target.
extern "C" __global__ void scatter_rows(const F* in, const long long* target, F* out, long long rows, long long width)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < rows * width; i += stride) {
        const long long row = target[i / width];
        if (row >= 0)
            out[row * width + i % width] = in[i];
    }
}

// out[target[i], :] += in[i, :]; no two rows have one target.
extern "C" __global__ void add_rows(const F* in, const long long* target, F* out, long long rows, long long width)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < rows * width; i += stride) {
        const long long row = target[i / width];
        if (row >= 0)
            out[row * width + i % width] += in[i];
    }
}

// out[b, a, :] = (or +=) in[a, b, :] for a < first, b < second and rows of ``width``.
extern "C" __global__ void swap_outer(const F* in, F* out, long long first, long long second, long long width,
                                      long long accumulate)
{
    const long long count = first * second * width, stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const long long j = i % width, a = i / width % first, b = i / width / first;
        const F value = in[(a * second + b) * width + j];
        out[i] = accumulate ? out[i] + value : value;
    }
}
