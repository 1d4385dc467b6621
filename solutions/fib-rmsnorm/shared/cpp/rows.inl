// A norm of rows, as Form says, written once over the vector operations of one instruction set.
//
// Each simd_*.h includes this file inside a namespace of its own that defines SIMD_TARGET, PACK,
// Pack, FloatSums, DoubleSums, Load, Store, Stream, StreamFence and Each. A function inlines only
// operations compiled for its own target, and a target attribute cannot depend on a template
// parameter: hence one copy of this text for each target.

// 16-bit inputs are summed in float32 over many lanes, and float32 inputs in float64, so that the
// sum costs the output no accuracy at any hidden size.
template <typename T>
using Sums = std::conditional_t<std::is_same_v<T, float>, DoubleSums, FloatSums>;

// What a pass over the columns does, side by side, so that memory is read and written all the
// time. (Apart, scaling a row and then summing the next, 512 and 4096 rows take 1.15 times as
// long.)
constexpr int SCALE = 1;  // x to out
constexpr int SUM = 2;    // the next row or its squares, while what follows is fetched

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

// STREAM: around the caches. HOLD: x and the weight as float32, each converted once rather than twice
// and for every row.
template <bool STREAM_, bool HOLD_, int PARTS_>
struct Mode {
  static constexpr bool STREAM = STREAM_, HOLD = HOLD_;
  static constexpr int PARTS = PARTS_;
};

// Scales x to out and sums the squares of next, or next itself, which is x plus residual where the
// Form adds one. Held, next takes the place of x. W is the type of the weight and the bias.
template <typename T, typename W>
struct Pass {
  const W* weight;
  const W* bias;
  int64_t hidden;
  float* held_weight;
  float* held_x;
  const T* x = nullptr;
  const T* next = nullptr;
  T* out = nullptr;
  // Rows as far from those above as the tensors are from each other, or null.
  const T* residual = nullptr;
  const T* next_residual = nullptr;
  T* new_residual = nullptr;
  const T* gate = nullptr;
  Finish<T, W> finish{};

