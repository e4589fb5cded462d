// Dropout with the random numbers of every engine: Philox 4x64 with 10 rounds, as NumPy counts it.

typedef unsigned long long Word;

__device__ __forceinline__ void philox(Word counter, Word step, Word seed, Word node, Word* out)
{
    Word c0 = counter, c1 = 0, c2 = 0, c3 = step, k0 = seed, k1 = node;
    #pragma unroll
    for (int round = 0; round < 10; ++round) {
        const Word h0 = __umul64hi(0xD2E7470EE14C6C93ull, c0), l0 = 0xD2E7470EE14C6C93ull * c0;
        const Word h1 = __umul64hi(0xCA5A826395121157ull, c2), l1 = 0xCA5A826395121157ull * c2;
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 += 0x9E3779B97F4A7C15ull;
        k1 += 0xBB67AE8584CAA73Bull;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

// out = in * mask (or out += in * mask). Element i takes the number ``first + i`` of the stream, in single precision;
// a thread computes eight numbers, and uses those that its elements take.
extern "C" __global__ void dropout(const F* in, F* out, const Word* step, const double* rate, Word seed, Word node,
                                   Word first, long long count, long long accumulate)
{
    const Word blocks = (first % 8 + (Word)count + 7) / 8;
    const Word stride = (Word)gridDim.x * blockDim.x;
    const float dropped = (float)rate[0];
    const F factor = F(1.0 / (1.0 - rate[0]));
    for (Word b = (Word)blockIdx.x * blockDim.x + threadIdx.x; b < blocks; b += stride) {
        Word words[4];
        philox(first / 8 + b + 1, step[0], seed, node, words);
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
            const long long i = (long long)(8 * b + n) - (long long)(first % 8);
            if (i < 0 || i >= count)
                continue;
            const unsigned half = (unsigned)(n % 2 ? words[n / 2] >> 32 : words[n / 2]);
            const float number = (float)(half >> 8) * (1.0f / 16777216.0f);
            const F value = in[i] * (number >= dropped ? factor : F(0));
            out[i] = accumulate ? out[i] + value : value;
        }
    }
}
