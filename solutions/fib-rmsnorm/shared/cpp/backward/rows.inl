// The gradients of a norm of rows, as Form says, written once over the vector operations of one instruction set.
//
// Each simd_*.h includes this file inside its namespace, in the place of the forward pass's rows.inl, after lanes.inl.
// A Form that adds has a dnew_residual; one that is centred has a mean and a dbias.

// The sum of a row's 16-bit numbers is kept in float32 over many lanes, and that of float32 numbers in float64.
template <typename T>
using RowSums = std::conditional_t<std::is_same_v<T, float>, DoubleSums, FloatSums>;

// So many rows go through the columns side by side: their sums depend on none of each other, and the weight and the
// sums over rows are read once for all.
constexpr int ROWS_AT_ONCE = 4;

constexpr int64_t LINE_BYTES = 64;

struct Product {
  template <typename V>
  SIMD_OP V operator()(V left, V right) const {
    return left * right;
  }
};

struct AddProduct {
  template <typename V>
  SIMD_OP V operator()(V sum, V left, V right) const {
    return sum + left * right;
  }
};

// A value of x, as the forward pass normalized it.
struct Standardize {
  float mean;
  float rstd;

  template <typename V>
  SIMD_OP V operator()(V x) const {
    if constexpr (Form::CENTRED) x = x - mean;
    return x * rstd;
  }
};

// A value of dx of dy * weight, of x as it was normalized, and of dnew_residual, which is not read without ADD.
template <typename T>
struct Differentiate {
  float rstd;
  float mean_scaled;   // of dy * weight, over the row
  float mean_product;  // of that times the normalized x

  template <typename V>
  SIMD_OP V operator()(V scaled, V normalized, V dnew_residual) const {
    if constexpr (Form::CENTRED) scaled = scaled - mean_scaled;
    V value = (scaled - normalized * mean_product) * rstd;
    if constexpr (Form::ADD) value = value + dnew_residual;
    if constexpr (std::is_same_v<T, BFloat16>) value = ClearNan(value);  // the statistics are of float32
    return value;
  }
};

// Fetches the cache lines that begin in the PACK columns from col on.
template <typename T>
SIMD_TARGET inline void Prefetch(const T* row, int64_t col) {
  constexpr int64_t LINE = LINE_BYTES / sizeof(T);
  constexpr int TO_L2 = 2;
  if (PACK < LINE && col % LINE != 0) return;
  for (int64_t i = 0; i < PACK; i += LINE) __builtin_prefetch(row + col + i, 0, TO_L2);
}

// ROWS rows side by side: first the means that each row's dx needs, then dx, and what the rows add to the sums.
template <int ROWS, typename T, typename W>
struct RowGroup {
  const T* dy;
  const T* dnew_residual;
  const T* x;
  const W* weight;
  T* dx;
  Sums sums;
  int64_t hidden;
  int64_t ahead;  // the elements to the next group, whose lines are fetched; 0 for none
  bool stream;
  Standardize standardize[ROWS];
  Differentiate<T> differentiate[ROWS];

  SIMD_TARGET RowGroup(const RowTask& task, int64_t row, int64_t ahead, Sums sums)
      : dy(static_cast<const T*>(task.dy) + row * task.hidden),
        dnew_residual(Form::ADD ? static_cast<const T*>(task.dnew_residual) + row * task.hidden : nullptr),
        x(static_cast<const T*>(task.x) + row * task.hidden),
        weight(static_cast<const W*>(task.weight)),
        dx(static_cast<T*>(task.dx) + row * task.hidden),
        sums(sums),
        hidden(task.hidden),
        ahead(ahead),
        stream(task.stream) {
    for (int i = 0; i < ROWS; ++i) standardize[i] = {Form::CENTRED ? task.mean[row + i] : 0.0f, task.rstd[row + i]};
  }

  SIMD_TARGET void Run() {
    const RowGroup reading = *this;  // or this would be kept in memory
    reading.FindMeans(differentiate);
    const RowGroup writing = *this;
    writing.WriteGradients();
  }

