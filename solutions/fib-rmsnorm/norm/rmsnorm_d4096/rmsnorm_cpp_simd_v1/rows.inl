// RMSNorm of rows, written once over the vector operations of one instruction set.
//
// Each simd_*.h includes this file inside a namespace of its own that defines SIMD_TARGET,
// PACK, Pack, FloatSquares, DoubleSquares, Load, Store, Stream, StreamFence and Scale. A
// function inlines only operations compiled for its own target, and a target attribute cannot
// depend on a template parameter: hence one copy of this text for each target.

// Squares of 16-bit inputs are summed in float32 over many lanes. Those of float32 inputs are
// summed in float64, so that the sum costs the output no accuracy at any hidden size.
template <typename T>
using Squares = std::conditional_t<std::is_same_v<T, float>, DoubleSquares, FloatSquares>;

// Fetches the cache lines that begin in the PACK columns from col on.
template <typename T>
SIMD_TARGET inline void Prefetch(const T* row, int64_t col) {
  constexpr int64_t LINE = 64 / sizeof(T);
  if (PACK < LINE && col % LINE != 0) return;
  for (int64_t i = 0; i < PACK; i += LINE) __builtin_prefetch(row + col + i);
}

// Consecutive rows, at which a pass does three things side by side, so that memory is read and written all the
// time. Apart (sum a row, then scale it while the next is fetched) 512 rows took 1.2 times as long.
template <typename T>
struct Rows {
  const T* scaled;
  T* out;  // of the scaled rows
  const T* summed;
  const T* fetched;  // into the caches: the processor itself looks ahead only within a page
  const T* weight;
  int64_t hidden;
};

// What a pass does besides fetching.
constexpr int SCALE = 1, SUM = 2;

// One pass over the columns of ROWS rows; writes their sums of squares to sums.
template <int ROWS, int WORK, bool STREAM, typename T>
SIMD_TARGET void Pass(const Rows<T>& rows, const float* rstd, double* sums) {
  const int64_t hidden = rows.hidden;
  Squares<T> squares[ROWS];
  int64_t col = 0;
  for (; col + PACK <= hidden; col += PACK) {
    Pack x[ROWS], weight;
    if (WORK & SCALE) weight = Load(rows.weight + col);
    // All loads come before the stores: rows of x and out often lie at the same offsets in their pages, where
    // a load waits for an earlier store as if it read what that writes.
#pragma GCC unroll 2
    for (int row = 0; row < ROWS; ++row) {
      Prefetch(rows.fetched + row * hidden, col);
      if (WORK & SUM) squares[row].Add(Load(rows.summed + row * hidden + col));
      if (WORK & SCALE) x[row] = Load(rows.scaled + row * hidden + col);
    }
    if (!(WORK & SCALE)) continue;
#pragma GCC unroll 2
    for (int row = 0; row < ROWS; ++row) {
      const Pack result = Scale(x[row], rstd[row], weight);
      if (STREAM) {
        Stream(rows.out + row * hidden + col, result);
      } else {
        Store(rows.out + row * hidden + col, result);
      }
    }
  }
  for (int row = 0; row < ROWS; ++row) {
    if (WORK & SUM) sums[row] = squares[row].Total();
    for (int64_t rest = col; rest < hidden; ++rest) {
      const int64_t i = row * hidden + rest;
      if (WORK & SUM) {
        const double value = ToFloat(rows.summed[i]);
        sums[row] += value * value;
      }
      if (WORK & SCALE) {
        rows.out[i] = FromFloat<T>(ToFloat(rows.scaled[i]) * rstd[row] * ToFloat(rows.weight[rest]));
      }
    }
  }
}

// Normalizes rows from begin on, ROWS at a time, and returns the first of those that are left over. While some
// are scaled, those that follow are summed and those after them fetched.
template <int ROWS, bool STREAM, typename T>
SIMD_TARGET int64_t NormalizeGroups(const RowTask& task, int64_t begin, int64_t end) {
  const int64_t hidden = task.hidden;
  const T* x = static_cast<const T*>(task.x);
  T* out = static_cast<T*>(task.out);
  const int64_t last = begin + (end - begin) / ROWS * ROWS - ROWS;
  if (last < begin) return begin;
  const auto rows_at = [&](int64_t row) {
    return Rows<T>{x + row * hidden,
                   out + row * hidden,
                   x + std::min(row + ROWS, last) * hidden,
                   x + std::min(row + 2 * ROWS, last) * hidden,
                   static_cast<const T*>(task.weight),
                   hidden};
  };
  double sums[ROWS];
  float rstd[ROWS];
  Pass<ROWS, SUM, STREAM>(rows_at(begin - ROWS), rstd, sums);
  for (int64_t row = begin; row <= last; row += ROWS) {
    for (int i = 0; i < ROWS; ++i) {
      const double mean_square = sums[i] / static_cast<double>(hidden);
      rstd[i] = static_cast<float>(1.0 / std::sqrt(mean_square + task.eps));
    }
    if (row < last) {
      Pass<ROWS, SCALE | SUM, STREAM>(rows_at(row), rstd, sums);
    } else {
      Pass<ROWS, SCALE, STREAM>(rows_at(row), rstd, sums);
    }
  }
  return last + ROWS;
}

// Past the caches two rows at a time are 1.1 times as fast as one: memory serves two pages at once. Within them
// one row at a time is, because what two rows need does not fit the L1 cache.
template <bool STREAM, typename T>
SIMD_TARGET void NormalizeRows(const RowTask& task, int64_t begin, int64_t end) {
  if (STREAM) begin = NormalizeGroups<2, STREAM, T>(task, begin, end);
  NormalizeGroups<1, STREAM, T>(task, begin, end);
  if (STREAM) StreamFence();
}

template <typename T>
void RunRows(const RowTask& task, int64_t begin, int64_t end) {
  task.stream ? NormalizeRows<true, T>(task, begin, end)
              : NormalizeRows<false, T>(task, begin, end);
}

constexpr RowKernels KERNELS = {RunRows<Half>, RunRows<BFloat16>, RunRows<float>};
