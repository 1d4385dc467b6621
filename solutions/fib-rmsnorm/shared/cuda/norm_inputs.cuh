#pragma once

// What a thread holds of a row and of what all rows share, and the prologue: what is normalised.

#include <cuda_runtime.h>

#include <cstdint>

#include "norm_arguments.cuh"
#include "vec.cuh"

namespace {

template <class Form, typename Row>
struct RowInputs {
  Row x;
  If<ADDS<Form>, Row> residual;
  If<GATED<Form>, Row> gate;
};

template <class Form, typename Row>
struct ColumnInputs {
  If<WEIGHTED<Form>, Column<Form, Row>> weight;
  If<Form::BIAS, Column<Form, Row>> bias;
};

// How the parts are loaded: at once, or when the compiler likes.
struct Now {
  template <typename Part>
  __device__ Part operator()(const Part* ptr) const {
    return load_now(ptr);
  }
};
struct Later {
  template <typename Part>
  __device__ Part operator()(const Part* ptr) const {
    return load(ptr);
  }
};

template <class Form, typename Row, class Load>
__device__ RowInputs<Form, Row> load_row(const Arguments<Form, Row>& from, int64_t at, Load load) {
  RowInputs<Form, Row> inputs;
  inputs.x = load(from.x + at);
  if constexpr (ADDS<Form>) inputs.residual = load(from.residual + at);
  if constexpr (GATED<Form>) inputs.gate = load(from.gate + at);
  return inputs;
}

template <class Form, typename Row, class Load>
__device__ ColumnInputs<Form, Row> load_columns(const Arguments<Form, Row>& from, int64_t at, Load load) {
  ColumnInputs<Form, Row> inputs;
  if constexpr (WEIGHTED<Form>) {
    inputs.weight = load(from.weight + at);
  } else {
    inputs.weight = {};
  }
  if constexpr (Form::BIAS) inputs.bias = load(from.bias + at);
  return inputs;
}

// The numbers of a Row in float32.
template <typename Row>
struct Wide {
  static constexpr int PAIRS = Row::PAIRS, WIDTH = Row::WIDTH;
  float2 values[PAIRS];
  __device__ const float2* pairs() const { return values; }
};

// What is normalised: a sum that was not rounded takes as many registers as its two packed terms.
template <class Form, typename Row>
using Held = std::conditional_t<Form::ADD == Add::EXACT, Wide<Row>, Row>;

template <class Form, typename Row>
__device__ Held<Form, Row> add_residual(const RowInputs<Form, Row>& inputs) {
  if constexpr (!ADDS<Form>) {
    return inputs.x;
  } else {
    Held<Form, Row> held;
#pragma unroll
    for (int i = 0; i < Row::PAIRS; ++i) {
      const float2 x = widen(inputs.x.pairs()[i]), residual = widen(inputs.residual.pairs()[i]);
      const float2 sum = {x.x + residual.x, x.y + residual.y};
      if constexpr (Form::ADD == Add::EXACT) {
        held.values[i] = sum;
      } else {
        narrow(sum, held.pairs()[i]);
      }
    }
    return held;
  }
}

template <typename Row>
__device__ Row round_sum(const Row& sum) {
  return sum;
}

template <typename Row>
__device__ Row round_sum(const Wide<Row>& sum) {
  Row rounded;
#pragma unroll
  for (int i = 0; i < Row::PAIRS; ++i) narrow(sum.values[i], rounded.pairs()[i]);
  return rounded;
}

}  // namespace
