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

// What a pass over the columns does, side by side, so that memory is read and written all the
// time. (Apart, scaling a row and then summing the next, 512 and 4096 rows take 1.15 times as
// long.)
constexpr int SCALE = 1;  // x to out
constexpr int SUM = 2;    // the squares of the next row, while what follows is fetched

// A pass goes through both halves of a row at once: memory serves two pages faster than one after
// the other. (512 and 4096 rows: 1.05 times as fast.) Two rows at once would do that too, but not
// fit the L1 cache, where a row that was summed is found again to be scaled.
constexpr int HALVES = 2;

// Fetched so far ahead, because the processor itself looks ahead within a page only. (4096 rows:
// 1.1 times as fast; 512, which caches hold: no faster.)
constexpr int64_t AHEAD_BYTES = 4096;

template <int WORK, bool STREAM, typename T>
SIMD_TARGET double Pass(const T* x, const T* next, const T* weight, T* out, int64_t hidden,
                        float rstd) {
  const int64_t half = hidden / (HALVES * PACK) * PACK;
  const int64_t ahead = std::min<int64_t>(AHEAD_BYTES / sizeof(T), half);
  Squares<T> squares[HALVES];
  for (int64_t col = 0; col < half; col += PACK) {
    const T* fetched = col + ahead < half ? next + ahead : next + hidden + ahead - half;
#pragma GCC unroll 2
    for (int i = 0; i < HALVES; ++i) {
      if (WORK & SUM) {
        Prefetch(fetched + i * half, col);
        squares[i].Add(Load(next + i * half + col));
      }
      if (!(WORK & SCALE)) continue;
      const Pack result = Scale(Load(x + i * half + col), rstd, Load(weight + i * half + col));
      if (STREAM) {
        Stream(out + i * half + col, result);
      } else {
        Store(out + i * half + col, result);
      }
    }
  }
  double sum = WORK & SUM ? squares[0].Total() + squares[1].Total() : 0;
  for (int64_t col = HALVES * half; col < hidden; ++col) {
    if (WORK & SUM) {
      const double value = ToFloat(next[col]);
      sum += value * value;
    }
    if (WORK & SCALE) out[col] = FromFloat<T>(ToFloat(x[col]) * rstd * ToFloat(weight[col]));
  }
  return sum;
}

template <bool STREAM, typename T>
SIMD_TARGET void NormalizeRows(const RowTask& task, int64_t begin, int64_t end) {
  const int64_t hidden = task.hidden;
  const T* weight = static_cast<const T*>(task.weight);
  const T* x = static_cast<const T*>(task.x) + begin * hidden;
  T* out = static_cast<T*>(task.out) + begin * hidden;
  double sum = Pass<SUM, STREAM>(x, x, weight, out, hidden, 0.0f);
  for (int64_t row = begin; row < end; ++row, x += hidden, out += hidden) {
    const double mean_square = sum / static_cast<double>(hidden);
    const float rstd = static_cast<float>(1.0 / std::sqrt(mean_square + task.eps));
    if (row + 1 < end) {
      sum = Pass<SCALE | SUM, STREAM>(x, x + hidden, weight, out, hidden, rstd);
    } else {
      Pass<SCALE, STREAM>(x, x, weight, out, hidden, rstd);
    }
  }
  if (STREAM) StreamFence();
}

template <typename T>
void RunRows(const RowTask& task, int64_t begin, int64_t end) {
  task.stream ? NormalizeRows<true, T>(task, begin, end)
              : NormalizeRows<false, T>(task, begin, end);
}

constexpr RowKernels KERNELS = {RunRows<Half>, RunRows<BFloat16>, RunRows<float>};
