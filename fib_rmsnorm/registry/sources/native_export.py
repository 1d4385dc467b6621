"""The lines in C++ that export a call of a function: they pass it the memory of tensors, and sizes."""

import re
from dataclasses import replace

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import recognise_source
from fib_rmsnorm.registry.sources.callees import KernelCall
from fib_rmsnorm.registry.sources.native_functions import RETURNED, NativeFunction, Passed, arguments_of, find_dtype
from fib_rmsnorm.registry.sources.parameters import SCRATCH, STREAM, Parameter
from fib_rmsnorm.schema import Definition

CALLED = "called"
"""The name that a call is exported by."""
ROW = "[row]"
"""The end of a tensor's name where a function gets one row of it, and is called for each."""
SCRATCH_LIKE = "tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {0}.shape(), {0}.dtype(), {0}.device())"
"""An expression in C++ that makes a tensor like another."""
_HEADERS = (
    "#include <tvm/ffi/container/tensor.h>\n#include <tvm/ffi/extra/c_env_api.h>\n#include <tvm/ffi/function.h>\n"
)
_COPIED = """template <class T>
struct Copied : std::vector<T> {  // is copied back when the call has returned
  T* to;
  Copied(T* begin, T* end) : std::vector<T>(begin, end), to(begin) {}
  ~Copied() { std::copy(this->begin(), this->end(), to); }
  using std::vector<T>::operator=;
};
"""


def call_for_rows(call: str, passed: Passed, definition: Definition) -> str:
    """A call of a function of pointers: for each row, if it gets the size of a row and no number of them."""
    rows, *_, columns = definition.axes
    sizes = " ".join(argument for _, argument in passed)
    has_columns = columns in sizes.split() or any("*>" in each.type for each, _ in passed)
    if not any(each.element for each, _ in passed) or rows in sizes.split() or not has_columns:
        return call
    tensors = "|".join(
        name for name, each in (definition.inputs | definition.outputs).items() if rows in (each.shape or ())
    )
    return re.sub(rf"(?<![\w.])({tensors})(?!\w|=)", rf"\1{ROW}", call)


def _find_elements(text: str, function: NativeFunction, passed: Passed, definition: Definition) -> dict[str, str]:
    """The type as which a function takes the elements of each tensor that it gets by a pointer.

    Raises InputError, with the line that defines its own Definition, if it takes other dtypes.
    """
    specs = definition.inputs | definition.outputs
    dtypes = {name: spec.dtype.value for name, spec in specs.items() if spec.shape is not None}
    elements = {name: each.element for each, name in passed if name in dtypes and each.element}
    words = re.findall(r"\w+", re.sub(r"//.*", "", text).replace("cuda_fp16", "half"))
    is_open = words.count(function.name) == 1 and "float" in function.body  # of no dtype yet, and it converts
    for name, element in elements.items():
        if function.chooses(element):
            any_ = {"float16": "_Float16"}.get(dtypes[name], "float") if is_open else "float"
            elements[name] = next((word for word in words if find_dtype(word) == dtypes[name]), any_)
    casts = re.findall(r"[(<]\s*(?:const\s+)?(\w+)\s*(?:const\s*)?\*", function.body)
    cast = next(filter(None, map(find_dtype, casts)), "")  # of bytes
    taken = {name: find_dtype(element, function.name) or cast or dtypes[name] for name, element in elements.items()}
    if other := next((name for name in taken if taken[name] != dtypes[name]), None):
        dtype = (dtypes | taken)[next(iter(dtypes))]
        apart = [f"{name}={each}" for name, each in taken.items() if each != dtype]
        said, known, paste = ", ".join([dtype, *apart]), recognise_source(definition), ""
        if known and dtype != "float64" and all(each.partition("=")[0] in definition.inputs for each in apart):
            hidden = definition.const_axes[known.axes["hidden"]]
            paste = f"fib-rmsnorm define {known.operator} --hidden {hidden} --dtype {said.replace(' ', '')}"
        what = f"{function.name} takes {elements[other]}*, so it computes in {said}"
        raise InputError(f"{what}: judge it by a Definition in {said}, not by {definition.name}", paste)
    return elements


