// One block per row of any length, two passes: the first adds up, the second reads again and writes.
#include "gradient.cuh"
#include "../gradients/online.cuh"
