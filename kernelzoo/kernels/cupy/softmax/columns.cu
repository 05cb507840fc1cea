// Neighbouring rows that lie side by side, as columns: a block holds what it can of them in registers, and reads the
// rest a second time. The kernel is columns<..., false> of columns.cuh.

#include "columns.cuh"
