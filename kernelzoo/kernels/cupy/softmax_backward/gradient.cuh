// The arithmetic of softmax's gradient, out = y * (grad - sum(grad * y)) over each row. Half precisions are computed in
// float, double in double. A NaN makes the sum NaN, and so the complete row.
#pragma once
#include "../gradients/multi_input.cuh"

template <class T>
struct Gradient {
  using W = Wide<T>;
  using Total = W;
  using Result = W;
  static constexpr int INPUTS = 2, OTHERS = 1;  // INPUTS: grad and y. OTHERS: y

  struct Key {};
  __device__ static Key key(const MultiInput<1>&, i64, i64) { return {}; }
  __device__ static Result result(Key, Total total) { return total; }

  // The elements of both inputs, in their dtype. Products are computed twice.
  template <int V, int COLUMNS, int ITEMS>
  struct Packs {
    Pack<T, V> grad[ITEMS], y[ITEMS];

    template <bool KEPT>
    __device__ void load(const ThreadPacks<T, V, 2>& walk, const Key (&)[COLUMNS], i64 first) {
      UNROLL for (int i = 0; i < ITEMS; ++i) grad[i] = walk.template load<KEPT>(0, first + i);
      if constexpr (V > 1 && COLUMNS == 1) {
        if (!walk.in_packed) {
          UNROLL for (int i = 0; i < ITEMS; ++i) y[i] = walk.load_unaligned(1, first + i);
          return;
        }
      }
      UNROLL for (int i = 0; i < ITEMS; ++i) y[i] = walk.template load<KEPT>(1, first + i);
    }

    __device__ void sum(Total (&sums)[COLUMNS]) {
      keep_packed(grad), keep_packed(y);
      UNROLL for (int k = 0; k < COLUMNS; ++k) sums[k] = 0;
      UNROLL for (int i = 0; i < ITEMS; ++i) {
        W a[V], b[V];
        grad[i].get(a);
        y[i].get(b);
        UNROLL for (int k = 0; k < V; ++k) a[k] = product(a[k], b[k]);
        if constexpr (COLUMNS == 1) sums[0] += sum_of(a);
        else UNROLL for (int k = 0; k < V; ++k) sums[k] += a[k];
      }
      keep_packed(grad), keep_packed(y);
    }

    template <bool KEPT>
    __device__ void write(const ThreadPacks<T, V, 2>& walk, const Result (&result)[COLUMNS], i64 first) {
      UNROLL for (int i = 0; i < ITEMS; ++i) {
        if (walk.inside(first + i)) {
          W a[V], b[V];
          grad[i].get(a);
          y[i].get(b);
          UNROLL for (int k = 0; k < V; ++k) a[k] = product(b[k], difference(a[k], result[COLUMNS == 1 ? 0 : k]));
          Pack<T, V> made;
          made.set(a);
          made.template store<KEPT>(walk.out + (first + i) * walk.out_step, walk.out_packed);
        }
      }
    }

    // Save a batch to shared memory, or restore it.
    __device__ void save(Bytes16* memory, int batch) const {
      Pack<T, V>* mine = (Pack<T, V>*)memory + batch * 2 * ITEMS * (int)blockDim.x + threadIdx.x;
      UNROLL for (int i = 0; i < ITEMS; ++i) {
        mine[2 * i * (int)blockDim.x] = grad[i];
        mine[(2 * i + 1) * (int)blockDim.x] = y[i];
      }
    }
    __device__ void restore(const Bytes16* memory, int batch) {
      const Pack<T, V>* mine = (const Pack<T, V>*)memory + batch * 2 * ITEMS * (int)blockDim.x + threadIdx.x;
      UNROLL for (int i = 0; i < ITEMS; ++i) {
        grad[i] = mine[2 * i * (int)blockDim.x];
        y[i] = mine[(2 * i + 1) * (int)blockDim.x];
      }
    }
  };
};
