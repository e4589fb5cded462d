// Products with sparse rows: neither the input nor the gradient of the weights is ever there as a whole.

typedef long long Int;

// out[row, :] = sum of data[k] * weights[places[k], :] over the elements of the row; a block for each row and 256 columns.
extern "C" __global__ void multiply(const Int* start, const Int* places, const F* data, const F* weights, F* out,
                                    Int width)
{
    const Int row = blockIdx.x, j = (Int)blockIdx.y * blockDim.x + threadIdx.x;
    if (j >= width)
        return;
    F sum = F(0);
    for (Int k = start[row]; k < start[row + 1]; ++k)
        sum += data[k] * weights[places[k] * width + j];
    out[row * width + j] = sum;
}

// gradient[column, :] += sum of data[k] * g[rows[k], :] over the rows that name the column. ``count[0]`` columns occur;
// blocks take one after the other.
extern "C" __global__ void add_columns(const Int* count, const Int* columns, const Int* start, const Int* rows,
                                       const F* data, const F* g, F* gradient, Int width)
{
    const Int j = (Int)blockIdx.y * blockDim.x + threadIdx.x;
    if (j >= width)
        return;
    for (Int c = blockIdx.x; c < count[0]; c += gridDim.x) {
        F sum = F(0);
        for (Int k = start[c]; k < start[c + 1]; ++k)
            sum += data[k] * g[rows[k] * width + j];
        gradient[columns[c] * width + j] += sum;
    }
}
