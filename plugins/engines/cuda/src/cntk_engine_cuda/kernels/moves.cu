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

// Four parts of the columns of a matrix; part k has ``many`` columns from ``first`` on. Those that are not there have none.
struct Parts { Int first[4], many[4]; };

#define PARTS const Parts parts = {{f0, f1, f2, f3}, {w0, w1, w2, w3}};

// out_k = the columns of part k of ``in``, of ``width`` columns.
extern "C" __global__ void split_columns(const F* in, F* out0, F* out1, F* out2, F* out3, Int rows, Int width, Int f0,
                                         Int f1, Int f2, Int f3, Int w0, Int w1, Int w2, Int w3)
{
    PARTS
    F* const out[4] = {out0, out1, out2, out3};
    const Int all = w0 + w1 + w2 + w3, stride = (Int)gridDim.x * blockDim.x;
    for (Int i = (Int)blockIdx.x * blockDim.x + threadIdx.x; i < rows * all; i += stride) {
        const Int row = i / all;
        Int column = i - row * all;
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (column >= 0 && column < parts.many[k])
                out[k][row * parts.many[k] + column] = in[row * width + parts.first[k] + column];
            column -= parts.many[k];
        }
    }
}

// out = (or +=) the parts in their columns, and zeros elsewhere; no two parts share a column.
extern "C" __global__ void join_columns(const F* in0, const F* in1, const F* in2, const F* in3, F* out, Int rows,
                                        Int width, Int f0, Int f1, Int f2, Int f3, Int w0, Int w1, Int w2, Int w3,
                                        Int accumulate)
{
    PARTS
    const F* const in[4] = {in0, in1, in2, in3};
    const Int stride = (Int)gridDim.x * blockDim.x;
    for (Int i = (Int)blockIdx.x * blockDim.x + threadIdx.x; i < rows * width; i += stride) {
        const Int row = i / width, column = i - row * width;
        F value = F(0);
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            const Int place = column - parts.first[k];
            if (place >= 0 && place < parts.many[k])
                value = in[k][row * parts.many[k] + place];
        }
        out[i] = accumulate ? out[i] + value : value;
    }
}
