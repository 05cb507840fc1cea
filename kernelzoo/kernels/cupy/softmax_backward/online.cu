// One block per row of any length, two passes: a running sum, then a second look that writes.

#include "../gradients/online.cuh"
#include "gradient.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(512, ONLINE_BLOCKS) online(const Several<1> given) {
  row_twice<SoftmaxBackward<T>, V, ITEMS>(given);
}
