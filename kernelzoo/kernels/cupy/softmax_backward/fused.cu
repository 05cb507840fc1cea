// One block per row, which stays in registers, read once.

#include "../gradients/fused.cuh"
#include "gradient.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(1024) fused(const Several<1> given) {
  row_of_block<SoftmaxBackward<T>, V, ITEMS>(given);
}
