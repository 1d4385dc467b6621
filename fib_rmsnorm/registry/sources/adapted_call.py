"""Write the file by which a Definition of other names calls a kernel: in its order, with its constants.

The file is a source of the Solution, beside those of the kernel, and holds its entry point.
"""

from __future__ import annotations

from dataclasses import dataclass

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.registry.sources.starting_kernel import identifier
from fib_rmsnorm.schema import BuildSpec, Definition, SupportedBindings


@dataclass(frozen=True)
class _BoundCall:
    """A call of a kernel, written in the names of another Definition than its own."""

    parameters: dict[str, str]
    """What the caller passes, by the Definition's names in order, and its type in C++."""
    arguments: tuple[str, ...]
    """What the kernel gets, in its order."""
    scratch: dict[str, str]
    """Outputs of the kernel that the Definition does not have, and the tensor that each is like."""
    returned: tuple[int, ...] | None
    """Which of the values that it returns the Definition wants; None if it writes to its last arguments."""
    all_returned: int


def write_adapter(
    own: Definition, definition: Definition, recognition: Recognition, spec: BuildSpec, about: str
) -> tuple[BuildSpec, str, str]:
    """Have a kernel for `own`, whose tensors are called as their parts, serve another Definition.

    Returns the spec of the adapted Solution, and the name and text of the file to add. Raises InputError that says why
    the kernel cannot be called.
    """
    if spec.in_place:
        raise InputError("it writes to its inputs")
    call = _plan(own, definition, recognition, spec)
    file, _, entry = spec.entry_point.partition("::")
    if not LANGUAGES[spec.language.value].is_compiled:
        text = _write_python(call, file.removesuffix(".py").replace("/", "."), entry, about)
        return spec.model_copy(update={"entry_point": "adapter.py::run"}), "adapter.py", text
    if spec.binding is SupportedBindings.TORCH or call.returned is not None:
        raise InputError("only compiled kernels that tvm-ffi binds, and that write to their outputs, can be adapted")
    adapted = spec.model_copy(update={"entry_point": "adapter.cpp::run_adapted"})
    return adapted, "adapter.cpp", _write_native(call, entry, about)


def _plan(own: Definition, definition: Definition, recognition: Recognition, spec: BuildSpec) -> _BoundCall:
    names = {part: identifier(name) for part, name in recognition.tensors.items()}
    passed = [*definition.inputs, *(definition.outputs if spec.destination_passing_style else ())]
    specs = {**definition.inputs, **definition.outputs}
    types = {identifier(name): "double" if specs[name].shape is None else "TensorView" for name in passed}
    scratch = {}
    arguments = []
    for part in (*own.inputs, *(own.outputs if spec.destination_passing_style else ())):
        if part not in names and part not in recognition.constants:
            names[part] = part
            scratch[part] = names[_find_like(own, part)]
        if part in own.inputs and part in recognition.tensors:
            is_number = own.inputs[part].shape is None
            if is_number != (specs[recognition.tensors[part]].shape is None):
                raise InputError(f"it takes {part} as a {'number' if is_number else 'tensor'}")
        arguments.append(names[part] if part in names else repr(recognition.constants[part]))
    parts = {name: part for part, name in recognition.tensors.items()}
    wanted = tuple(list(own.outputs).index(parts[name]) for name in definition.outputs)
    returned = None if spec.destination_passing_style else wanted
    return _BoundCall(types, tuple(arguments), scratch, returned, len(own.outputs))


def _find_like(own: Definition, output: str) -> str:
    """The input that has the shape and dtype of an output."""
    wanted = own.outputs.get(output)
    for name, spec in own.inputs.items():
        if wanted is not None and (spec.shape, spec.dtype) == (wanted.shape, wanted.dtype):
            return name
    raise InputError(f"it needs {output}")


def _write_python(call: _BoundCall, module: str, entry: str, about: str) -> str:
    made = {name: f"torch.empty_like({like})" for name, like in call.scratch.items()}
    called = f"_kernel({', '.join(made.get(each, each) for each in call.arguments)})"
    if call.returned is None or call.returned == tuple(range(call.all_returned)):
        body = called if call.returned is None else f"return {called}"
    else:
        chosen = ", ".join(f"outputs[{at}]" for at in call.returned)
        body = f"outputs = {called}\n    return {chosen}"
    imports = ["import torch", ""] if made else []
    lines = [f'"""{about}"""', "", *imports, f"from .{module} import {entry} as _kernel", "", ""]
    return "\n".join([*lines, f"def run({', '.join(call.parameters)}):", f"    {body}", ""])


def _write_native(call: _BoundCall, entry: str, about: str) -> str:
    parameters = [f"{kind} {name}" for name, kind in call.parameters.items()]
    made = [
        f"  const auto {name} =\n"
        f"      tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {like}.shape(), {like}.dtype(), {like}.device());"
        for name, like in call.scratch.items()
    ]
    arguments = ", ".join(("nullptr", f"__tvm_ffi_{entry}", *call.arguments))
    headers = ["container/tensor.h", *(["extra/c_env_api.h"] if made else []), "function.h"]
    return "\n".join(
        [
            f"// {about}",
            *(f"#include <tvm/ffi/{header}>" for header in headers),
            "",
            f'extern "C" int __tvm_ffi_{entry}(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result);',
            "",
            "namespace {",
            "",
            "using tvm::ffi::TensorView;",
            "",
            f"void Adapted({', '.join(parameters)}) {{",
            *made,
            f"  tvm::ffi::Function::InvokeExternC({arguments});",
            "}",
            "",
            "}  // namespace",
            "",
            "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run_adapted, Adapted);",
            "",
        ]
    )
