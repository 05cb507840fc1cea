// A minimum's gradient by counts of minima that are known: a block to a share of a row, one read, one write.

#include "../gradients/finish.cuh"
#include "../min_backward/gradient.cuh"

template <class T>
struct Finish : MinBackward<T> {
  static constexpr int OTHERS = 3;  // y, grad and count, of one element a row
  using Key = typename MinBackward<T>::Key;
  using Result = typename MinBackward<T>::Result;
  using W = Wide<T>;
  template <class E> __device__ static W read(const Several<3>& p, int other, i64 outer, i64 inner) {
    return widen(((const E*)p.other[other])[outer * p.strides[other].outer + inner * p.strides[other].inner]);
  }
  __device__ static Key key(const Several<3>& p, i64 outer, i64 inner) {
    return {read<T>(p, 0, outer, inner), read<T>(p, 1, outer, inner)};
  }
  __device__ static Result known(const Several<3>& p, i64 outer, i64 inner, Key key) {
    const W count = read<W>(p, 2, outer, inner);
    return {as_new(quotient(key.grad, count)), as_new(quotient(key.grad * 0, count))};
  }
};

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(256) blocks(const Several<3> given, int shares) {
  finish_shares<Finish<T>, V, ITEMS>(given, shares);
}
