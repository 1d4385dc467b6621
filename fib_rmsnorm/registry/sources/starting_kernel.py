"""The text of a file to start a kernel from, for any Definition and language."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import KERNEL_LANGUAGES, Language
from fib_rmsnorm.operators import recognise_source
from fib_rmsnorm.registry.sources.python_kernel import check_module_name
from fib_rmsnorm.schema import Definition, TensorSpec

_SKELETONS = Path(__file__).parent / "skeletons"
# Names that a parameter of a skeleton cannot have: words of C++ that are not Python's, and the skeletons' own.
_TAKEN = re.compile(
    "auto|bool|case|catch|char|const|default|delete|device|do|double|enum|explicit|export|extern|float|friend|goto"
    "|inline|int|long|mutable|namespace|new|operator|private|protected|public|register|run|short|signed|sizeof|static"
    "|stream|struct|switch|template|this|throw|typedef|typename|union|unsigned|using|virtual|void|volatile"
)


@dataclass(frozen=True)
class StartingKernel:
    """The text of a kernel's file."""

    kind: Literal["kernel", "reference", "skeleton"]
    """A right kernel; the Definition's own reference, which is right and slow; or an entry point without a body."""
    description: str
    text: str


def check_suffix(path: Path, language: str) -> None:
    """Raise InputError unless the file's suffix is one of the language's, and `try` can import what is Python."""
    known = KERNEL_LANGUAGES[language]
    if path.suffix not in known.suffixes:
        raise InputError(f"{path}: a file in {known.title} ends in {' or '.join(known.suffixes)}")
    if path.suffix == ".py":
        check_module_name(path)


def write_new(path: Path, text: str) -> None:
    """Create a file. Raises InputError if it exists or cannot be written; nothing is overwritten."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{path} exists; name another file, or remove it first") from None
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


def make_starting_kernel(definition: Definition, language: str) -> StartingKernel:
    """Choose what to start from: the operator's own kernel, else the reference (Python) or a skeleton (C++ and CUDA).

    `language` is one of KERNEL_LANGUAGES.
    """
    recognition, known = recognise_source(definition), KERNEL_LANGUAGES[language]
    text = recognition.write_kernel(definition, language) if recognition else None
    if text is not None:
        return StartingKernel("kernel", f"a correct kernel in {known.title} for {definition.name}", text)
    if known.is_compiled:
        missing = "it compiles, and fails until its kernel is written"
        description = f"a skeleton in {known.title} with the parameters of {definition.name}: {missing}"
        return StartingKernel("skeleton", description, _make_skeleton(definition, known))
    head = (
        f"# {definition.name}: this is the Definition's reference, which is right and slow.\n"
        f"# Write a kernel in {known.title}, and call it in run.\n"
    )
    description = f"the reference of {definition.name}, which is right and slow"
    return StartingKernel("reference", description, f"{head}{definition.reference.rstrip()}\n")


def _make_skeleton(definition: Definition, language: Language) -> str:
    tensors = {**definition.inputs, **definition.outputs}
    names = {name: identifier(name) for name in tensors}
    comments = [f"// {names[name]}: {_describe(spec)}" for name, spec in definition.inputs.items()]
    comments += [f"// {names[name]}: {_describe(spec)}, which run writes" for name, spec in definition.outputs.items()]
    text = (_SKELETONS / f"skeleton{language.suffixes[0]}").read_text(encoding="utf-8")
    inputs = [f"{_type_of(spec)} {names[name]}" for name, spec in definition.inputs.items()]
    outputs = [f"TensorView {names[name]}" for name in definition.outputs]
    signature = f"void run({', '.join([*inputs, *outputs])}) {{"
    text = re.sub(r"^void run\(.*\) \{$", lambda _: "\n".join([*comments, signature]), text, flags=re.MULTILINE)
    text = text.replace("= out.device()", f"= {names[next(iter(definition.outputs))]}.device()")
    return f"// {definition.name} in {language.title}.\n\n{text}"


def identifier(name: str) -> str:
    """A name for a parameter in C++ and Python, whatever a Definition calls it."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"{plain}_" if _TAKEN.fullmatch(plain) or plain[0].isdigit() else plain


def _describe(spec: TensorSpec) -> str:
    shape = "a number" if spec.shape is None else f"({', '.join(spec.shape)})"
    return f"{spec.dtype.value}, {shape}"


def _type_of(spec: TensorSpec) -> str:
    if spec.shape is not None:
        return "TensorView"
    dtype = spec.dtype.value
    return "bool" if dtype == "bool" else "double" if dtype.startswith(("float", "bfloat")) else "int64_t"
