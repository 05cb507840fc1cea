// One block per row, or several short ones, or columns, which stay in registers, read once.

#include "../gradients/fused.cuh"
#include "gradient.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(1024) fused(const Several<1> given) {
  row_of_block<SoftmaxBackward<T>, V, ITEMS>(given);
}

template <class T, int V, int LANES, int ITEMS, int ROWS, int EDGES>
__global__ void __launch_bounds__(128, 4) multi_row_tile(const Several<1> given) {
  rows_of_block<SoftmaxBackward<T>, V, LANES, ITEMS, ROWS, EDGES>(given);
}

template <class T, int V, int ITEMS, int BATCH, int LANES, int THREADS>
__global__ void __launch_bounds__(THREADS, 512 / THREADS)
    columns(const Several<1> given, Wide<T>* partial, u64* arrived, const int parts, const int saved) {
  strips_of_block<SoftmaxBackward<T>, V, ITEMS, BATCH, LANES, THREADS>(given, partial, arrived, parts, saved);
}
