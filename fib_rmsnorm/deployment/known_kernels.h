// The kernels that are known, by what decides which one serves.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <vector>

namespace {

using at::Tensor;

// What a call has beside x and a weight.
enum Extra : uint8_t { NONE = 0, BIAS = 1, RESIDUAL = 2, IS_GRADIENT = 4 };

// Rows, hidden, the form's place in FORMS, device, dtype, the weight's (Undefined without one), and Extra.
using Key = std::tuple<int64_t, int64_t, int, int, at::ScalarType, at::ScalarType, uint8_t>;

// A reference that goes with its scope.
struct Owned {
  PyObject* object;
  explicit Owned(PyObject* owned) : object(owned) {}
  Owned(const Owned&) = delete;
  ~Owned() { Py_XDECREF(object); }
};

struct Kernel {
  PyObject* entry = {};    // owned by the table
  void* native = {};       // the function of tvm-ffi that the entry is; null for a kernel in Python
  bool adds_before = {};   // whether it is the norm's, which gets the sum of x and the residual
  int torchs_passes = {};  // that torch serves where gradients are wanted: 1 is the forward pass, 2 are both
};

constexpr std::array<c10::string_view, 4> FORMS{"torch", "llama", "gemma", "layernorm"};
constexpr size_t MOST_KERNELS = 4096;  // that a process remembers
constexpr int LAYER_NORM = 3;          // its place
std::map<Key, Kernel> kernels;

int find_form(c10::string_view name) {
  const auto found = std::find(FORMS.begin(), FORMS.end(), name);
  return found == FORMS.end() ? -1 : static_cast<int>(found - FORMS.begin());
}

// The kernel for calls like this one; one without an entry if none is known.
Kernel find_kernel(int form, const Tensor& x, const Tensor* weight, uint8_t extra) {
  const int64_t hidden = x.size(-1);
  const auto found =
      kernels.find(Key{x.numel() / std::max<int64_t>(hidden, 1), hidden, form, x.is_cuda() ? x.get_device() : -1,
                       x.scalar_type(), weight != nullptr ? weight->scalar_type() : at::ScalarType::Undefined, extra});
  return found == kernels.end() ? Kernel{} : found->second;
}

[[noreturn]] void throw_persistent() {
  python_error error;
  error.persist();  // beyond Python's lock
  throw error;
}

}  // namespace