def write_export(
    text: str, function: NativeFunction, call: KernelCall, definition: Definition, *, is_torch: bool
) -> list[str]:
    """Lines that export a call of a function of a text. Raises InputError if its pointers are of another dtype."""
    specs, passed = definition.inputs | definition.outputs, call.passed(definition)
    given = [(each, name.removesuffix(ROW)) for each, name in function.find_passed(call.made)]
    target = call.made.partition(RETURNED)[2]
    returned = Parameter("", f"vector<{next((each.element for each, _ in given if each.element), '')}*>")
    given += [(returned, target.removesuffix(ROW))] if target else []
    elements = _find_elements(text, function, given, definition)
    types = {each.element: elements[name] for each, name in given if name in elements}
    view, tensor = "_view" * bool(elements), "torch::Tensor" if is_torch else "tvm::ffi::TensorView"
    first = next(f"{name}{view}" for name in passed if specs[name].shape is not None)
    columns = [*definition.axes][-1]
    kinds = {name: f"double {name}" if specs[name].shape is None else f"{tensor} {name}{view}" for name in passed}
    lines = ["" if is_torch else _HEADERS, _COPIED * function.takes("*>")]
    lines += [f"auto {CALLED}_in_order({', '.join(kinds.values())}) {{"]
    lines += [f"  auto* {name} = static_cast<{elements[name]}*>({name}_view.data_ptr());" for name in elements]
    if call.uses(STREAM):
        stream = f"TVMFFIEnvGetStream({first}.device().device_type, {first}.device().device_id)"
        lines += [f"  auto {STREAM} = static_cast<cudaStream_t>({stream});"]
    is_row = ROW in call.text
    sizes = replace(call, text=call.text + f" {columns}" * is_row).find_sizes(definition, f"{{}}{view}.size({{}})")
    lines += [f"  const auto {axis} = {size};" for axis, size in sizes.items()]
    if is_row:
        lines += [f"  for (int64_t row = 0; row < {first}.numel() / {columns}; ++row) {{"]

    def write(parameter: Parameter, argument: str) -> str:
        """An argument in C++, below lines that make what it needs."""
        name, made = argument.removesuffix(ROW), f"made_{len(lines)}"
        if (kind := argument.partition("(")[0]) in function.classes and argument != kind:
            lines.append(f"  {kind} {made}{{}};")
            for each, value in function.find_fields(argument):
                lines.append(f"  {made}.{each.name} = {write(each, value)};")
            return f"{'&' * ('*' in parameter.type)}{made}"
        element = types.get(parameter.element, "float" if function.chooses(parameter.element) else parameter.element)
        if argument == SCRATCH:  # each has memory of its own
            lines.append(f"  const auto {made} = {SCRATCH_LIKE.format(first)};")
            return f"static_cast<{element}*>({made}.data_ptr())"
        if argument == "nullptr" and element:
            return f"static_cast<{element}*>(nullptr)"
        if argument == "{}" and parameter.type.endswith("&"):
            lines.append(f"  std::decay_t<{parameter.type}> {made};")
            return made
        is_matrix = name in specs and columns in (specs[name].shape or ())
        memory = name if name == argument else f"{name} + row * {columns}" if is_matrix else f"{name} + row"
        if "*>" in parameter.type and name in specs:
            kind = "std::vector" if "const" in parameter.type else "Copied"
            count = f"{name}_view.numel()" if name == argument else columns
            lines.append(f"  {kind}<{element}> {made}({memory}, {memory} + {count});")
            return made
        return f"&{argument}" if "Tensor*" in parameter.type else memory

    written = [write(*each) for each in zip(function.parameters, arguments_of(call.made), strict=False)]
    result = function.write_call(written, next(iter(types.values()), ""))
    if target:
        result = f"{write(returned, target)} = {result}"
    else:
        chosen = call.made.rpartition(")")[2]
        result = f"std::get<0>({result})" if chosen and "vector" not in function.words else f"{result}{chosen}"
        result = f"(void){result}" if is_row else f"return {result}"
    return [*lines, f"  {result};\n  }}\n}}\n" if is_row else f"  {result};\n}}\n"]
