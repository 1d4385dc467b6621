"""Write the file by which a Definition of other names calls a kernel: in its order, with its constants.

The file is a source of the Solution, beside those of the kernel, and holds its entry point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.registry.sources.starting_kernel import identifier
from fib_rmsnorm.schema import BuildSpec, Definition, SupportedBindings, TensorSpec

PYTHON_FILE = "adapter.py"
NATIVE_FILE = "adapter.cpp"
_NATIVE_ENTRY = "run_adapted"


@dataclass(frozen=True)
class BoundCall:
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


def plan_adapted_call(own: Definition, definition: Definition, recognition: Recognition, spec: BuildSpec) -> BoundCall:
    """Plan how a kernel for `own`, whose tensors are called as their parts, serves another Definition.

    Raises InputError that says why it cannot.
    """
    if spec.in_place:
        raise InputError("it writes to its inputs")
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
            _check_kind(part, own, specs[recognition.tensors[part]])
        arguments.append(names[part] if part in names else repr(recognition.constants[part]))
    parts = {name: part for part, name in recognition.tensors.items()}
    wanted = tuple(list(own.outputs).index(parts[name]) for name in definition.outputs)
    returned = None if spec.destination_passing_style else wanted
    return BoundCall(types, tuple(arguments), scratch, returned, len(own.outputs))


def _check_kind(part: str, own: Definition, given: TensorSpec) -> None:
    if (given.shape is None) != (own.inputs[part].shape is None):
        raise InputError(f"it takes {part} as a {'number' if own.inputs[part].shape is None else 'tensor'}")


def _find_like(own: Definition, output: str) -> str:
    """The input that has the shape and dtype of an output."""
    wanted = own.outputs.get(output)
    for name, spec in own.inputs.items():
        if wanted is not None and (spec.shape, spec.dtype) == (wanted.shape, wanted.dtype):
            return name
    raise InputError(f"it needs {output}")


def write_adapter(call: BoundCall, spec: BuildSpec, about: str, *, is_native: bool) -> tuple[BuildSpec, str, str]:
    """The spec of the adapted Solution, and the name and text of the file to add.

    Raises InputError if a compiled kernel is bound in another way than by tvm-ffi.
    """
    file, _, entry = spec.entry_point.partition("::")
    if not is_native:
        name, text = PYTHON_FILE, _write_python(call, file.removesuffix(".py").replace("/", "."), entry, about)
        return spec.model_copy(update={"entry_point": f"{name}::run"}), name, text
    if spec.binding is SupportedBindings.TORCH or call.returned is not None:
        raise InputError("only compiled kernels that tvm-ffi binds, and that write to their outputs, can be adapted")
    text = _write_native(call, entry, about)
    return spec.model_copy(update={"entry_point": f"{NATIVE_FILE}::{_NATIVE_ENTRY}"}), NATIVE_FILE, text


def _write_python(call: BoundCall, module: str, entry: str, about: str) -> str:
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


def _write_native(call: BoundCall, entry: str, about: str) -> str:
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
            f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({_NATIVE_ENTRY}, Adapted);",
            "",
        ]
    )


def describe_constants(constants: Mapping[str, float]) -> str:
    """`, eps = 1e-05`; empty without constants."""
    return "".join(f", {name} = {value!r}" for name, value in constants.items())
