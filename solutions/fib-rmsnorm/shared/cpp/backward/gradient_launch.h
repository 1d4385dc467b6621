// Checks the tensors of a backward pass, and shares its rows out among threads.
//
// The sums over rows are those of blocks, whose sizes follow from the shape alone, added in the order of the rows: the
// result is the same to the bit, whatever the threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

#include "row_launch.h"
#include "row_task.h"
#include "tensor_checks.h"
#include "thread_pool.h"

namespace {

constexpr SharingBytes SHARING{64 << 10, 256 << 10};

// What a thread claims at once, and has sums of its own: few enough that their sums are soon added.
constexpr int64_t MOST_BLOCKS = 64;
constexpr int64_t LEAST_BLOCK_ROWS = 8;

// Rows that go through the columns side by side should stay in the L2 cache between the two passes.
constexpr int64_t GROUP_BYTES = 1 << 20;
constexpr int64_t ROWS_IN_GROUP = 4;

// Columns whose sums a thread adds at once. A multiple of every instruction set's vectors.
constexpr int64_t SUM_COLUMNS = 1024;

// The arguments of a call; those that the Form does without are null.
struct GradientTensors {
  const TensorView& dy;
  const TensorView& x;
  const TensorView& weight;
  const TensorView& rstd;
  const TensorView& dx;
  const TensorView& dweight;
  const TensorView* dnew_residual = nullptr;
  const TensorView* mean = nullptr;
  const TensorView* dbias = nullptr;
};

void CheckTensors(const GradientTensors& tensors, DLDataType weight_dtype) {
  const TensorView& x = tensors.x;
  CheckX(x);
  const int64_t batch = x.size(0), hidden = x.size(1);
  check_matches_x("dy", tensors.dy, x, {batch, hidden});
  if (tensors.dnew_residual) check_matches_x("dnew_residual", *tensors.dnew_residual, x, {batch, hidden});
  check_tensor("weight", tensors.weight, x, {hidden}, weight_dtype);
  if (tensors.mean) check_tensor("mean", *tensors.mean, x, {batch}, FLOAT);
  check_tensor("rstd", tensors.rstd, x, {batch}, FLOAT);
  check_matches_x("dx", tensors.dx, x, {batch, hidden});
  check_tensor("dweight", tensors.dweight, x, {hidden}, weight_dtype);
  if (tensors.dbias) check_tensor("dbias", *tensors.dbias, x, {hidden}, weight_dtype);
}

// Numbers that start at a cache line, without values.
class Scratch {
 public:
  explicit Scratch(int64_t count) : data_(static_cast<float*>(::operator new(count * sizeof(float), LINE))) {}
  ~Scratch() { ::operator delete(data_, LINE); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  float* get() const { return data_; }

 private:
  static constexpr std::align_val_t LINE{64};
  float* data_;
};

void RunBackward(const GradientTensors& tensors) {
  const TensorView &x = tensors.x, &dx = tensors.dx;
  const DLDataType weight_dtype = tensors.weight.dtype() == FLOAT ? FLOAT : x.dtype();
  const Kernels chosen = SelectKernel(x.dtype(), weight_dtype == FLOAT);
  CheckTensors(tensors, weight_dtype);
  const RowSizes sizes(x);
  const RowTask task{data(tensors.dy),
                     DataOrNull(tensors.dnew_residual),
                     data(x),
                     data(tensors.weight),
                     static_cast<const float*>(DataOrNull(tensors.mean)),
                     static_cast<const float*>(data(tensors.rstd)),
                     data(dx),
                     data(tensors.dweight),
                     DataOrNull(tensors.dbias),
                     sizes.hidden,
                     2 * ROWS_IN_GROUP * sizes.row_bytes <= GROUP_BYTES ? ROWS_IN_GROUP : 1,
                     sizes.bytes >= STREAM_BYTES && sizes.CanStream({data(dx)})};

  const int64_t share = DivideUp(DivideUp(sizes.batch, MOST_BLOCKS), ROWS_IN_GROUP) * ROWS_IN_GROUP;
  const int64_t block_rows = std::max(LEAST_BLOCK_ROWS, share);
  const int64_t blocks = std::max<int64_t>(1, DivideUp(sizes.batch, block_rows));  // an empty batch has sums too: zeros
  const int64_t columns = DivideUp(sizes.hidden, 16) * 16;
  const int64_t stride = columns * (tensors.dbias == nullptr ? 1 : 2);
  const Scratch scratch(blocks * stride);
  const Sums sums{scratch.get(), scratch.get() + (stride - columns)};

  const CpuSet cpus = SHARING.ChooseCpus(sizes.bytes);
  const bool worth_waking = SHARING.WorthWaking(sizes.bytes);
  ForEachChunk(blocks, cpus, worth_waking, [&](int64_t block) {
    const int64_t begin = block * block_rows, end = std::min(sizes.batch, begin + block_rows);
    chosen.rows(task, begin, end, {sums.dweight + block * stride, sums.dbias + block * stride});
  });
  const bool are_many = blocks * stride * static_cast<int64_t>(sizeof(float)) >= 2 * SHARING.awake;
  ForEachChunk(DivideUp(sizes.hidden, SUM_COLUMNS), are_many ? cpus : CpuSet(), worth_waking, [&](int64_t chunk) {
    const int64_t begin = chunk * SUM_COLUMNS;
    chosen.sums(task, sums, blocks, stride, begin, std::min(sizes.hidden, begin + SUM_COLUMNS));
  });
}

}  // namespace
