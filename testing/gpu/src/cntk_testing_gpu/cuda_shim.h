// What CUDA C++ has and C++ has not, for one processor: kernels as they are, run by cuda_shim.py.
//
// A block is run at a time. Each of its threads is a fibre that runs until it has to wait for others: at a barrier of the
// block or in an operation of its warp. The order in which fibres run can be chosen; a kernel without races gives the same
// numbers in every order. Fibres last from block to block, and change by _longjmp: what begins or leaves a context of its
// own asks the system each time.
#pragma once
#undef _FORTIFY_SOURCE  // its longjmp takes another stack for a broken one
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __constant__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct uint3 {
    unsigned x, y, z;
};

#define CUDA_SHIM_VECTORS(type, name)                                                                     \
    struct name##2 { type x, y; };                                                                        \
    struct name##4 { type x, y, z, w; };                                                                  \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                               \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
CUDA_SHIM_VECTORS(float, float)
CUDA_SHIM_VECTORS(double, double)
CUDA_SHIM_VECTORS(int, int)
CUDA_SHIM_VECTORS(unsigned, uint)
CUDA_SHIM_VECTORS(long long, longlong)
CUDA_SHIM_VECTORS(unsigned char, uchar)

namespace cuda_shim {

const unsigned WARP = 32, STACK = 1 << 16;
enum State { READY, AT_BLOCK, AT_WARP, DONE };

struct Fibre {
    jmp_buf place;  // where it goes on
    bool begun = false;
    uint3 thread;
    unsigned number;       // in the block
    State state;
    int line;              // where it waits
    unsigned mask;         // with which lanes it waits
    uint64_t brought;      // to what it waits in
    uint64_t found[WARP];  // what the lanes brought; of a barrier of the block, the sum in the first place
    std::unique_ptr<char[]> stack;
};

static std::vector<Fibre> fibres;
static Fibre* current;
static jmp_buf scheduler;
static dim3 grid, block, block_at;
static std::vector<double> dynamic;  // shared memory that the launch asks for
static std::string problem;
static void (*body)(void**);
static void** arguments;

static inline void wait(State state, int line, unsigned mask, uint64_t brought) {
    current->state = state, current->line = line, current->mask = mask, current->brought = brought;
    if (!_setjmp(current->place)) _longjmp(scheduler, 1);
}

static void run_fibre() {
    for (;;) {
        body(arguments);
        wait(DONE, 0, 0, 0);  // until there is a next block
    }
}

// Lets a fibre run until it waits.
static void resume(Fibre& one) {
    current = &one;
    if (_setjmp(scheduler)) return;
    if (one.begun) _longjmp(one.place, 1);
    one.begun = true, one.stack.reset(new char[STACK]);
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = one.stack.get(), context.uc_stack.ss_size = STACK, context.uc_link = nullptr;
    makecontext(&context, run_fibre, 0);
    setcontext(&context);
}

static std::string name_of(const Fibre& one) { return "thread " + std::to_string(one.number); }

// Lets a warp's lanes go on that have all come. False if none can.
static bool release_warp(unsigned first) {
    bool released = false;
    unsigned lanes = fibres.size() - first < WARP ? fibres.size() - first : WARP;
    for (unsigned lane = 0; lane < lanes; lane++) {
        Fibre& one = fibres[first + lane];
        if (one.state != AT_WARP) continue;
        if (!(one.mask >> lane & 1)) {
            problem = name_of(one) + " is not in the mask that it gives in line " + std::to_string(one.line);
            return false;
        }
        bool all = true;
        for (unsigned other = 0; other < WARP; other++) {
            if (!(one.mask >> other & 1)) continue;
            if (other >= lanes || fibres[first + other].state == DONE) {
                problem = name_of(one) + " waits in line " + std::to_string(one.line) + " for lane " +
                          std::to_string(other) + " of its warp, which has ended or is not there";
                return false;
            }
            const Fibre& there = fibres[first + other];
            all = all && there.state == AT_WARP && there.line == one.line && there.mask == one.mask;
        }
        if (!all) continue;
        for (unsigned other = 0; other < lanes; other++) {
            if (!(one.mask >> other & 1)) continue;
            Fibre& there = fibres[first + other];
            for (unsigned from = 0; from < lanes; from++)
                there.found[from] = one.mask >> from & 1 ? fibres[first + from].brought : 0;
        }
        unsigned mask = one.mask;
        for (unsigned other = 0; other < lanes; other++)
            if (mask >> other & 1) fibres[first + other].state = READY;
        released = true;
    }
    return released;
}

static bool release_block() {
    uint64_t sum = 0;
    const Fibre* first = nullptr;
    for (const Fibre& one : fibres) {
        if (one.state == DONE) continue;
        if (one.state != AT_BLOCK) return false;
        if (first && first->line != one.line) {
            problem = name_of(*first) + " waits for its block in line " + std::to_string(first->line) + ", " +
                      name_of(one) + " in line " + std::to_string(one.line);
            return false;
        }
        first = first ? first : &one;
        sum += one.brought;
    }
    if (!first) return false;
    unsigned waiting = 0;
    for (Fibre& one : fibres) waiting += one.state == AT_BLOCK;
    for (Fibre& one : fibres)
        if (one.state == AT_BLOCK) one.found[0] = sum, one.found[1] = waiting, one.state = READY;
    return true;
}

static void run_block(int order, uint64_t& random) {
    unsigned count = block.x * block.y * block.z;
    if (fibres.size() != count) fibres = std::vector<Fibre>(count);
    for (unsigned number = 0; number < count; number++) {
        Fibre& one = fibres[number];
        one.number = number, one.state = READY;
        one.thread = {number % block.x, number / block.x % block.y, number / block.x / block.y};
    }
    memset(dynamic.data(), 0xff, dynamic.size() * sizeof(double));  // not a number, whatever is read of it
    std::vector<unsigned> turns(count);
    for (unsigned place = 0; place < count; place++) turns[place] = order == 1 ? count - 1 - place : place;
    while (problem.empty()) {
        if (order == 2)
            for (unsigned place = count - 1; place > 0; place--) {
                random = random * 6364136223846793005ull + 1442695040888963407ull;
                std::swap(turns[place], turns[(random >> 33) % (place + 1)]);
            }
        bool moved = false, alive = false;
        for (unsigned number : turns) {
            Fibre& one = fibres[number];
            if (one.state == READY) {
                moved = true;
                resume(one);
            }
            alive = alive || one.state != DONE;
        }
        if (!alive) return;
        for (unsigned first = 0; first < count && problem.empty(); first += WARP) moved = release_warp(first) || moved;
        if (problem.empty()) moved = release_block() || moved;
        if (!moved && problem.empty()) {
            problem = "threads wait for each other in vain:";
            std::string said;
            for (const Fibre& one : fibres)
                if (one.state != DONE && said.size() < 300)
                    said += " " + name_of(one) + " in line " + std::to_string(one.line) + ",";
            said.pop_back();
            problem += said;
        }
    }
}

static int run(void (*kernel)(void**), void** given, const unsigned* sizes, size_t shared, int order, uint64_t seed) {
    grid = dim3(sizes[0], sizes[1], sizes[2]), block = dim3(sizes[3], sizes[4], sizes[5]);
    body = kernel, arguments = given, problem.clear();
    dynamic.assign((shared + sizeof(double) - 1) / sizeof(double), 0.0);
    uint64_t random = seed;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                block_at = dim3(x, y, z);
                run_block(order, random);
                if (!problem.empty()) {
                    fibres.clear();  // they wait inside the kernel for good
                    problem = "block (" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) +
                              "): " + problem;
                    return 1;
                }
            }
    return 0;
}

