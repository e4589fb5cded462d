// Quantizing and unquantizing columns on a GPU: the same numbers, bit for bit, as compiled.py and portable.py give.
//
// A block of LANES threads has a column. Thread l adds up what goes to lane l, so the sums do not depend on the device:
// see LANES in format.py. Words hold strided values: of the S words of a column, word i has the values i, i + S, ... So
// threads that fill neighbouring words read neighbouring values, and no votes of warps are needed to pack bits; where a
// column has fewer words than there are threads, several threads fill a word.
//
// LANES, SCALES, NEGLIGIBLE and STANDARD_DEVIATIONS are defined in front of this. To be compiled with --fmad=false.

template <class T> struct Types;
template <> struct Types<float> {
    typedef unsigned int Word;
    static __device__ float nan() { return __int_as_float(0x7fc00000); }
};
template <> struct Types<double> {
    typedef unsigned long long Word;
    static __device__ double nan() { return __longlong_as_double(0x7ff8000000000000ll); }
};

__device__ __forceinline__ float root(float value) { return sqrtf(value); }
__device__ __forceinline__ double root(double value) { return sqrt(value); }

// Where a column lies: its first value in the gradients and in the residual, its record, and how many values it has.
struct Column {
    long long at, kept, record, rows;
};

// The column of this block. A row of the table is one of Cut.blocks; firsts[i] columns are in the rows before row i.
__device__ __forceinline__ Column this_column(
    const long long* table, const long long* firsts, int count, long long words_of_rows) {
    long long number = blockIdx.x;
    int row = 0, end = count;
    while (end - row > 1) {
        int middle = (row + end) / 2;
        if (firsts[middle] <= number) row = middle;
        else end = middle;
    }
    const long long* found = table + 5 * row;
    long long before = number - firsts[row], rows = found[3];
    long long length = SCALES + (rows + words_of_rows - 1) / words_of_rows;
    return {found[0] + before * rows, found[1] + before * rows, found[2] + before * length, rows};
}

// Sums of COUNT banks of lanes by halves, of which thread l brings lane l. All threads get them.
template <class T, int COUNT>
__device__ __forceinline__ void add_lanes(T (&lanes)[COUNT], long long rows) {
    __shared__ T upper[COUNT][LANES / 2];
    __shared__ T totals[COUNT];
    const unsigned lane = threadIdx.x;
    unsigned width = LANES;
    while (width > 1 && width >= 2 * rows) width /= 2;
    if (width > 32) {
        if (lane >= 32)
            for (int bank = 0; bank < COUNT; bank++) upper[bank][lane - 32] = lanes[bank];
        __syncthreads();
        if (lane < 32)
            for (int bank = 0; bank < COUNT; bank++) lanes[bank] += upper[bank][lane];
        width = 32;
    }
    if (lane < 32) {
        for (unsigned by = width / 2; by > 0; by /= 2)
            for (int bank = 0; bank < COUNT; bank++)
                lanes[bank] += __shfl_down_sync(0xffffffffu, lanes[bank], by);
        if (lane == 0)
            for (int bank = 0; bank < COUNT; bank++) totals[bank] = lanes[bank];
    }
    __syncthreads();
    for (int bank = 0; bank < COUNT; bank++) lanes[bank] = totals[bank];
    __syncthreads();
}

// Sums of the values below a threshold and of the others, and how many are below.
template <class T>
__device__ __forceinline__ void split_value(T (&sums)[3], T value, T threshold) {
    const bool below = value < threshold;
    sums[0] += below ? value : T(0);
    sums[1] += below ? T(0) : value;
    sums[2] += below ? T(1) : T(0);
}

// Adds the gradients of a column to its residual; finds the ends of the range of the values.
template <class T, int BITS>
__device__ __forceinline__ void load(
    const T* gradients, T* residual, long long rows, bool by_sign, T& lower, T& upper) {
    const T count = T(rows);
    if (BITS == 1 && by_sign) {
        T sums[3] = {T(0), T(0), T(0)};
        for (long long row = threadIdx.x; row < rows; row += LANES) {
            const T value = residual[row] + gradients[row];
            residual[row] = value;
            split_value(sums, value, T(0));
        }
        add_lanes(sums, rows);
        const T mean0 = sums[0] / (sums[2] > T(1) ? sums[2] : T(1));
        const T more = count - sums[2];
        const T mean1 = sums[1] / (more > T(1) ? more : T(1));
        const T middle = T(0.5) * (mean0 + mean1);
        const T radius = T(2) * (mean1 - middle);
        lower = middle - radius, upper = middle + radius;
        return;
    }
    T sum[1] = {T(0)};
    for (long long row = threadIdx.x; row < rows; row += LANES) {
        const T value = residual[row] + gradients[row];
        residual[row] = value;
        sum[0] += BITS > 1 ? value * value : value;
    }
    add_lanes(sum, rows);
    if (BITS > 1) {
        upper = T(STANDARD_DEVIATIONS) * root(sum[0] / count);
        lower = -upper;
        return;
    }
    const T middle = sum[0] / count;
    T sums[3] = {T(0), T(0), T(0)};
    for (long long row = threadIdx.x; row < rows; row += LANES) split_value(sums, residual[row], middle);
    add_lanes(sums, rows);
    const T off = (sums[2] * middle - sums[0]) + (sums[1] - (count - sums[2]) * middle);
    const T radius = T(2) * (off / count);
    lower = middle - radius, upper = middle + radius;
}

