// Lanes scan one vector each: in order within the vector, in a tree over lanes. Then they scan the next vectors.
#include "scan.cuh"

template <class T, class OUT, int V>
__global__ void __launch_bounds__(THREADS) rows(const Problem given, const int lanes, const int across) {
  const Problem p = wait_for_previous_launch(given);
  const Lane lane(p, lanes, V == 1 && across);
  scan(line<T, 0, V>(p, lane), line<OUT, 1, V>(p, lane), Sum<T>(0), lane, p.n);
}
