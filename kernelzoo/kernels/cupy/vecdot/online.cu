// Dot products by a running sum over two rows of any length, which are read once.

#include "../gradients/sums.cuh"
#include "../softmax_backward/gradient.cuh"

template <class T, int V, int ITEMS, int WARP_A_ROW>
__global__ void __launch_bounds__(512, 2) online(const Several<1> given) {
  sums_of_rows<SoftmaxBackward<T>, V, ITEMS, WARP_A_ROW>(given);
}
