// out[i0, i1, i2, i3] = (or +=) in[i0 * s0 + i1 * s1 + i2 * s2 + i3 * s3] for out of d0 x d1 x d2 x d3.
extern "C" __global__ void turn_axes(const F* in, F* out, long long d0, long long d1, long long d2, long long d3,
                                     long long s0, long long s1, long long s2, long long s3, long long accumulate)
{
    const long long count = d0 * d1 * d2 * d3, stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const long long i3 = i % d3, i2 = i / d3 % d2, i1 = i / (d3 * d2) % d1, i0 = i / (d3 * d2 * d1);
        const F value = in[i0 * s0 + i1 * s1 + i2 * s2 + i3 * s3];
        out[i] = accumulate ? out[i] + value : value;
    }
}
