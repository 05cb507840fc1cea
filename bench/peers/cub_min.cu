// The minimum of each row of a contiguous matrix by CUB. See cub.py, which says where each call is documented.
#include <cub/cub.cuh>
#include <cuda_bf16.h>

// The smaller one, NaN if either is NaN, as torch.amin has it: one instruction, as in cub::DeviceReduce::Min.
struct KeepsNan {
    __device__ float operator()(float a, float b) const {
        float least;
        asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
        return least;
    }
    __device__ __nv_bfloat16 operator()(__nv_bfloat16 a, __nv_bfloat16 b) const { return __hmin_nan(a, b); }
};

template <typename T>
int least(void* workspace, size_t* bytes, const T* x, T* out, long long rows, long long columns, T identity,
          cudaStream_t stream) {
    if (rows == 1) return cub::DeviceReduce::Reduce(workspace, *bytes, x, out, columns, KeepsNan{}, identity, stream);
#if CUB_VERSION >= 300200
    return cub::DeviceSegmentedReduce::Reduce(workspace, *bytes, x, out, rows, (int)columns, KeepsNan{}, identity,
                                              stream);
#else
    return cudaErrorNotSupported;
#endif
}

template <typename T>
int plain(void* workspace, size_t* bytes, const T* x, T* out, long long rows, long long columns, cudaStream_t stream) {
    if (rows == 1) return cub::DeviceReduce::Min(workspace, *bytes, x, out, columns, stream);
#if CUB_VERSION >= 300200
    return cub::DeviceSegmentedReduce::Min(workspace, *bytes, x, out, rows, (int)columns, stream);
#else
    return cudaErrorNotSupported;
#endif
}

extern "C" int library_f32(void* workspace, size_t* bytes, const float* x, float* out, long long rows,
                           long long columns, cudaStream_t stream) {
    return least(workspace, bytes, x, out, rows, columns, __builtin_huge_valf(), stream);
}

extern "C" int library_bf16(void* workspace, size_t* bytes, const __nv_bfloat16* x, __nv_bfloat16* out, long long rows,
                            long long columns, cudaStream_t stream) {
    return least(workspace, bytes, x, out, rows, columns, __nv_bfloat16(__builtin_huge_valf()), stream);
}

extern "C" int plain_f32(void* workspace, size_t* bytes, const float* x, float* out, long long rows, long long columns,
                         cudaStream_t stream) {
    return plain(workspace, bytes, x, out, rows, columns, stream);
}

extern "C" int plain_bf16(void* workspace, size_t* bytes, const __nv_bfloat16* x, __nv_bfloat16* out, long long rows,
                          long long columns, cudaStream_t stream) {
    return plain(workspace, bytes, x, out, rows, columns, stream);
}
