// Several blocks to a row, or to a strip of columns, wait for each other's sums in one co-operative launch.

#include "../gradients/columns.cuh"
#include "../gradients/split_grid.cuh"
#include "gradient.cuh"

template <class T, int V, int ITEMS, int BATCH>
__global__ void __launch_bounds__(512, 1)
    split_grid(const Several<2> given, u64* partial, u64* arrived, const int chunks, const int saved) {
  rows_of_blocks<MinBackward<T>, V, ITEMS, BATCH>(given, partial, arrived, chunks, saved);
}

template <class T, int V, int ITEMS, int BATCH, int LANES, int THREADS>
__global__ void __launch_bounds__(THREADS, 512 / THREADS)
    columns_grid(const Several<2> given, u64* partial, u64* arrived, const int parts, const int saved) {
  strips_of_block<MinBackward<T>, V, ITEMS, BATCH, LANES, THREADS, true>(given, partial, arrived, parts, saved);
}
