"""The calling style of a C++ or CUDA entry point, and the lines to add where a file exports none that can be called."""

from __future__ import annotations

from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.sources.native_kernel import Export, NativeFunction, find_exports, find_functions
from fib_rmsnorm.registry.sources.parameters import Signature, describe_unused, find_style, plan_call, wrong_number

_TENSOR_VIEW = "tvm::ffi::TensorView"
_STREAM = "static_cast<cudaStream_t>(TVMFFIEnvGetStream({tensor}.device().device_type, {tensor}.device().device_id))"


def find_export(path: Path, text: str, entry: str | None, signature: Signature) -> tuple[str, Export]:
    """The exported function to call: `entry`, else `run`, else the only one; with its name.

    Raises InputError, with lines to add if some would do, if there is none.
    """
    exports = find_exports(text)
    name = entry or ("run" if "run" in exports or len(exports) != 1 else next(iter(exports)))
    if name in exports:
        return name, exports[name]
    if exports:
        raise InputError(f"{path}: does not export {name!r}; choose one with --entry: {', '.join(exports)}")
    for function in reversed(find_functions(text)):  # the one that uses the others is usually the last
        paste = _export(function, name, signature)
        if paste:
            raise InputError(
                f"{path}: does not export {name!r}; add these lines at the end, which call {function.name}:", paste
            )
    raise InputError(
        f"{path}: does not export {name!r}: add TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, function), where function runs on"
        f" the host and takes {_TENSOR_VIEW} (a __global__ function cannot be the entry point)"
    )


def native_style(path: Path, entry: str, export: Export, signature: Signature) -> bool:
    """Whether the exported function is destination-passing.

    Raises InputError, with lines that would do, if it cannot be called with the Definition's names in order.
    """
    parameters = export.by_name
    if parameters is None:
        raise InputError(f"{path}: cannot find the definition of {export.function}, which {entry!r} exports")
    style = find_style(parameters, signature)
    if style is not None:
        return style
    call = plan_call(parameters, signature)
    if call is None:
        raise wrong_number(str(path), export.function or entry, parameters, signature)
    names = ", ".join([*signature.inputs, *(signature.outputs if call.destination_passing_style else ())])
    what = f"{path}: {export.function or entry}{parameters} cannot be called as {entry}({names})"
    if not export.function:
        raise InputError(f"{what}: give the parameters of the lambda this order")
    paste = _export(NativeFunction(export.function, export.parameters or ()), entry, signature)
    note = describe_unused(call.unused, export.function)
    raise InputError(f"{what}; put these lines in place of its export{note}:", paste)


def _wrap(function: NativeFunction, name: str, signature: Signature) -> str:
    """A function that takes the Definition's names in order and calls one that does not."""
    call = plan_call(function.by_name, signature)
    if call is None:
        return ""
    is_torch = function.takes("torch::Tensor", "at::Tensor")
    tensor = "torch::Tensor" if is_torch else _TENSOR_VIEW
    names = [*signature.inputs, *(signature.outputs if call.destination_passing_style else ())]
    parameters = ", ".join(f"{'double' if signature.is_number(each) else tensor} {each}" for each in names)
    result = "void" if call.destination_passing_style else tensor
    returns = "" if call.destination_passing_style else "return "
    arguments = ", ".join(call.arguments.values())
    return f"{result} {name}({parameters}) {{ {returns}{function.name}({arguments}); }}"


def _export(function: NativeFunction, entry: str, signature: Signature) -> str:
    """Lines that export a function; empty if its parameters cannot be matched."""
    is_torch = function.takes("torch::Tensor", "at::Tensor")
    if not is_torch and not function.takes("TensorView"):
        return _export_pointers(function, entry, signature)
    name, wrapped = function.name, ""
    if find_style(function.by_name, signature) is None:
        name = f"{entry}_in_order"
        wrapped = _wrap(function, name, signature)
        if not wrapped:
            return ""
    if is_torch:
        bound = f'PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {{ module.def("{entry}", &{name}); }}'
    else:
        bound = f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({entry}, {name});"
    return f"{wrapped}\n{bound}".strip()


def _export_pointers(function: NativeFunction, entry: str, signature: Signature) -> str:
    """Lines that export a function of raw pointers, sizes and numbers; empty if its parameters cannot be matched."""
    tensors = [name for name in (*signature.inputs, *signature.outputs) if not signature.is_number(name)]
    axes = {axis: f"{name}.size({at})" for name in reversed(tensors) for at, axis in enumerate(signature.shapes[name])}
    taken = {parameter.name for parameter in function.parameters}
    inputs = [name for name in tensors if name in signature.inputs and name not in taken]
    outputs = [name for name in signature.outputs if name not in taken]
    numbers = [name for name in signature.inputs if signature.is_number(name) and name not in taken]
    sizes = [axis for axis in signature.shapes[tensors[0]] if axis not in taken] if tensors else []
    arguments = []
    for parameter in function.parameters:
        kind, name = parameter.type, parameter.name
        if "*" in kind:
            rest = inputs if "const" in kind else outputs
            source = name if name in tensors else rest.pop(0) if rest else ""
            argument = f"static_cast<{kind}>({source}.data_ptr())" if source else ""
        elif "cudaStream_t" in kind:
            argument = _STREAM.format(tensor=tensors[0])
        elif kind.split()[-1] in ("float", "double"):
            argument = name if name in signature.inputs else numbers.pop(0) if numbers else ""
        else:
            argument = axes.get(name) or (axes[sizes.pop(0)] if sizes else "")
        if not argument:
            return ""
        arguments.append(argument)
    if not function.takes("*") or inputs or outputs:
        return ""
    names = [*signature.inputs, *signature.outputs]
    parameters = ", ".join(f"{'double' if signature.is_number(each) else _TENSOR_VIEW} {each}" for each in names)
    headers = ["container/tensor.h", "function.h", *(["extra/c_env_api.h"] if function.takes("cudaStream_t") else [])]
    return "\n".join(
        [
            *(f"#include <tvm/ffi/{header}>" for header in headers),
            f"void {entry}_on_tensors({parameters}) {{",
            f"  {function.name}({f',{chr(10)}    '.join(arguments)});",
            "}",
            f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({entry}, {entry}_on_tensors);",
        ]
    )
