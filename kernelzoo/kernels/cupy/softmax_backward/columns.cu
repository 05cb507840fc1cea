// Neighbouring rows that lie side by side, as columns: a block holds what it can of them, and reads the rest again.

#include "../gradients/columns.cuh"
#include "gradient.cuh"

template <class T, int V, int ITEMS, int BATCH, int LANES, int THREADS>
__global__ void __launch_bounds__(THREADS, 512 / THREADS) columns(const Several<1> given, const int saved) {
  strips_of_block<SoftmaxBackward<T>, V, ITEMS, BATCH, LANES, THREADS, false>(given, nullptr, nullptr, 1, saved);
}
