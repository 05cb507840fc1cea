// One block per row of any length, two passes: a running sum, then a second look that writes.
#include "gradient.cuh"
#include "../gradients/online.cuh"
