// Sums, places of minima and running sums of the rows of a contiguous matrix by CUB. See cub.py.
#include <cub/cub.cuh>
#include <cub/device/device_segmented_scan.cuh>
#include <cuda/iterator>
#include <cuda_bf16.h>

// Of a pair that CUB finds, a place and a minimum.
struct Place {
    template <typename Pair>
    __device__ long long operator()(const Pair& found) const { return found.first; }
};

// Where a row begins.
struct Begin {
    long long columns;
    __host__ __device__ long long operator()(long long row) const { return row * columns; }
};

// Half precision is added in float32.
using Add = cuda::std::plus<float>;

template <typename T>
int sum(void* workspace, size_t* bytes, const T* x, T* out, long long rows, long long columns, cudaStream_t stream) {
    if (rows == 1) return cub::DeviceReduce::Reduce(workspace, *bytes, x, out, columns, Add{}, 0.0f, stream);
    return cub::DeviceSegmentedReduce::Reduce(workspace, *bytes, x, out, rows, (int)columns, Add{}, 0.0f, stream);
}

template <typename T>
int argmin(void* workspace, size_t* bytes, const T* x, long long* out, long long rows, long long columns,
           cudaStream_t stream) {
    if (rows == 1)
        return cub::DeviceReduce::ArgMin(workspace, *bytes, x, cuda::make_discard_iterator(), out, columns, stream);
    auto places = cuda::make_transform_output_iterator(out, Place{});
    return cub::DeviceSegmentedReduce::ArgMin(workspace, *bytes, x, places, rows, (int)columns, stream);
}

template <typename T>
int cumsum(void* workspace, size_t* bytes, const T* x, T* out, long long rows, long long columns,
           cudaStream_t stream) {
    if (rows == 1)
        return cub::DeviceScan::InclusiveScanInit(workspace, *bytes, x, out, Add{}, 0.0f, columns, stream);
    auto begins = cuda::make_transform_iterator(cuda::make_counting_iterator(0LL), Begin{columns});
    return cub::DeviceSegmentedScan::InclusiveSegmentedScanInit(workspace, *bytes, x, out, begins, begins + 1, rows,
                                                                Add{}, 0.0f, stream);
}

#define EXPORTED(name, suffix, T, Out)                                                                              \
    extern "C" int name##_##suffix(void* workspace, size_t* bytes, const T* x, Out* out, long long rows,           \
                                   long long columns, cudaStream_t stream) {                                       \
        return name(workspace, bytes, x, out, rows, columns, stream);                                              \
    }
EXPORTED(sum, f32, float, float)
EXPORTED(sum, bf16, __nv_bfloat16, __nv_bfloat16)
EXPORTED(argmin, f32, float, long long)
EXPORTED(argmin, bf16, __nv_bfloat16, long long)
EXPORTED(cumsum, f32, float, float)
EXPORTED(cumsum, bf16, __nv_bfloat16, __nv_bfloat16)
