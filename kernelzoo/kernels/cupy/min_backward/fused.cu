// One block per row, or several short ones, or columns, which stay in registers, a bit to an element, read once.

#include "../gradients/fused.cuh"
#include "gradient.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(1024) fused(const Several<2> given) {
  row_of_block<MinBackward<T>, V, ITEMS>(given);
}

template <class T, int V, int LANES, int ITEMS, int ROWS, int EDGES>
__global__ void __launch_bounds__(128, 4) multi_row_tile(const Several<2> given) {
  rows_of_block<MinBackward<T>, V, LANES, ITEMS, ROWS, EDGES>(given);
}

template <class T, int V, int ITEMS, int BATCH, int LANES, int THREADS>
__global__ void __launch_bounds__(THREADS, 512 / THREADS)
    columns(const Several<2> given, u64* partial, u64* arrived, const int parts, const int saved) {
  strips_of_block<MinBackward<T>, V, ITEMS, BATCH, LANES, THREADS>(given, partial, arrived, parts, saved);
}
