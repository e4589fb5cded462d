// Windows over samples of four axes, whose numbers stand before this text: sizes S, kernel K, strides T, padding before
// the first element L, windows N, distance of a kernel's places D.

#define SIZE (S0 * S1 * S2 * S3)
#define KERNEL (K0 * K1 * K2 * K3)
#define PLACES (N0 * N1 * N2 * N3)

typedef long long Int;

#define SPLIT(index, A1, A2, A3, a, b, c, d)                                                                           \
    const int d = (index) % (A3), c = (index) / (A3) % (A2), b = (index) / (A3) / (A2) % (A1),                          \
              a = (index) / (A3) / (A2) / (A1);

// Calls ``body`` with ``k``, ``p`` for each place k of a kernel and window p along one axis that has element x there.
// Where places stand side by side, the next one is known; else each of them is tried.
#define COVERING(x, K, T, L, N, D, k, p)                                                                               \
    for (int k = (D) == 1 ? first_place((x) + (L), T, N) : 0, p = ((x) + (L) - k) / (T);                                \
         k < (K) && k * (D) <= (x) + (L);                                                                              \
         k += (D) == 1 ? (T) : 1, p = ((x) + (L) - k * (D)) / (T))                                                     \
        if ((D) == 1 || (p * (T) == (x) + (L) - k * (D) && p < (N)))

__device__ __forceinline__ int first_place(int x, int step, int count)
{
    const int low = x - (count - 1) * step > 0 ? x - (count - 1) * step : 0;
    return x < low ? low : low + (x - low) % step;
}

#ifdef WANT_CONVOLUTION

// cols[k, f, p] = what window p of sample f has at place k.
extern "C" __global__ void im2col(const F* data, F* cols, Int frames)
{
    const Int columns = frames * PLACES, stride = (Int)gridDim.x * blockDim.x;
    for (int k = blockIdx.y; k < KERNEL; k += gridDim.y) {
        SPLIT(k, K1, K2, K3, k0, k1, k2, k3)
        for (Int i = (Int)blockIdx.x * blockDim.x + threadIdx.x; i < columns; i += stride) {
            const int p = (int)(i % PLACES);
            SPLIT(p, N1, N2, N3, p0, p1, p2, p3)
            const int x0 = p0 * T0 - L0 + k0 * D0, x1 = p1 * T1 - L1 + k1 * D1;
            const int x2 = p2 * T2 - L2 + k2 * D2, x3 = p3 * T3 - L3 + k3 * D3;
            const bool inside = x0 >= 0 && x0 < S0 && x1 >= 0 && x1 < S1 && x2 >= 0 && x2 < S2 && x3 >= 0 && x3 < S3;
            cols[k * columns + i] = inside ? data[i / PLACES * SIZE + ((x0 * S1 + x1) * S2 + x2) * S3 + x3] : F(0);
        }
    }
}

// data[f, x] = (or +=) the sum of cols[k, f, p] over all windows p that have element x at place k.
extern "C" __global__ void col2im(const F* cols, F* data, Int frames, Int accumulate)
{
    const Int columns = frames * PLACES, count = frames * SIZE, stride = (Int)gridDim.x * blockDim.x;
    for (Int i = (Int)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const int x = (int)(i % SIZE);
        const Int begin = i / SIZE * PLACES;
        SPLIT(x, S1, S2, S3, x0, x1, x2, x3)
        F sum = F(0);
        COVERING(x0, K0, T0, L0, N0, D0, k0, p0)
        COVERING(x1, K1, T1, L1, N1, D1, k1, p1)
        COVERING(x2, K2, T2, L2, N2, D2, k2, p2)
        COVERING(x3, K3, T3, L3, N3, D3, k3, p3)
            sum += cols[(Int)(((k0 * K1 + k1) * K2 + k2) * K3 + k3) * columns + begin
                        + ((p0 * N1 + p1) * N2 + p2) * N3 + p3];
        data[i] = accumulate ? data[i] + sum : sum;
    }
}

#endif

#ifdef WANT_AVERAGE

// How many elements a window covers, padding left out.
static __device__ int covered(int p0, int p1, int p2, int p3)
{
    int count = 1;
    const int p[4] = {p0, p1, p2, p3}, sizes[4] = {S0, S1, S2, S3}, kernel[4] = {K0, K1, K2, K3};
    const int steps[4] = {T0, T1, T2, T3}, lower[4] = {L0, L1, L2, L3};
    #pragma unroll
    for (int axis = 0; axis < 4; ++axis) {
        const int begin = p[axis] * steps[axis] - lower[axis], end = begin + kernel[axis];
        count *= (end < sizes[axis] ? end : sizes[axis]) - (begin > 0 ? begin : 0);
    }
    return count;
}

#endif

