// Small kernels that many steps use.

// Adds a value to a total, in double precision.
extern "C" __global__ void add_total(const F* value, double* total)
{
    if (threadIdx.x == 0 && blockIdx.x == 0)
        total[0] += (double)value[0];
}

// out[i, :] is a row of ``in`` where code[i] >= 0, else one of ``states`` (-2, -4, ...) or of ``tail`` (-3, -5, ...); -1
// stands for a number.
extern "C" __global__ void read_rows(const F* in, const F* states, const F* tail, const long long* code, F* out,
                                     F other, long long rows, long long width)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < rows * width; i += stride) {
        const long long row = code[i / width], j = i % width;
        if (row >= 0)
            out[i] = in[row * width + j];
        else if (row == -1)
            out[i] = other;
        else
            out[i] = row % 2 == 0 ? states[(-2 - row) / 2 * width + j] : tail[(-3 - row) / 2 * width + j];
    }
}

// out[r, :] += the sum of in[i, :] over the rows i that stand in ``readers`` from start[r] on, in this order.
extern "C" __global__ void add_readers(const F* in, const long long* start, const long long* readers, F* out,
                                       long long rows, long long width)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < rows * width; i += stride) {
        F sum = F(0);
        for (long long k = start[i / width]; k < start[i / width + 1]; ++k)
            sum += in[readers[k] * width + i % width];
        out[i] += sum;
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
