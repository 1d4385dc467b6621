#pragma once

// The tensors of a form, as its kernels take them and as a thread holds its parts of them. `Row` is the unit in which
// rows are read: 16 bytes, or a single number. What a form lacks takes no place.

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "norm_call.h"
#include "norm_form.h"
#include "vec.cuh"

namespace {

struct Nothing {};
template <bool USED, typename T>
using If = std::conditional_t<USED, T, Nothing>;

template <class Form>
constexpr bool ADDS = Form::ADD != Add::NONE;
template <class Form>
constexpr bool GATED = Form::ACTIVATION == Activation::SILU_GATE;
template <class Form>
constexpr bool WEIGHTED = Form::WEIGHT != Weight::NONE;

// As many floats as a Row has numbers.
template <typename Row>
struct Floats;
template <typename Pair>
struct Floats<Vec<Pair>> {
  static constexpr int VECS = Vec<Pair>::PAIRS / Vec<float2>::PAIRS;
  Vec<float2> vecs[VECS];
  __device__ const float2* pairs() const { return vecs[0].pairs(); }
};
template <typename T>
struct Floats<Single<T>> : Single<float> {};

template <typename Pair>
__device__ Floats<Vec<Pair>> load(const Floats<Vec<Pair>>* ptr) {
  Floats<Vec<Pair>> floats;
#pragma unroll
  for (int i = 0; i < floats.VECS; ++i) floats.vecs[i] = load(ptr->vecs + i);
  return floats;
}

template <typename Pair>
__device__ Floats<Vec<Pair>> load_now(const Floats<Vec<Pair>>* ptr) {
  Floats<Vec<Pair>> floats;
#pragma unroll
  for (int i = 0; i < floats.VECS; ++i) floats.vecs[i] = load_now(ptr->vecs + i);
  return floats;
}

template <typename Pair>
__device__ void arrive_with(Vec<Pair>& x, const Floats<Vec<Pair>>& weight, unsigned int none) {
#pragma unroll
  for (int i = 0; i < weight.VECS; ++i) arrive_with(x, weight.vecs[i], none);
}

// As many bytes, for float8.
template <typename Row>
struct Bytes {
  using Part = std::conditional_t<Row::WIDTH == 2, uint16_t, uint8_t>;
  std::conditional_t<Row::WIDTH == 1, uint8_t, std::conditional_t<Row::PAIRS == 2, unsigned int, uint2>> words;
  __device__ Part* pairs() { return reinterpret_cast<Part*>(&words); }
};

template <class Form, typename Row>
using Column = std::conditional_t<Form::FLOAT_WEIGHT, Floats<Row>, Row>;
template <class Form, typename Row>
using Out = std::conditional_t<Form::SCALE == Scale::NONE, Row, Bytes<Row>>;

// Base classes, since an empty one takes no place among a kernel's parameters.
template <bool USED, typename Row>
struct ResidualArguments {};
template <typename Row>
struct ResidualArguments<true, Row> {
  const Row* residual;
  Row* new_residual;
};
template <bool USED, typename Row>
struct GateArgument {};
template <typename Row>
struct GateArgument<true, Row> {
  const Row* gate;
};
template <bool USED, typename Column>
struct WeightArgument {};
template <typename Column>
struct WeightArgument<true, Column> {
  const Column* weight;
};
template <bool USED, typename Column>
struct BiasArgument {};
template <typename Column>
struct BiasArgument<true, Column> {
  const Column* bias;
};
template <typename Out>
struct OutArgument {
  Out* out;
};
template <Scale SCALE>
struct ScaleArguments {};
template <>
struct ScaleArguments<Scale::GIVEN> {
  const float* scale_ptr;
  float scale;
};
template <>
struct ScaleArguments<Scale::PER_ROW> {
  float* row_scales;
};

template <typename Row>
struct XArgument {
  const Row* x;
};

template <class Form, typename Row>
struct Arguments : XArgument<Row>,
                   ResidualArguments<ADDS<Form>, Row>,
                   GateArgument<GATED<Form>, Row>,
                   WeightArgument<WEIGHTED<Form>, Column<Form, Row>>,
                   BiasArgument<Form::BIAS, Column<Form, Row>>,
                   OutArgument<Out<Form, Row>>,
                   ScaleArguments<Form::SCALE> {};

template <class Form, typename Row>
Arguments<Form, Row> make_arguments(const NormCall& call) {
  Arguments<Form, Row> made;
  made.x = static_cast<const Row*>(call.x);
  if constexpr (ADDS<Form>) {
    made.residual = static_cast<const Row*>(call.residual);
    made.new_residual = static_cast<Row*>(call.new_residual);
  }
  if constexpr (GATED<Form>) made.gate = static_cast<const Row*>(call.gate);
  if constexpr (WEIGHTED<Form>) made.weight = static_cast<const Column<Form, Row>*>(call.weight);
  if constexpr (Form::BIAS) made.bias = static_cast<const Column<Form, Row>*>(call.bias);
  made.out = static_cast<Out<Form, Row>*>(call.out);
  if constexpr (Form::SCALE == Scale::GIVEN) {
    made.scale_ptr = call.scale_ptr;
    made.scale = call.scale;
  }
  if constexpr (Form::SCALE == Scale::PER_ROW) made.row_scales = call.row_scales;
  return made;
}

// The same, from a row on.
template <class Form, typename Row>
__device__ Arguments<Form, Row> move_on(Arguments<Form, Row> given, int64_t by) {
  given.x += by;
  if constexpr (ADDS<Form>) {
    given.residual += by;
    given.new_residual += by;
  }
  if constexpr (GATED<Form>) given.gate += by;
  given.out += by;
  return given;
}

}  // namespace
