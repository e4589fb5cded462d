// Kernels that go row by row: a block for each row, of whole warps. Its threads share the columns, and meet twice: for
// the largest value and for the sum.

#define MOST_WARPS 32

typedef long long Int;

// Sum over a block; all threads have it. Every thread of the block takes part.
static __device__ F block_sum(F value)
{
    __shared__ F parts[MOST_WARPS];
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    F total = F(0);
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp)
        total += parts[warp];
    return total;
}

static __device__ F block_max(F value)
{
    __shared__ F parts[MOST_WARPS];
    value = warp_max(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    F most = parts[0];
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp)
        most = m_maximum(most, parts[warp]);
    return most;
}

static __device__ Int block_count(Int value)
{
    __shared__ Int parts[MOST_WARPS];
    for (int step = 16; step; step >>= 1)
        value += __shfl_xor_sync(WARP, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    Int total = 0;
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp)
        total += parts[warp];
    return total;
}

// Whether a value comes before another as the largest: what cannot be compared is the largest of all.
__device__ __forceinline__ bool before(F value, Int place, F other, Int other_place)
{
    const bool odd = value != value, other_odd = other != other;
    if (odd != other_odd)
        return odd;
    if (odd || value == other)
        return place < other_place;
    return value > other;
}

// The place of the largest value of a row, the first of equal ones; all threads have it.
static __device__ Int block_best(const F* row, Int width)
{
    __shared__ F values[MOST_WARPS];
    __shared__ Int places[MOST_WARPS];
    F best = -INFINITY;
    Int place = width;
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        if (before(row[j], j, best, place)) {
            best = row[j];
            place = j;
        }
    for (int step = 16; step; step >>= 1) {
        const F other = __shfl_xor_sync(WARP, best, step);
        const Int other_place = __shfl_xor_sync(WARP, place, step);
        if (before(other, other_place, best, place)) {
            best = other;
            place = other_place;
        }
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        values[threadIdx.x / 32] = best;
        places[threadIdx.x / 32] = place;
    }
    __syncthreads();
    best = values[0];
    place = places[0];
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp)
        if (before(values[warp], places[warp], best, place)) {
            best = values[warp];
            place = places[warp];
        }
    return place;
}

// The largest value of a row, and the logarithm of the sum of exponentials after it was taken away.
static __device__ void row_scale(const F* row, Int width, F& most, F& scale)
{
    F found = -INFINITY;
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        found = m_maximum(found, row[j]);
    most = block_max(found);
    F sum = F(0);
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        sum += m_exp(row[j] - most);
    scale = m_log(block_sum(sum));
}

extern "C" __global__ void softmax(const F* in, F* out, Int width)
{
    const Int at = (Int)blockIdx.x * width;
    F most, scale;
    row_scale(in + at, width, most, scale);
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        out[at + j] = m_exp(in[at + j] - most - scale);
}

extern "C" __global__ void log_softmax(const F* in, F* out, Int width)
{
    const Int at = (Int)blockIdx.x * width;
    F most, scale;
    row_scale(in + at, width, most, scale);
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        out[at + j] = in[at + j] - most - scale;
}

extern "C" __global__ void hardmax(const F* in, F* out, Int width)
{
    const Int at = (Int)blockIdx.x * width;
    const Int best = block_best(in + at, width);
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        out[at + j] = j == best ? F(1) : F(0);
}

extern "C" __global__ void softmax_gradient(const F* g, const F* y, F* out, Int width, Int accumulate)
{
    const Int at = (Int)blockIdx.x * width;
    F sum = F(0);
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        sum += g[at + j] * y[at + j];
    sum = block_sum(sum);
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        out[at + j] = (accumulate ? out[at + j] : F(0)) + y[at + j] * (g[at + j] - sum);
}

