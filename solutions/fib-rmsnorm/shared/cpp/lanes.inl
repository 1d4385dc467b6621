// What is done to the values of a row, written once for a float and for a vector of them.
//
// Each simd_*.h includes this file inside its namespace, as rows.inl. Its vectors, the Lanes of a Pack, are those of
// g++'s and clang's extension, for which operators, comparisons and ?: work element by element, a float among them
// meaning each element. Each(operation, packs...) applies an operation to the Lanes of packs.

template <typename V>
SIMD_OP auto BitsOf(V value) {
  if constexpr (std::is_same_v<V, float>) {
    return FloatBits(value);
  } else {
    return (decltype(value < value))value;
  }
}

template <typename V, typename Bits>
SIMD_OP V OfBits(Bits bits) {
  if constexpr (std::is_same_v<V, float>) {
    return BitsFloat(bits);
  } else {
    return (V)bits;
  }
}

// Subtracts a unit of float32 where that makes the addition of RoundBFloat16 round a tie to even. What was rounded to
// float32 already has no ties to speak of; sums and products of two bfloat16 numbers are exact, and have many.
template <typename V>
SIMD_OP V BreakBFloat16Tie(V value) {
  const auto bits = BitsOf(value);
  return OfBits<V>(bits - ((bits >> 15) & ~(bits >> 16) & 1));  // the last bit is even, and at least half follows
}

SIMD_OP float RoundToHalf(float value) { return ToFloat(FromFloat<Half>(value)); }

// Rounds to T, ties to even, and goes on in float32.
template <typename T, typename V>
SIMD_OP V RoundTo(V value) {
  if constexpr (std::is_same_v<T, Half>) {
    return RoundToHalf(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const auto bits = BitsOf(BreakBFloat16Tie(value)) + 0x8000;
    return OfBits<V>(bits - (bits & 0xffff));
  } else {
    return value;
  }
}

// A NaN of float32 can have bits that RoundBFloat16 would carry out of it.
template <typename V>
SIMD_OP V ClearNan(V value) {
  return value == value ? value : V() + __builtin_nanf("");
}

// Of a NaN, NaN.
template <typename V>
SIMD_OP V Relu(V value) {
  return value < 0.0f ? V() : value;
}

// exp(x) for |x| up to 80, within 1 unit in the last place: 2^n * exp(x - n * ln(2)), the second factor by the
// polynomial of Cephes' expf.
template <typename V>
SIMD_OP V Exp(V x) {
  constexpr float LOG2_E = 0x1.715476p+0f;
  constexpr float LN2_HIGH = 0.693359375f, LN2_LOW = -2.12194440e-4f;  // n * LN2_HIGH is exact
  constexpr float TO_INTEGER = 0x1.8p23f;  // a sum with it is rounded to an integer, which its last bits are
  const V sum = x * LOG2_E + TO_INTEGER;
  const V n = sum - TO_INTEGER;
  const V rest = x - n * LN2_HIGH - n * LN2_LOW;
  V polynomial = V() + 1.9875691500e-4f;
  polynomial = polynomial * rest + 1.3981999507e-3f;
  polynomial = polynomial * rest + 8.3334519073e-3f;
  polynomial = polynomial * rest + 4.1665795894e-2f;
  polynomial = polynomial * rest + 1.6666665459e-1f;
  polynomial = polynomial * rest + 5.0000001201e-1f;
  const V exp_rest = polynomial * (rest * rest) + rest + 1.0f;
  constexpr int ONE = 0x3f800000, EXPONENT = 23;  // of a float's bits
  return exp_rest * OfBits<V>((BitsOf(sum) << EXPONENT) + ONE);
}

// g / (1 + exp(-g)), where exp(-g) would overflow below -88 while the result is still a number, -100 * exp(-100) for
// one: with the root r of exp(g), it is g * r * r / (1 + r * r), which rounds to a subnormal once. Below LEAST all
// round to -0, and -infinity gives NaN as the formula does; above MOST, all are g to the last bit.
template <typename V>
SIMD_OP V Silu(V gate) {
  constexpr float LEAST = -128, MOST = 40;
  const V limited = gate > MOST ? V() + MOST : (gate < LEAST ? V() + LEAST : gate);
  const V root = Exp(limited * 0.5f);
  const V silu = limited * root * root / (root * root + 1.0f);
  return gate > MOST ? gate : (gate < LEAST ? gate * 0.0f : silu);
}

struct Sum {
  template <typename V>
  SIMD_OP V operator()(V x, V residual) const {
    return x + residual;
  }
};

struct Centre {
  float mean;

  template <typename V>
  SIMD_OP V operator()(V x) const {
    return x - mean;
  }
};

// The factor that a weight stands for.
struct Factor {
  template <typename V>
  SIMD_OP V operator()(V weight) const {
    if constexpr (Form::WEIGHT == Weight::ONE_PLUS) return weight + 1.0f;
    return weight;
  }
};

// An exact sum or product, ready for the conversion to T.
template <typename T>
struct Rounded {
  template <typename V>
  SIMD_OP V operator()(V exact) const {
    if constexpr (std::is_same_v<T, BFloat16>) return BreakBFloat16Tie(exact);
    return exact;
  }
};

// A value of x to out, a row of T whose weight and bias are of W. Arguments that the Form does without are not read.
template <typename T, typename W>
struct Finish {
  float mean;
  float rstd;

  template <typename V>
  SIMD_OP V operator()(V value, V factor, V bias, V gate) const {
    if constexpr (Form::CENTRED) value = value - mean;
    value = value * rstd;
    if constexpr (Form::WEIGHT == Weight::AFTER_ROUNDING) value = RoundTo<T>(value);
    if constexpr (Form::WEIGHT != Weight::NONE) value = value * factor;
    if constexpr (Form::BIAS) value = value + bias;
    if constexpr (Form::ACTIVATION == Activation::RELU) value = Relu(value);
    if constexpr (Form::ACTIVATION == Activation::SILU_GATE) value = value * Silu(gate);
    if constexpr (std::is_same_v<T, BFloat16> && std::is_same_v<W, float>) value = ClearNan(value);
    if constexpr (Form::WEIGHT == Weight::AFTER_ROUNDING) value = Rounded<T>()(value);
    return value;
  }
};
