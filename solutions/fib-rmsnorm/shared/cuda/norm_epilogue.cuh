#pragma once

// What becomes of a normalised row: weight, bias, activation and scale, all in float32, rounded once.

#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "norm_inputs.cuh"
#include "norm_statistic.cuh"
#include "vec.cuh"

namespace {

template <class Form>
constexpr float LARGEST_FLOAT8 = Form::E5M2 ? 57344.f : 448.f;
// A row of zeros has a scale too: vLLM's.
template <class Form>
constexpr float SMALLEST_ROW_SCALE = 1.f / (LARGEST_FLOAT8<Form> * 512.f);

template <class Form>
__device__ float row_scale(const Normal& normal) {
  return fmaxf(normal.largest * normal.rstd * (1.f / LARGEST_FLOAT8<Form>), SMALLEST_ROW_SCALE<Form>);
}

// Of float8, where it is given. It is asked for with the row's tensors, before the row's sum is known.
template <class Form, typename Row>
__device__ float given_scale(const Arguments<Form, Row>& given) {
  if constexpr (Form::SCALE == Scale::GIVEN) return given.scale_ptr != nullptr ? *given.scale_ptr : given.scale;
  return 1.f;
}

// What a number is multiplied by besides the weight: rstd, and one over the scale of float8.
template <class Form>
__device__ float final_factor(const Normal& normal, float given_scale) {
  static_assert(Form::SCALE == Scale::NONE || IS_PROPORTIONAL<Form>, "float8 needs a norm that is proportional to x");
  if constexpr (Form::SCALE == Scale::GIVEN) return __fdividef(normal.rstd, given_scale);
  if constexpr (Form::SCALE == Scale::PER_ROW) return __fdividef(normal.rstd, row_scale<Form>(normal));
  return normal.rstd;
}

// silu(gate) = gate / (1 + exp(-gate)), by the exp of a number of at most 0: it never overflows.
__device__ float silu(float gate) {
  const float small = __expf(-fabsf(gate));
  return gate * __fdividef(gate < 0.f ? small : 1.f, 1.f + small);
}

template <class Form, typename Pair>
__device__ void narrow_out(float2 pair, Pair& to) {
  if constexpr (Form::SCALE == Scale::NONE) {
    narrow(pair, to);
  } else {
    // Beyond the largest number, it is the largest.
    constexpr __nv_fp8_interpretation_t FORMAT = Form::E5M2 ? __NV_E5M2 : __NV_E4M3;
    if constexpr (sizeof(Pair) == 2) {
      to = __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, FORMAT);
    } else {
      to = __nv_cvt_float_to_fp8(pair.x, __NV_SATFINITE, FORMAT);
    }
  }
}

// What Llama's convention rounds in the middle.
template <typename Row>
__device__ float round_like(float value) {
  typename Row::Part rounded;
  narrow({value, 0.f}, rounded);
  return widen(rounded).x;
}

// One number. What the form lacks is not read.
template <class Form, typename Row>
__device__ float finish(float x, float weight, float bias, float gate, float mean, float factor) {
  if (Form::WEIGHT == Weight::PLUS_ONE) weight += 1.f;
  if constexpr (Form::SCALE == Scale::PER_ROW)
    return x * weight * factor;  // the product is known from largest_magnitude
  if constexpr (Form::STATISTIC == Statistic::VARIANCE) x -= mean;
  x *= factor;
  if constexpr (Form::WEIGHT == Weight::AFTER_ROUNDING) x = round_like<Row>(x);
  if constexpr (WEIGHTED<Form>) x *= weight;
  if constexpr (Form::BIAS) x += bias;
  if constexpr (Form::ACTIVATION == Activation::RELU) x = x < 0.f ? 0.f : x;  // a NaN stays one
  if constexpr (GATED<Form>) x *= silu(gate);
  return x;
}

// A part that a form may lack, in float32.
template <typename Part>
__device__ float2 widen_pair(const Part& part, int i) {
  return widen(part.pairs()[i]);
}
__device__ float2 widen_pair(const Nothing&, int) { return {0.f, 0.f}; }

template <class Form, typename Row>
__device__ Out<Form, Row> finish(const Held<Form, Row>& x, const RowInputs<Form, Row>& inputs,
                                 const ColumnInputs<Form, Row>& columns, float mean, float factor) {
  Out<Form, Row> out;
#pragma unroll
  for (int i = 0; i < Row::PAIRS; ++i) {
    const float2 value = widen_pair(x, i), weight = widen_pair(columns.weight, i), bias = widen_pair(columns.bias, i),
                 gate = widen_pair(inputs.gate, i);
    narrow_out<Form>({finish<Form, Row>(value.x, weight.x, bias.x, gate.x, mean, factor),
                      finish<Form, Row>(value.y, weight.y, bias.y, gate.y, mean, factor)},
                     out.pairs()[i]);
  }
  return out;
}

}  // namespace