  template <int WORK, typename MODE>
  SIMD_TARGET double Run() const {
    constexpr bool STREAM = MODE::STREAM, HOLD = MODE::HOLD;
    constexpr int PARTS = MODE::PARTS;
    constexpr int LEVEL = PARTS == MANY_PARTS ? TO_L2 : TO_L1;
    const int64_t part = hidden / (PARTS * PACK) * PACK;
    Sums<T> sums[PARTS];
    if (STREAM && (WORK & SUM)) LookUpPages(next + PAGE_ROWS_AHEAD * hidden, hidden);
    if (STREAM && !HOLD) {
      const int64_t ahead = std::min<int64_t>(AHEAD_BYTES / sizeof(T), part);
      for (int64_t col = 0; col < part; col += PACK) {
        const bool is_in_part = col + ahead < part;
        const T* fetched = is_in_part ? next + ahead : next + hidden + ahead - part;
        const T* fetched_residual = is_in_part ? next_residual + ahead : next_residual + hidden + ahead - part;
        const T* fetched_gate = is_in_part ? gate + ahead : gate + hidden + ahead - part;
#pragma GCC unroll 4
        for (int i = 0; i < PARTS; ++i) {
          if (WORK & SUM) Prefetch<0, LEVEL>(fetched + i * part, col);
          if (Form::ADD && (WORK & SUM)) Prefetch<0, LEVEL>(fetched_residual + i * part, col);
          if (HAS_GATE && (WORK & SCALE)) Prefetch<0, LEVEL>(fetched_gate + i * part, col);
          RunPack<WORK, MODE>(i * part + col, sums[i]);
        }
      }
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < PARTS; ++i) {
        for (int64_t col = i * part; col < (i + 1) * part; col += PACK) {
          if (HOLD && (WORK & SUM)) Prefetch(next + AHEAD_BYTES / sizeof(T), col);
          if (HOLD && Form::ADD && (WORK & SUM)) Prefetch(next_residual + AHEAD_BYTES / sizeof(T), col);
          if (HOLD && HAS_GATE && (WORK & SCALE)) Prefetch(gate + AHEAD_BYTES / sizeof(T), col);
          if (!STREAM && (WORK & SCALE)) Prefetch<1>(out + OUT_AHEAD_BYTES / sizeof(T), col);
          if (!STREAM && Form::ADD && (WORK & SCALE)) Prefetch<1>(new_residual + OUT_AHEAD_BYTES / sizeof(T), col);
          RunPack<WORK, MODE>(col, sums[i]);
        }
      }
    }
    double sum = 0;
#pragma GCC unroll 4  // or the sums would be kept in memory
    for (int i = 0; i < PARTS; ++i) {
      if (WORK & SUM) sum += sums[i].Total();
    }
    if (PARTS * part == hidden) return sum;
    const Pass last = *this;  // or this would be kept in memory
    return sum + last.template RunLast<WORK>(PARTS * part);
  }

  // The squares of what next has above its mean or below, which is in the caches by now.
  template <typename MODE>
  SIMD_TARGET double SumCentredSquares(float mean) const {
    constexpr bool HOLD = MODE::HOLD;
    constexpr int PARTS = MODE::PARTS;
    const int64_t part = hidden / (PARTS * PACK) * PACK;
    Sums<T> sums[PARTS];
    for (int64_t col = 0; col < part; col += PACK) {
#pragma GCC unroll 4
      for (int i = 0; i < PARTS; ++i) {
        const int64_t at = i * part + col;
        sums[i].AddSquares(Each(Centre{mean}, HOLD ? Load(held_x + at) : Read(next, next_residual, at)));
      }
    }
    double sum = 0;
#pragma GCC unroll 4
    for (int i = 0; i < PARTS; ++i) sum += sums[i].Total();
    for (int64_t col = PARTS * part; col < hidden; ++col) {
      const double value = ReadOne(next, next_residual, col) - mean;
      sum += value * value;
    }
    return sum;
  }

  // What all rows share, in the order of their columns in a pack.
  SIMD_TARGET static inline __attribute__((always_inline)) Pack ReadColumns(const W* shared) {
    if constexpr (std::is_same_v<T, BFloat16> && std::is_same_v<W, float>) return LoadPairs(shared);
    return Load(shared);
  }

 private:
  static constexpr bool HAS_GATE = Form::ACTIVATION == Activation::SILU_GATE;

  // The PACK columns from col on.
  template <int WORK, typename MODE>
  SIMD_TARGET inline __attribute__((always_inline)) void RunPack(int64_t col, Sums<T>& sums) const {
    constexpr bool STREAM = MODE::STREAM, HOLD = MODE::HOLD;
    Pack following;
    if (WORK & SUM) {
      following = Read(next, next_residual, col);
      if (Form::CENTRED) {
        sums.AddValues(following);
      } else {
        sums.AddSquares(following);
      }
    }
    if (WORK & SCALE) {
      const Pack value = HOLD ? Load(held_x + col) : Read(x, residual, col);
      Pack factor = value, shift = value, gated = value;
      if constexpr (Form::WEIGHT != Weight::NONE) {
        factor = HOLD ? Load(held_weight + col) : Each(Factor(), ReadColumns(weight + col));
      }
      if constexpr (Form::BIAS) shift = ReadColumns(bias + col);
      if constexpr (HAS_GATE) gated = Load(gate + col);
      Write<STREAM>(out + col, Each(finish, value, factor, shift, gated));
      if constexpr (Form::ADD) Write<STREAM>(new_residual + col, Each(Rounded<T>(), value));
    }
    if (HOLD && (WORK & SUM)) Store(held_x + col, following);
  }

  SIMD_TARGET static inline __attribute__((always_inline)) Pack Read(const T* row, const T* added, int64_t col) {
    if constexpr (Form::ADD) return Each(Sum(), Load(row + col), Load(added + col));
    return Load(row + col);
  }

  template <bool STREAM>
  SIMD_TARGET static inline __attribute__((always_inline)) void Write(T* target, const Pack& pack) {
    if (STREAM) {
      Stream(target, pack);
    } else {
      Store(target, pack);
    }
  }

  // The columns from col on, which are fewer than a pack for each part. Once for all modes, or their code would be as
  // long as all the rest.
  template <int WORK>
  SIMD_TARGET __attribute__((noinline)) double RunLast(int64_t col) const {
    double sum = 0;
    for (; col < hidden; ++col) {
      if (WORK & SUM) {
        const double value = ReadOne(next, next_residual, col);
        sum += Form::CENTRED ? value : value * value;
      }
      if (WORK & SCALE) ScaleOne(col);
    }
    return sum;
  }

  SIMD_TARGET static float ReadOne(const T* row, const T* added, int64_t col) {
    if constexpr (Form::ADD) return ToFloat(row[col]) + ToFloat(added[col]);
    return ToFloat(row[col]);
  }

  SIMD_TARGET void ScaleOne(int64_t col) const {
    const float value = ReadOne(x, residual, col);
    float factor = 1, shift = 0, gated = 0;
    if constexpr (Form::WEIGHT != Weight::NONE) factor = Factor()(ToFloat(weight[col]));
    if constexpr (Form::BIAS) shift = ToFloat(bias[col]);
    if constexpr (HAS_GATE) gated = ToFloat(gate[col]);
    out[col] = FromFloat<T>(finish(value, factor, shift, gated));
    if constexpr (Form::ADD) new_residual[col] = FromFloat<T>(Rounded<T>()(value));
  }
};