// What the bits of a column stand for.
template <class T, int BITS>
struct Bins {
    static const int TOP = (1 << BITS) - 1;
    T lower, upper, threshold, factor, size;

    __device__ Bins(T lower, T upper, bool by_sign) : lower(lower), upper(upper) {
        const T used = T((1 << BITS) - (BITS > 1 ? 1 : 0)), span = upper - lower;
        threshold = by_sign ? T(0) : T(0.5) * (upper + lower);
        factor = span < T(NEGLIGIBLE) ? T(0) : used / span;
        size = span < T(NEGLIGIBLE) ? T(0) : span / used;
    }

    __device__ __forceinline__ int code(T value) const {
        if (BITS == 1) return value >= threshold;
        if (value >= upper) return TOP;
        return value > lower ? int((value - lower) * factor) : 0;
    }

    __device__ __forceinline__ T value(int code) const { return (T(code) + T(0.5)) * size + lower; }
};

// Calls work(word, place, row) for the values of a column; word and shift by place * BITS say where the bits lie. Each
// thread has some places of a word; done(word) follows them.
template <int PER_WORD, class Work, class Done>
__device__ __forceinline__ void for_words(long long rows, long long words, Work work, Done done) {
    const long long shares = words < LANES ? LANES / words : 1;
    const long long share = words < LANES ? threadIdx.x / words : 0;
    if (share >= shares) return;
    for (long long word = words < LANES ? threadIdx.x % words : threadIdx.x; word < words; word += LANES) {
        long long row = word + share * words;
        for (int place = share; place < PER_WORD && row < rows; place += shares, row += shares * words) work(word, place, row);
        done(word);
    }
}

template <class T, int BITS>
__global__ void __launch_bounds__(LANES) quantize(
    const T* __restrict__ gradients, T* __restrict__ residuals, typename Types<T>::Word* __restrict__ words,
    const long long* __restrict__ table, const long long* __restrict__ firsts, int count, int by_sign) {
    typedef typename Types<T>::Word Word;
    const int PER_WORD = 8 * sizeof(Word) / BITS;
    __shared__ Word filled[LANES];
    const Column column = this_column(table, firsts, count, PER_WORD);
    T* residual = residuals + column.kept;
    T lower, upper;
    load<T, BITS>(gradients + column.at, residual, column.rows, by_sign, lower, upper);
    const T span = upper - lower;
    if (!(span - span == T(0))) lower = upper = Types<T>::nan();
    T* scales = reinterpret_cast<T*>(words + column.record);
    if (threadIdx.x == 0) scales[0] = lower, scales[1] = upper;
    const Bins<T, BITS> bins(lower, upper, by_sign);
    Word* record = words + column.record + SCALES;
    const long long stride = (column.rows + PER_WORD - 1) / PER_WORD;
    const bool together = stride < LANES;
    filled[threadIdx.x] = 0;
    __syncthreads();
    Word found = 0;
    for_words<PER_WORD>(
        column.rows, stride,
        [&](long long word, int place, long long row) {
            const T value = residual[row];
            const int code = bins.code(value);
            found |= Word(code) << (place * BITS);
            residual[row] = value - bins.value(code);
        },
        [&](long long word) {
            if (together) atomicOr(&filled[word], found);
            else record[word] = found;
            found = 0;
        });
    __syncthreads();
    if (together && threadIdx.x < stride) record[threadIdx.x] = filled[threadIdx.x];
}

template <class T, int BITS>
__global__ void __launch_bounds__(LANES) unquantize(
    const typename Types<T>::Word* __restrict__ words, T* __restrict__ gradients,
    const long long* __restrict__ table, const long long* __restrict__ firsts, int count, int add) {
    typedef typename Types<T>::Word Word;
    const int PER_WORD = 8 * sizeof(Word) / BITS;
    const Column column = this_column(table, firsts, count, PER_WORD);
    const T* scales = reinterpret_cast<const T*>(words + column.record);
    const Bins<T, BITS> bins(scales[0], scales[1], true);
    const Word* record = words + column.record + SCALES;
    T* values = gradients + column.at;
    for_words<PER_WORD>(
        column.rows, (column.rows + PER_WORD - 1) / PER_WORD,
        [&](long long word, int place, long long row) {
            const T value = bins.value(int(record[word] >> (place * BITS) & Word(Bins<T, BITS>::TOP)));
            values[row] = add ? values[row] + value : value;
        },
        [](long long word) {});
}