template <class... A, size_t... I>
static inline void call(void (*kernel)(A...), void** given, std::index_sequence<I...>) {
    kernel(*reinterpret_cast<typename std::remove_cv<A>::type*>(given[I])...);
}

template <class... A>
static inline void call(void (*kernel)(A...), void** given) {
    call(kernel, given, std::index_sequence_for<A...>());
}

static inline unsigned lane() { return current->number % WARP; }

template <class T>
static inline uint64_t bits(T value) {
    static_assert(sizeof(T) <= 8, "warps exchange at most 8 bytes");
    uint64_t found = 0;
    memcpy(&found, &value, sizeof(T));
    return found;
}

template <class T>
static inline T value_of(uint64_t bits) {
    T found;
    memcpy(&found, &bits, sizeof(T));
    return found;
}

// The value of a lane; the own one where that lane does not take part, as the hardware leaves it open.
template <class T>
static inline T shuffle(int line, unsigned mask, T value, int from, bool inside) {
    wait(AT_WARP, line, mask, bits(value));
    return inside && (mask >> from & 1) ? value_of<T>(current->found[from]) : value;
}

static inline unsigned ballot(int line, unsigned mask, bool holds) {
    wait(AT_WARP, line, mask, holds);
    unsigned found = 0;
    for (unsigned lane = 0; lane < WARP; lane++)
        if (mask >> lane & 1) found |= unsigned(current->found[lane]) << lane;
    return found;
}