// Calls the loops over the elements that window p covers; x is the element's place in the sample.
#define INSIDE                                                                                                         \
    for (int k0 = 0; k0 < K0; ++k0)                                                                                     \
    for (int k1 = 0; k1 < K1; ++k1)                                                                                     \
    for (int k2 = 0; k2 < K2; ++k2)                                                                                     \
    for (int k3 = 0; k3 < K3; ++k3) {                                                                                   \
        const int x0 = p0 * T0 - L0 + k0, x1 = p1 * T1 - L1 + k1, x2 = p2 * T2 - L2 + k2, x3 = p3 * T3 - L3 + k3;       \
        if (x0 < 0 || x0 >= S0 || x1 < 0 || x1 >= S1 || x2 < 0 || x2 >= S2 || x3 < 0 || x3 >= S3)                       \
            continue;                                                                                                   \
        const int x = ((x0 * S1 + x1) * S2 + x2) * S3 + x3;

#ifdef WANT_AVERAGE

extern "C" __global__ void average(const F* data, F* out, Int frames, Int padding)
{
    const Int count = frames * PLACES, stride = (Int)gridDim.x * blockDim.x;
    for (Int i = (Int)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const F* sample = data + i / PLACES * SIZE;
        const int p = (int)(i % PLACES);
        SPLIT(p, N1, N2, N3, p0, p1, p2, p3)
        F sum = F(0);
        INSIDE
            sum += sample[x];
        }
        out[i] = sum / F(padding ? KERNEL : covered(p0, p1, p2, p3));
    }
}

extern "C" __global__ void average_gradient(const F* g, F* data, Int frames, Int padding, Int accumulate)
{
    const Int count = frames * SIZE, stride = (Int)gridDim.x * blockDim.x;
    for (Int i = (Int)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const int x = (int)(i % SIZE);
        const F* incoming = g + i / SIZE * PLACES;
        SPLIT(x, S1, S2, S3, x0, x1, x2, x3)
        F sum = F(0);
        COVERING(x0, K0, T0, L0, N0, D0, k0, p0)
        COVERING(x1, K1, T1, L1, N1, D1, k1, p1)
        COVERING(x2, K2, T2, L2, N2, D2, k2, p2)
        COVERING(x3, K3, T3, L3, N3, D3, k3, p3)
            sum += incoming[((p0 * N1 + p1) * N2 + p2) * N3 + p3] / F(padding ? KERNEL : covered(p0, p1, p2, p3));
        data[i] = accumulate ? data[i] + sum : sum;
    }
}

#endif

#ifdef WANT_LARGEST

static __device__ F largest_of(const F* sample, int p)
{
    SPLIT(p, N1, N2, N3, p0, p1, p2, p3)
    F best = -INFINITY;
    INSIDE
        best = m_maximum(best, sample[x]);
    }
    return best;
}

extern "C" __global__ void largest(const F* data, F* out, Int frames)
{
    const Int count = frames * PLACES, stride = (Int)gridDim.x * blockDim.x;
    for (Int i = (Int)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        out[i] = largest_of(data + i / PLACES * SIZE, (int)(i % PLACES));
}

// Where in its sample the first largest element of each window stands; -1 if nothing compares equal to it.
extern "C" __global__ void largest_places(const F* data, int* places, Int frames)
{
    const Int count = frames * PLACES, stride = (Int)gridDim.x * blockDim.x;
    for (Int i = (Int)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const F* sample = data + i / PLACES * SIZE;
        const int p = (int)(i % PLACES);
        const F best = largest_of(sample, p);
        SPLIT(p, N1, N2, N3, p0, p1, p2, p3)
        int found = -1;
        INSIDE
            if (found < 0 && sample[x] == best)
                found = x;
        }
        places[i] = found;
    }
}

extern "C" __global__ void largest_gradient(const F* g, const int* places, F* data, Int frames, Int accumulate)
{
    const Int count = frames * SIZE, stride = (Int)gridDim.x * blockDim.x;
    for (Int i = (Int)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const int x = (int)(i % SIZE);
        const Int begin = i / SIZE * PLACES;
        SPLIT(x, S1, S2, S3, x0, x1, x2, x3)
        F sum = F(0);
        COVERING(x0, K0, T0, L0, N0, D0, k0, p0)
        COVERING(x1, K1, T1, L1, N1, D1, k1, p1)
        COVERING(x2, K2, T2, L2, N2, D2, k2, p2)
        COVERING(x3, K3, T3, L3, N3, D3, k3, p3) {
            const Int at = begin + ((p0 * N1 + p1) * N2 + p2) * N3 + p3;
            if (places[at] == x)
                sum += g[at];
        }
        data[i] = accumulate ? data[i] + sum : sum;
    }
}

#endif