extern "C" __global__ void log_softmax_gradient(const F* g, const F* y, F* out, Int width, Int accumulate)
{
    const Int at = (Int)blockIdx.x * width;
    F sum = F(0);
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        sum += g[at + j];
    sum = block_sum(sum);
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        out[at + j] = (accumulate ? out[at + j] : F(0)) + (g[at + j] - m_exp(y[at + j]) * sum);
}

// Softmax and, for each row, the sum of labels times logarithms (negative).
extern "C" __global__ void cross_entropy(const F* labels, const F* logits, F* softmax, F* losses, Int width)
{
    const Int at = (Int)blockIdx.x * width;
    F most, scale;
    row_scale(logits + at, width, most, scale);
    F loss = F(0);
    for (Int j = threadIdx.x; j < width; j += blockDim.x) {
        const F logarithm = logits[at + j] - most - scale;
        softmax[at + j] = m_exp(logarithm);
        loss -= labels[at + j] * logarithm;
    }
    loss = block_sum(loss);
    if (threadIdx.x == 0)
        losses[blockIdx.x] = loss;
}

// The same for labels of which only some are given: those of a row from start[row] on.
extern "C" __global__ void sparse_cross_entropy(const Int* start, const Int* places, const F* data, const F* logits,
                                                F* softmax, F* losses, Int width)
{
    const Int at = (Int)blockIdx.x * width;
    F most, scale;
    row_scale(logits + at, width, most, scale);
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        softmax[at + j] = m_exp(logits[at + j] - most - scale);
    F loss = F(0);
    for (Int k = start[blockIdx.x] + threadIdx.x; k < start[blockIdx.x + 1]; k += blockDim.x)
        loss -= data[k] * (logits[at + places[k]] - most - scale);
    loss = block_sum(loss);
    if (threadIdx.x == 0)
        losses[blockIdx.x] = loss;
}

extern "C" __global__ void cross_entropy_gradient(const F* labels, const F* softmax, const F* g, F* out, Int width,
                                                  Int accumulate)
{
    const Int at = (Int)blockIdx.x * width;
    const F incoming = g[0];
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        out[at + j] = (accumulate ? out[at + j] : F(0)) + incoming * (softmax[at + j] - labels[at + j]);
}

extern "C" __global__ void sparse_cross_entropy_gradient(const Int* start, const Int* places, const F* data,
                                                         const F* softmax, const F* g, F* out, Int width,
                                                         Int accumulate)
{
    const Int at = (Int)blockIdx.x * width;
    const F incoming = g[0];
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        out[at + j] = (accumulate ? out[at + j] : F(0)) + incoming * softmax[at + j];
    __syncthreads();
    // A row may name an element twice.
    if (threadIdx.x == 0)
        for (Int k = start[blockIdx.x]; k < start[blockIdx.x + 1]; ++k)
            out[at + places[k]] -= incoming * data[k];
}

// 1 for a row whose label is not among the N best: of equal scores the first counts as the best, and what cannot be
// compared counts as better.
static __device__ void count_error(const F* row, Int wanted, F best, F* error, Int width)
{
    const F score = row[wanted];
    Int ahead = 0;
    for (Int j = threadIdx.x; j < width; j += blockDim.x)
        ahead += !(row[j] < score || (row[j] == score && j >= wanted));
    ahead = block_count(ahead);
    if (threadIdx.x == 0)
        error[0] = ahead >= (Int)best ? F(1) : F(0);
}

extern "C" __global__ void classification_error(const F* labels, const F* scores, const F* best, F* errors, Int width)
{
    const Int at = (Int)blockIdx.x * width;
    const Int wanted = block_best(labels + at, width);
    count_error(scores + at, wanted, best[0], errors + blockIdx.x, width);
}

extern "C" __global__ void sparse_classification_error(const Int* wanted, const F* scores, const F* best, F* errors,
                                                       Int width)
{
    const Int at = (Int)blockIdx.x * width;
    count_error(scores + at, wanted[blockIdx.x], best[0], errors + blockIdx.x, width);
}
