// Elements that get other places: a box of up to four axes goes from one array to another.

typedef long long Int;

#define SPLIT(T)                                                                                                       \
    {                                                                                                                  \
        const T j = (T)i, r3 = j / (T)n3, r2 = r3 / (T)n2, r1 = r2 / (T)n1;                                            \
        from = first_in + (Int)r1 * i0 + (Int)(r2 - r1 * (T)n1) * i1 + (Int)(r3 - r2 * (T)n2) * i2                     \
               + (Int)(j - r3 * (T)n3) * i3;                                                                           \
        to = first_out + (Int)r1 * o0 + (Int)(r2 - r1 * (T)n1) * o1 + (Int)(r3 - r2 * (T)n2) * o2                      \
             + (Int)(j - r3 * (T)n3) * o3;                                                                             \
    }

// out[first_out + c . o] = (or +=) in[first_in + c . i] for all places c of a box of ``count`` elements, whose axes
// behind the first have n1, n2 and n3.
extern "C" __global__ void move_box(const F* in, F* out, Int count, Int n1, Int n2, Int n3, Int first_in, Int i0,
                                    Int i1, Int i2, Int i3, Int first_out, Int o0, Int o1, Int o2, Int o3,
                                    Int accumulate)
{
    const Int stride = (Int)gridDim.x * blockDim.x;
    for (Int i = (Int)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        Int from, to;
        if (count < 2147483648ll) // processors divide by 32 bits much faster
            SPLIT(unsigned)
        else
            SPLIT(Int)
        out[to] = accumulate ? out[to] + in[from] : in[from];
    }
}
