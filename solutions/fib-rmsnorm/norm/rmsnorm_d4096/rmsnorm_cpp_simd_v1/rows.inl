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

// What a pass over the columns does, side by side, so that memory is read and written all the
// time. (Apart, scaling a row and then summing the next, 512 and 4096 rows take 1.15 times as
// long.)
constexpr int SCALE = 1;  // x to out
constexpr int SUM = 2;    // the squares of the next row, while what follows is fetched

// A row is summed in parts, which are added at the end. A pass that writes around the caches goes
// through all of them at once: memory serves several pages faster than one after the other. (4096
// rows: 2 parts, 1.05 times as fast; 4, another 1.04 where they are pages, as of float32, and 0.97
// where they are not.) Any other goes through one after the other, which the processor foresees
// best. (512 rows: 1.08 times as fast.) The sum is the same to the bit.
constexpr int FEW_PARTS = 2;
constexpr int MANY_PARTS = 4;  // of rows that fill as many pages

// x is fetched so far ahead, because the processor itself looks ahead within a page only (4096
// rows: 1.1 times as fast), and the address of each page is looked up so many rows before (1.02 of
// float32, nothing of 16 bits).
constexpr int64_t AHEAD_BYTES = 4096;
constexpr int64_t PAGE_ROWS_AHEAD = 3;
constexpr int64_t PAGE_BYTES = 4096;

// Rows in many parts are fetched into the L2 cache: in most L1 caches two of them and the weight
// leave no room for a third. (4096 rows of float32: 1.12 times as fast; half in 2 parts: 0.97.)
constexpr int TO_L1 = 3, TO_L2 = 2;

// Lines of out are fetched so far before they are written in the caches. (512 rows: 1.07 times as
// fast.)
constexpr int64_t OUT_AHEAD_BYTES = 2048;

// Fewer rows are not worth converting the weight first.
constexpr int64_t MIN_HELD_ROWS = 16;

constexpr int64_t LINE_BYTES = 64;

// Fetches the cache lines that begin in the PACK columns from col on.
template <int FOR_WRITING = 0, int LEVEL = TO_L1, typename T>
SIMD_TARGET inline void Prefetch(const T* row, int64_t col) {
  constexpr int64_t LINE = LINE_BYTES / sizeof(T);
  if (PACK < LINE && col % LINE != 0) return;
  for (int64_t i = 0; i < PACK; i += LINE) __builtin_prefetch(row + col + i, FOR_WRITING, LEVEL);
}

template <typename T>
SIMD_TARGET inline void LookUpPages(const T* row, int64_t hidden) {
  constexpr int64_t PAGE = PAGE_BYTES / sizeof(T);
  for (int64_t col = 0; col < hidden; col += PAGE) __builtin_prefetch(row + col);
}

// Scales x to out and sums the squares of next. HOLD: x and the weight as float32, each converted
// once rather than twice and for every row; next takes the place of x.
template <bool STREAM, bool HOLD, int PARTS, typename T>
struct Pass {
  const T* weight;
  int64_t hidden;
  float* held_weight;
  float* held_x;
  const T* x = nullptr;
  const T* next = nullptr;
  T* out = nullptr;
  float rstd = 0;

