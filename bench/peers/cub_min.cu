// The minimum of each row of a contiguous matrix by CUB, NaN kept as torch.amin keeps it. See peers.py.
#include <cub/cub.cuh>
#include <cuda_bf16.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

struct Min {
    template <typename T>
    __host__ __device__ T operator()(T a, T b) const {
        return (a < b || a != a) ? a : b;
    }
};

struct RowStart {
    long long columns;
    __host__ __device__ long long operator()(long long row) const { return row * columns; }
};

template <typename T>
int reduce(void* workspace, size_t* bytes, const T* x, T* out, long long rows, long long columns, T identity,
           cudaStream_t stream) {
    if (rows == 1)
        return cub::DeviceReduce::Reduce(workspace, *bytes, x, out, columns, Min{}, identity, stream);
    auto starts = thrust::make_transform_iterator(thrust::make_counting_iterator(0LL), RowStart{columns});
    return cub::DeviceSegmentedReduce::Reduce(workspace, *bytes, x, out, (int64_t)rows, starts, starts + 1, Min{},
                                              identity, stream);
}

extern "C" int min_f32(void* workspace, size_t* bytes, const float* x, float* out, long long rows, long long columns,
                       cudaStream_t stream) {
    return reduce(workspace, bytes, x, out, rows, columns, __builtin_huge_valf(), stream);
}

extern "C" int min_bf16(void* workspace, size_t* bytes, const __nv_bfloat16* x, __nv_bfloat16* out, long long rows,
                        long long columns, cudaStream_t stream) {
    return reduce(workspace, bytes, x, out, rows, columns, __nv_bfloat16(__builtin_huge_valf()), stream);
}