// Null stays null.
template <typename Pointer>
Pointer RowOf(Pointer tensor, int64_t offset) {
  return tensor == nullptr ? nullptr : tensor + offset;
}

template <typename MODE, typename T, typename W>
SIMD_TARGET void NormalizeRows(const RowTask& task, int64_t begin, int64_t end) {
  constexpr bool STREAM = MODE::STREAM, HOLD = MODE::HOLD;
  const int64_t hidden = task.hidden;
  alignas(LINE_BYTES) float held[HOLD ? 2 * MAX_HELD_COLUMNS : 1];
  Pass<T, W> pass{static_cast<const W*>(task.weight), static_cast<const W*>(task.bias), hidden, held, held + hidden};
  if (HOLD && Form::WEIGHT != Weight::NONE) {
    for (int64_t col = 0; col + PACK <= hidden; col += PACK) {
      Store(held + col, Each(Factor(), pass.ReadColumns(pass.weight + col)));
    }
  }
  const int64_t offset = begin * hidden;
  pass.next = static_cast<const T*>(task.x) + offset;
  pass.out = static_cast<T*>(task.out) + offset;
  pass.next_residual = RowOf(static_cast<const T*>(task.residual), offset);
  pass.new_residual = RowOf(static_cast<T*>(task.new_residual), offset);
  pass.gate = RowOf(static_cast<const T*>(task.gate), offset);
  double sum = pass.template Run<SUM, MODE>();
  for (int64_t row = begin; row < end; ++row, pass.out += hidden) {
    double mean_square = sum / static_cast<double>(hidden);
    if (Form::CENTRED) {
      pass.finish.mean = static_cast<float>(mean_square);  // still the mean
      mean_square = pass.template SumCentredSquares<MODE>(pass.finish.mean) / static_cast<double>(hidden);
    }
    pass.finish.rstd = static_cast<float>(1.0 / std::sqrt(mean_square + task.eps));
    pass.x = pass.next;
    pass.residual = pass.next_residual;
    if (row + 1 < end) {
      pass.next += hidden;
      if (Form::ADD) pass.next_residual += hidden;
      sum = pass.template Run<SCALE | SUM, MODE>();
    } else {
      pass.template Run<SCALE, MODE>();
    }
    if (Form::ADD) pass.new_residual += hidden;
    if (Form::ACTIVATION == Activation::SILU_GATE) pass.gate += hidden;
  }
  if (STREAM) StreamFence();
}

template <bool STREAM, typename T, typename W>
void RunRows(const RowTask& task, int64_t begin, int64_t end) {
  if constexpr (!std::is_same_v<T, float>) {
    if (task.hold && end - begin >= MIN_HELD_ROWS) {
      return NormalizeRows<Mode<STREAM, true, FEW_PARTS>, T, W>(task, begin, end);
    }
  }
  constexpr int64_t MANY_COLUMNS = MANY_PARTS * PAGE_BYTES / static_cast<int64_t>(sizeof(T));
  const auto normalize_rows = task.hidden >= MANY_COLUMNS ? NormalizeRows<Mode<STREAM, false, MANY_PARTS>, T, W>
                                                          : NormalizeRows<Mode<STREAM, false, FEW_PARTS>, T, W>;
  normalize_rows(task, begin, end);
}

template <typename T, typename W = T>
void RunRowsOf(const RowTask& task, int64_t begin, int64_t end) {
  const auto run_rows = task.stream ? RunRows<true, T, W> : RunRows<false, T, W>;
  run_rows(task, begin, end);
}

// Beside rows of 16 bits, what all rows share can be of float32, if it is not what the rows are rounded for.
template <typename T>
constexpr RowKernel WithFloatWeight() {
  if constexpr (Form::WEIGHT == Weight::PLAIN && !Form::ADD && !Form::CENTRED) return RunRowsOf<T, float>;
  return nullptr;
}

constexpr RowKernels KERNELS = {RunRowsOf<Half>, RunRowsOf<BFloat16>, RunRowsOf<float>, WithFloatWeight<Half>(),
                                WithFloatWeight<BFloat16>()};
