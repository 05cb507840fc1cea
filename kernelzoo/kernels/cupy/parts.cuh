// Rows that several blocks share. Each block reduces a part of a row, and the last to finish merges the results.
#pragma once
#include "lanes.cuh"

// A lane of this block's part of a row. A row has `parts` parts of `span` elements each.
template <class P>
__device__ inline Lane lane_of_part(const P& p, int lanes, bool across, int parts, i64 span) {
  const i64 block = block_index(), from = block % parts * span;
  Lane lane(p, lanes, across, block / parts);
  lane.from = from < lane.n ? from : lane.n;
  lane.n = from + span < lane.n ? from + span : lane.n;
  return lane;
}

// Returns whether this block finishes last. If so, `own` becomes the state of the complete row. `none` is the state of
// no elements; merge(a, b) merges states; meet(state) merges a row's lanes. `partial` has an element per part and row.
template <class S, class Merge, class Meet>
__device__ inline bool merge_parts(
    S& own, S none, S* partial, u32* arrived, int parts, const Lane& lane, Merge merge, Meet meet) {
  const i64 block = block_index();
  own = meet(own);
  partial += lane.r * parts;
  if (lane.leads) partial[block % parts] = own;
  if (!arrives_last(arrived + block / parts, parts)) return false;
  own = none;
  for (int k = lane.first; lane.live && k < parts; k += lane.step) own = merge(own, partial[k]);
  own = meet(own);
  return true;
}
