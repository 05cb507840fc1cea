// One block per row of any length, in two passes. The first adds up. The second reads the row again and writes.
#include "gradient.cuh"
#include "../gradients/online.cuh"