 private:
  SIMD_TARGET void FindMeans(Differentiate<T>* found) const {
    RowSums<T> products[ROWS], scaleds[ROWS];
    int64_t col = 0;
    for (; col + PACK <= hidden; col += PACK) {
      const Pack factor = ReadColumns(weight + col);
#pragma GCC unroll 4
      for (int i = 0; i < ROWS; ++i) {
        const Pack scaled = Each(Product(), Load(dy + i * hidden + col), factor);
        const Pack normalized = Each(standardize[i], Load(x + i * hidden + col));
        products[i].AddValues(Each(Product(), scaled, normalized));
        if constexpr (Form::CENTRED) scaleds[i].AddValues(scaled);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; ++i) {
      double product = products[i].Total(), total = Form::CENTRED ? scaleds[i].Total() : 0;
      for (int64_t last = col; last < hidden; ++last) {
        const float scaled = ToFloat(dy[i * hidden + last]) * ToFloat(weight[last]);
        product += scaled * standardize[i](ToFloat(x[i * hidden + last]));
        total += scaled;
      }
      const double columns = static_cast<double>(hidden);
      found[i] = {standardize[i].rstd, static_cast<float>(total / columns), static_cast<float>(product / columns)};
    }
  }

  SIMD_TARGET void WriteGradients() const {
    int64_t col = 0;
    for (; col + PACK <= hidden; col += PACK) {
      const Pack factor = ReadColumns(weight + col);
      Pack dweight = Load(sums.dweight + col), dbias = factor;
      if constexpr (Form::CENTRED) dbias = Load(sums.dbias + col);
#pragma GCC unroll 4
      for (int i = 0; i < ROWS; ++i) {
        const int64_t at = i * hidden + col;
        if (ahead != 0) {
          Prefetch(dy + ahead + i * hidden, col);
          Prefetch(x + ahead + i * hidden, col);
        }
        const Pack given = Load(dy + at), normalized = Each(standardize[i], Load(x + at));
        Pack above = given;
        if constexpr (Form::ADD) above = Load(dnew_residual + at);
        Write(dx + at, Each(differentiate[i], Each(Product(), given, factor), normalized, above));
        dweight = Each(AddProduct(), dweight, given, normalized);
        if constexpr (Form::CENTRED) dbias = Each(Sum(), dbias, given);
      }
      Store(sums.dweight + col, dweight);
      if constexpr (Form::CENTRED) Store(sums.dbias + col, dbias);
    }
    for (; col < hidden; ++col) {
      for (int i = 0; i < ROWS; ++i) {
        const int64_t at = i * hidden + col;
        const float given = ToFloat(dy[at]), normalized = standardize[i](ToFloat(x[at]));
        const float above = Form::ADD ? ToFloat(dnew_residual[at]) : 0.0f;
        dx[at] = FromFloat<T>(differentiate[i](given * ToFloat(weight[col]), normalized, above));
        sums.dweight[col] += given * normalized;
        if (Form::CENTRED) sums.dbias[col] += given;
      }
    }
  }

  // What all rows share, in the order of their columns in a pack.
  SIMD_TARGET static inline __attribute__((always_inline)) Pack ReadColumns(const W* shared) {
    if constexpr (std::is_same_v<T, BFloat16> && std::is_same_v<W, float>) return LoadPairs(shared);
    return Load(shared);
  }

  // A branch, which the processor foresees: two copies of the loops would take twice as long to compile.
  SIMD_TARGET inline __attribute__((always_inline)) void Write(T* target, const Pack& pack) const {
    if (stream) {
      Stream(target, pack);
    } else {
      Store(target, pack);
    }
  }
};

template <typename T, typename W>
SIMD_TARGET void RunRows(const RowTask& task, int64_t begin, int64_t end, Sums sums) {
  std::fill_n(sums.dweight, task.hidden, 0.0f);
  if (Form::CENTRED) std::fill_n(sums.dbias, task.hidden, 0.0f);
  int64_t row = begin;
  for (; task.rows_at_once == ROWS_AT_ONCE && row + ROWS_AT_ONCE <= end; row += ROWS_AT_ONCE) {
    const bool has_next = row + 2 * ROWS_AT_ONCE <= end;
    RowGroup<ROWS_AT_ONCE, T, W>(task, row, has_next ? ROWS_AT_ONCE * task.hidden : 0, sums).Run();
  }
  for (; row < end; ++row) RowGroup<1, T, W>(task, row, 0, sums).Run();
  if (task.stream) StreamFence();
}

// A pack of sums to the columns that it stands for.
template <typename T, typename W>
SIMD_TARGET inline void WriteColumns(W* target, Pack pack) {
  if constexpr (std::is_same_v<T, BFloat16> && std::is_same_v<W, float>) {
    float values[PACK], columns[PACK];
    for (int64_t i = 0; i < PACK; ++i) columns[i] = static_cast<float>(i);
    Store(values, pack);
    Store(columns, LoadPairs(columns));
    for (int64_t i = 0; i < PACK; ++i) target[static_cast<int64_t>(columns[i])] = values[i];
  } else {
    Store(target, Each(Rounded<W>(), pack));
  }
}

template <typename T, typename W>
SIMD_TARGET void AddBlocks(float* sums, int64_t blocks, int64_t stride, W* target, int64_t begin, int64_t end) {
  for (int64_t block = 1; block < blocks; ++block) {
    const float* const added = sums + block * stride;
    int64_t col = begin;
    for (; col + PACK <= end; col += PACK) Store(sums + col, Each(Sum(), Load(sums + col), Load(added + col)));
    for (; col < end; ++col) sums[col] += added[col];
  }
  int64_t col = begin;
  for (; col + PACK <= end; col += PACK) WriteColumns<T>(target + col, Load(sums + col));
  for (; col < end; ++col) target[col] = FromFloat<W>(sums[col]);
}

template <typename T, typename W>
void AddBlocksOf(const RowTask& task, Sums sums, int64_t blocks, int64_t stride, int64_t begin, int64_t end) {
  AddBlocks<T>(sums.dweight, blocks, stride, static_cast<W*>(task.dweight), begin, end);
  if (Form::CENTRED) AddBlocks<T>(sums.dbias, blocks, stride, static_cast<W*>(task.dbias), begin, end);
}

template <typename T, typename W = T>
constexpr Kernels Both() {
  return {RunRows<T, W>, AddBlocksOf<T, W>};
}

constexpr RowKernels KERNELS = {Both<Half>(), Both<BFloat16>(), Both<float>(), Both<Half, float>(),
                                Both<BFloat16, float>()};