template <class T, class F>
static inline T reduce(int line, unsigned mask, T value, F join) {
    wait(AT_WARP, line, mask, bits(value));
    bool begun = false;
    T found = value;
    for (unsigned lane = 0; lane < WARP; lane++)
        if (mask >> lane & 1) {
            T one = value_of<T>(current->found[lane]);
            found = begun ? join(found, one) : one;
            begun = true;
        }
    return found;
}

static inline uint64_t sync(int line, uint64_t brought) {
    wait(AT_BLOCK, line, 0, brought);
    return current->found[0];
}

template <class T, class F>
static inline T atomic(T* place, F next) {
    T before = *place;
    *place = next(before);
    return before;
}

}  // namespace cuda_shim

#define threadIdx (cuda_shim::current->thread)
#define blockIdx (cuda_shim::block_at)
#define blockDim (cuda_shim::block)
#define gridDim (cuda_shim::grid)
#define warpSize 32

#define __syncthreads() ((void)cuda_shim::sync(__LINE__, 0))
#define __syncthreads_count(p) ((int)cuda_shim::sync(__LINE__, (p) ? 1 : 0))
#define __syncthreads_or(p) (cuda_shim::sync(__LINE__, (p) ? 1 : 0) ? 1 : 0)
#define __syncthreads_and(p) (cuda_shim::sync(__LINE__, (p) ? 0 : 1) ? 0 : 1)
#define CUDA_SHIM_FIRST(a, ...) a
#define __syncwarp(...) ((void)cuda_shim::ballot(__LINE__, CUDA_SHIM_FIRST(__VA_ARGS__ __VA_OPT__(,) 0xffffffffu, 0), true))
#define __ballot_sync(mask, p) cuda_shim::ballot(__LINE__, mask, (p) ? true : false)
#define __any_sync(mask, p) (cuda_shim::ballot(__LINE__, mask, (p) ? true : false) ? 1 : 0)
#define __all_sync(mask, p) (cuda_shim::ballot(__LINE__, mask, (p) ? false : true) ? 0 : 1)
#define __shfl_sync(...) cuda_shim::shfl(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) cuda_shim::shfl_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) cuda_shim::shfl_down(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) cuda_shim::shfl_xor(__LINE__, __VA_ARGS__)
#define __reduce_add_sync(mask, v) cuda_shim::reduce(__LINE__, mask, v, [](auto a, auto b) { return a + b; })
#define __reduce_min_sync(mask, v) cuda_shim::reduce(__LINE__, mask, v, [](auto a, auto b) { return a < b ? a : b; })
#define __reduce_max_sync(mask, v) cuda_shim::reduce(__LINE__, mask, v, [](auto a, auto b) { return a > b ? a : b; })
#define __reduce_and_sync(mask, v) cuda_shim::reduce(__LINE__, mask, v, [](auto a, auto b) { return a & b; })
#define __reduce_or_sync(mask, v) cuda_shim::reduce(__LINE__, mask, v, [](auto a, auto b) { return a | b; })
#define __reduce_xor_sync(mask, v) cuda_shim::reduce(__LINE__, mask, v, [](auto a, auto b) { return a ^ b; })

