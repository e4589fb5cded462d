// What every kernel begins with: the precision F, and the functions of scalar expressions with NumPy's treatment of
// values that are not numbers. NVRTC has no headers of its own, so nothing is included.

#ifdef USE_DOUBLE
typedef double F;
#define FN(name) name
#else
typedef float F;
#define FN(name) name##f
#endif

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif

#define LANES (16 / (int)sizeof(F))

struct __align__(16) Pack { F x[LANES]; };

#define UNARY(name, text) __device__ __forceinline__ F m_##name(F x) { return text; }
#define BINARY(name, text) __device__ __forceinline__ F m_##name(F x, F y) { return text; }

UNARY(exp, FN(exp)(x))
UNARY(log, FN(log)(x))
UNARY(log1p, FN(log1p)(x))
UNARY(expm1, FN(expm1)(x))
UNARY(sqrt, FN(sqrt)(x))
UNARY(tanh, FN(tanh)(x))
UNARY(sin, FN(sin)(x))
UNARY(cos, FN(cos)(x))
UNARY(tan, FN(tan)(x))
UNARY(sinh, FN(sinh)(x))
UNARY(cosh, FN(cosh)(x))
UNARY(arcsin, FN(asin)(x))
UNARY(arccos, FN(acos)(x))
UNARY(arctan, FN(atan)(x))
UNARY(arcsinh, FN(asinh)(x))
UNARY(arccosh, FN(acosh)(x))
UNARY(arctanh, FN(atanh)(x))
UNARY(erf, FN(erf)(x))
UNARY(abs, FN(fabs)(x))
UNARY(floor, FN(floor)(x))
UNARY(ceil, FN(ceil)(x))
UNARY(sigmoid, F(1) / (F(1) + FN(exp)(-x)))
UNARY(sign, x > F(0) ? F(1) : x < F(0) ? F(-1) : x)
BINARY(power, FN(pow)(x, y))
BINARY(minimum, x < y || x != x ? x : y)
BINARY(maximum, x > y || x != x ? x : y)

__device__ __forceinline__ F m_logaddexp(F x, F y)
{
    const F difference = x - y;
    if (x == y)
        return x + F(0.693147180559945309417);
    if (difference > F(0))
        return x + FN(log1p)(FN(exp)(-difference));
    if (difference <= F(0))
        return y + FN(log1p)(FN(exp)(difference));
    return difference;
}

#define WARP 0xffffffffu

// Sum, or largest value, of all threads of a warp; every thread of the warp has it.
__device__ __forceinline__ F warp_sum(F value)
{
    for (int step = 16; step; step >>= 1)
        value += __shfl_xor_sync(WARP, value, step);
    return value;
}

__device__ __forceinline__ F warp_max(F value)
{
    for (int step = 16; step; step >>= 1) {
        const F other = __shfl_xor_sync(WARP, value, step);
        value = m_maximum(value, other);
    }
    return value;
}
