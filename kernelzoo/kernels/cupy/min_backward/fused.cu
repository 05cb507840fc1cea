// One block per row, which stays in registers, a bit to an element, read once.

#include "../gradients/fused.cuh"
#include "gradient.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(1024) fused(const Several<2> given) {
  row_of_block<MinBackward<T>, V, ITEMS>(given);
}