namespace cuda_shim {

template <class T>
static inline T shfl(int line, unsigned mask, T value, int from, int width = 32) {
    int first = int(lane()) / width * width;
    return shuffle(line, mask, value, first + (from & (width - 1)), true);
}
template <class T>
static inline T shfl_up(int line, unsigned mask, T value, unsigned by, int width = 32) {
    int from = int(lane()) - int(by);
    return shuffle(line, mask, value, from < 0 ? 0 : from, from >= int(lane()) / width * width);
}
template <class T>
static inline T shfl_down(int line, unsigned mask, T value, unsigned by, int width = 32) {
    int from = int(lane()) + int(by);
    return shuffle(line, mask, value, from & 31, from < (int(lane()) / width + 1) * width);
}
template <class T>
static inline T shfl_xor(int line, unsigned mask, T value, int by, int width = 32) {
    int from = int(lane()) ^ by;
    return shuffle(line, mask, value, from & 31, from < (int(lane()) / width + 1) * width);
}

}  // namespace cuda_shim

static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
    unsigned found = 0;
    for (int bit = 0; bit < 32; bit++) found |= (x >> bit & 1) << (31 - bit);
    return found;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __float_as_int(float x) { return cuda_shim::value_of<int>(cuda_shim::bits(x)); }
static inline unsigned __float_as_uint(float x) { return cuda_shim::value_of<unsigned>(cuda_shim::bits(x)); }
static inline float __int_as_float(int x) { return cuda_shim::value_of<float>(cuda_shim::bits(x)); }
static inline float __uint_as_float(unsigned x) { return cuda_shim::value_of<float>(cuda_shim::bits(x)); }
static inline long long __double_as_longlong(double x) { return cuda_shim::value_of<long long>(cuda_shim::bits(x)); }
static inline double __longlong_as_double(long long x) { return cuda_shim::value_of<double>(cuda_shim::bits(x)); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double a) { return sqrt(a); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
#define __expf expf  // the C library has the name, too
#define __logf logf
#define __powf powf
#define __sinf sinf
#define __cosf cosf
static inline float __fdividef(float a, float b) { return a / b; }
static inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }
static inline double rsqrt(double a) { return 1.0 / sqrt(a); }

#define CUDA_SHIM_MIN_MAX(T)                                      \
    static inline T min(T a, T b) { return b < a ? b : a; }       \
    static inline T max(T a, T b) { return a < b ? b : a; }
CUDA_SHIM_MIN_MAX(int)
CUDA_SHIM_MIN_MAX(unsigned)
CUDA_SHIM_MIN_MAX(long)
CUDA_SHIM_MIN_MAX(unsigned long)
CUDA_SHIM_MIN_MAX(long long)
CUDA_SHIM_MIN_MAX(unsigned long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

template <class T> static inline T __ldg(const T* place) { return *place; }
template <class T> static inline T __ldcs(const T* place) { return *place; }
template <class T> static inline void __stcs(T* place, T value) { *place = value; }
template <class T, class V> static inline T atomicAdd(T* place, V value) {
    return cuda_shim::atomic(place, [&](T before) { return T(before + value); });
}
template <class T, class V> static inline T atomicSub(T* place, V value) {
    return cuda_shim::atomic(place, [&](T before) { return T(before - value); });
}
template <class T, class V> static inline T atomicExch(T* place, V value) {
    return cuda_shim::atomic(place, [&](T) { return T(value); });
}
template <class T, class V> static inline T atomicMin(T* place, V value) {
    return cuda_shim::atomic(place, [&](T before) { return T(value) < before ? T(value) : before; });
}
template <class T, class V> static inline T atomicMax(T* place, V value) {
    return cuda_shim::atomic(place, [&](T before) { return before < T(value) ? T(value) : before; });
}
template <class T, class V> static inline T atomicAnd(T* place, V value) {
    return cuda_shim::atomic(place, [&](T before) { return T(before & value); });
}
template <class T, class V> static inline T atomicOr(T* place, V value) {
    return cuda_shim::atomic(place, [&](T before) { return T(before | value); });
}
template <class T, class V> static inline T atomicXor(T* place, V value) {
    return cuda_shim::atomic(place, [&](T before) { return T(before ^ value); });
}
template <class T, class U, class V> static inline T atomicCAS(T* place, U expected, V value) {
    return cuda_shim::atomic(place, [&](T before) { return before == T(expected) ? T(value) : before; });
}
