// Columns that several blocks of a co-operative launch share. The kernel is columns<..., true> of columns.cuh.

#include "columns.cuh"