  template <int WORK>
  SIMD_TARGET double Run() const {
    constexpr int LEVEL = PARTS == MANY_PARTS ? TO_L2 : TO_L1;
    const int64_t part = hidden / (PARTS * PACK) * PACK;
    Squares<T> squares[PARTS];
    if (STREAM && (WORK & SUM)) LookUpPages(next + PAGE_ROWS_AHEAD * hidden, hidden);
    if (STREAM && !HOLD) {
      const int64_t ahead = std::min<int64_t>(AHEAD_BYTES / sizeof(T), part);
      for (int64_t col = 0; col < part; col += PACK) {
        const T* fetched = col + ahead < part ? next + ahead : next + hidden + ahead - part;
#pragma GCC unroll 4
        for (int i = 0; i < PARTS; ++i) {
          if (WORK & SUM) Prefetch<0, LEVEL>(fetched + i * part, col);
          RunPack<WORK>(i * part + col, squares[i]);
        }
      }
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < PARTS; ++i) {
        for (int64_t col = i * part; col < (i + 1) * part; col += PACK) {
          if (HOLD && (WORK & SUM)) Prefetch(next + AHEAD_BYTES / sizeof(T), col);
          if (!STREAM && (WORK & SCALE)) Prefetch<1>(out + OUT_AHEAD_BYTES / sizeof(T), col);
          RunPack<WORK>(col, squares[i]);
        }
      }
    }
    double sum = 0;
#pragma GCC unroll 4  // or the squares would be kept in memory
    for (int i = 0; i < PARTS; ++i) {
      if (WORK & SUM) sum += squares[i].Total();
    }
    for (int64_t col = PARTS * part; col < hidden; ++col) {
      if (WORK & SUM) {
        const double value = ToFloat(next[col]);
        sum += value * value;
      }
      if (WORK & SCALE) out[col] = FromFloat<T>(ToFloat(x[col]) * rstd * ToFloat(weight[col]));
    }
    return sum;
  }

  // The PACK columns from col on.
  template <int WORK>
  SIMD_TARGET inline __attribute__((always_inline)) void RunPack(int64_t col, Squares<T>& squares) const {
    Pack following;
    if (WORK & SUM) {
      following = Load(next + col);
      squares.Add(following);
    }
    if (WORK & SCALE) {
      const Pack value = HOLD ? Load(held_x + col) : Load(x + col);
      const Pack factor = HOLD ? Load(held_weight + col) : Load(weight + col);
      const Pack result = Scale(value, rstd, factor);
      if (STREAM) {
        Stream(out + col, result);
      } else {
        Store(out + col, result);
      }
    }
    if (HOLD && (WORK & SUM)) Store(held_x + col, following);
  }
};

template <bool STREAM, bool HOLD, int PARTS, typename T>
SIMD_TARGET void NormalizeRows(const RowTask& task, int64_t begin, int64_t end) {
  const int64_t hidden = task.hidden;
  alignas(LINE_BYTES) float held[HOLD ? 2 * MAX_HELD_COLUMNS : 1];
  Pass<STREAM, HOLD, PARTS, T> pass{static_cast<const T*>(task.weight), hidden, held, held + hidden};
  if (HOLD) {
    for (int64_t col = 0; col + PACK <= hidden; col += PACK) {
      Store(held + col, Load(pass.weight + col));
    }
  }
  pass.next = static_cast<const T*>(task.x) + begin * hidden;
  pass.out = static_cast<T*>(task.out) + begin * hidden;
  double sum = pass.template Run<SUM>();
  for (int64_t row = begin; row < end; ++row, pass.out += hidden) {
    const double mean_square = sum / static_cast<double>(hidden);
    pass.rstd = static_cast<float>(1.0 / std::sqrt(mean_square + task.eps));
    pass.x = pass.next;
    if (row + 1 < end) {
      pass.next += hidden;
      sum = pass.template Run<SCALE | SUM>();
    } else {
      pass.template Run<SCALE>();
    }
  }
  if (STREAM) StreamFence();
}

template <bool STREAM, typename T>
void RunRows(const RowTask& task, int64_t begin, int64_t end) {
  if constexpr (!std::is_same_v<T, float>) {
    if (task.hold && end - begin >= MIN_HELD_ROWS) {
      return NormalizeRows<STREAM, true, FEW_PARTS, T>(task, begin, end);
    }
  }
  constexpr int64_t MANY_COLUMNS = MANY_PARTS * PAGE_BYTES / static_cast<int64_t>(sizeof(T));
  const auto normalize_rows = task.hidden >= MANY_COLUMNS ? NormalizeRows<STREAM, false, MANY_PARTS, T>
                                                          : NormalizeRows<STREAM, false, FEW_PARTS, T>;
  normalize_rows(task, begin, end);
}

template <typename T>
void RunRowsOf(const RowTask& task, int64_t begin, int64_t end) {
  const auto run_rows = task.stream ? RunRows<true, T> : RunRows<false, T>;
  run_rows(task, begin, end);
}

constexpr RowKernels KERNELS = {RunRowsOf<Half>, RunRowsOf<BFloat16>, RunRowsOf<float>};
