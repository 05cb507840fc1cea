// LANES lanes per row, ROWS rows per group of lanes, all of them loaded before the first is used.

#include "../gradients/multi_row_tile.cuh"
#include "gradient.cuh"

template <class T, int V, int LANES, int ITEMS, int ROWS, int EDGES>
__global__ void __launch_bounds__(128, 4) multi_row_tile(const Several<1> given) {
  rows_of_block<SoftmaxBackward<T>, V, LANES, ITEMS, ROWS, EDGES>(given);
}
