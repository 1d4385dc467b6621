"""The functions that code in C++ and CUDA defines, read without compiling it, and lines that export a call of one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import recognise_source
from fib_rmsnorm.registry.sources.callees import KernelCall, hold
from fib_rmsnorm.registry.sources.parameters import SCRATCH, STREAM, Parameter, Parameters
from fib_rmsnorm.schema import Definition

_FUNCTION = re.compile(
    r"(?:\b(?P<scope>\w+)::)?\b(?P<name>\w+)\s*\((?P<parameters>[^(){};]*(?:(?:\([^()]*\)|\{\})[^(){};]*)*)\)"
    r"\s*(?:(?:const|noexcept|->[^;{}()]*)\s*)*\{"
)
_CLASS = re.compile(r"\b(?:struct|class|union)\b(?:\s+(\w+))?[^;{}()=]*\{")
_ALIAS = re.compile(r"\btypedef\s+([\w:]+)\s+(\w+)\s*;|\busing\s+(\w+)\s*=\s*([\w:]+)\s*;")
_NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return", "constexpr"}
_DTYPES = {
    "float64": re.compile(r"double"),
    "float32": re.compile(r"float|(fp|float)32(_t)?"),
    "float16": re.compile(r"(__|nv_)?half(_t)?|Half|_Float16|__fp16|(fp|float)16(_t)?"),
    "bfloat16": re.compile(r"(__)?(nv_|hip_)?b(float|f)16(_t)?|BFloat16"),
}
_NAMED = {"float32": r"f(p|loat)?32", "float16": r"(?<![b\d])f(p|loat)?16|half", "bfloat16": r"bf(loat)?16"}
"""The dtypes that the name of a function tells."""
CALLED = "called"
"""The name that a call is exported by."""
ROW = "[row]"
"""The end of a tensor's name where a function gets one row of it, and is called for each."""
SCRATCH_LIKE = "tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {0}.shape(), {0}.dtype(), {0}.device())"
"""An expression in C++ that makes a tensor like another."""
_HEADERS = (
    "#include <tvm/ffi/container/tensor.h>\n#include <tvm/ffi/extra/c_env_api.h>\n#include <tvm/ffi/function.h>\n"
)
Passed = list[tuple[Parameter, str]]
"""Parameters, or fields of a struct, with what they get."""


@dataclass(frozen=True)
class NativeFunction:
    """A function that runs on the host."""

    name: str
    """Empty for a lambda."""
    parameters: Parameters
    words: frozenset[str] = frozenset()
    """The words before its name, such as `static`."""
    body: str = ""
    """Its text, up to the next function."""
    classes: Mapping[str, Parameters] = field(default_factory=dict)
    """The fields of the file's structs, by name; none for classes that are not structs."""

    def choose(self, definition: Definition) -> str:
        """The expression that chooses the only output of several."""
        return "[0]" if len(definition.outputs) == 1 and self.words & {"vector", "tuple", "pair"} else ""

    def takes(self, *types: str) -> bool:
        """Whether the type of a parameter contains one of these texts."""
        return any(text in parameter.type for text in types for parameter in self.parameters)

    def chooses(self, element: str) -> bool:
        """Whether a type is a parameter of its template."""
        return {element, "template"} <= self.words and element != "void"

    def find_form(self) -> tuple[str, list[Parameters]]:
        """The form of its arguments, of which one may be a struct that holds others, and their stages."""
        for at, each in enumerate(self.parameters):
            if fields := self.classes.get(kind := _class_of(each)):
                return hold(self.parameters, at, kind, fields)
        return "{}", [self.parameters]

    def find_passed(self, call: str) -> Passed:
        """The arguments of a call by parameter: those of `Params(x=x, n=hidden)`, a struct, by its fields."""
        arguments = zip(self.parameters, split(call.partition("(")[2].rpartition(")")[0]), strict=False)
        return [leaf for each, text in arguments for leaf in self.find_fields(text) or [(each, text)]]

    def find_fields(self, argument: str) -> Passed:
        """The fields of a struct that an argument makes, with their values."""
        name, _, given = argument.removesuffix(")").partition("(")
        values = dict(each.split("=", 1) for each in split(given) if "=" in each)
        return [(each, values[each.name]) for each in self.classes.get(name, ()) if each.name in values]


def find_dtype(element: str, function: str = "") -> str:
    """The dtype that a type of elements, or the name of a function, tells; empty if neither does."""
    by_type = (dtype for dtype, names in _DTYPES.items() if names.fullmatch(element.rpartition("::")[2]))
    return next(by_type, "") or next((name for name, pattern in _NAMED.items() if re.search(pattern, function)), "")


def _take_out_classes(code: str) -> tuple[str, dict[str, str]]:
    """Code without the bodies of classes, and these by the classes' names."""
    classes: dict[str, str] = {}
    while found := _CLASS.search(code):
        braces = accumulate({"{": 1, "}": -1}.get(each, 0) for each in code[found.end() - 1 :])
        end = found.end() + next((at for at, depth in enumerate(braces) if depth == 0), len(code))
        alias = re.match(r"\s*(\w+)\s*;", code[end:])  # of `typedef struct { ... } name;`
        classes |= dict.fromkeys(filter(None, (found[1], alias and alias[1])), code[found.end() : end - 1])
        code = f"{code[: found.start()]} {code[end:]}"
    return code, classes


def find_functions(code: str, text: str) -> list[NativeFunction]:
    """The functions that code without comments and preprocessor lines defines and that need no object.

    `text` is the whole file: a macro may use what the code does not.
    """
    aliases = {old or new: known or named for known, old, new, named in _ALIAS.findall(code)}
    code, bodies = _take_out_classes(code)
    classes = {name: _read_fields(body, aliases, text) for name, body in bodies.items()}
    found = []
    for name, part in {"": code, **bodies}.items():
        matches = [match for match in _FUNCTION.finditer(part) if match["name"] not in _NOT_FUNCTIONS]
        for match, following in zip(matches, [*matches[1:], None], strict=False):
            head = re.findall(r"\w+", re.split("[;{}]", part[: match.start()])[-1])
            known = {alias: kind for alias, kind in aliases.items() if alias not in head}
            parameters = tuple(_give(each, classes, text) for each in read_parameters(match["parameters"], known))
            if "static" in head if name else match["scope"] not in classes:
                body = part[match.end() : following.start() if following else None]
                callee = f"{name}::{match['name']}" if name else match["name"]
                found.append(NativeFunction(callee, parameters, frozenset(head), body, classes))
    return found


def _read_fields(body: str, aliases: Mapping[str, str], text: str) -> Parameters:
    """The fields of a struct; none if it has a method, which may fill them in, or if a default gives each."""
    fields: list[Parameter] = []
    for statement in body.replace("public:", "").split(";"):
        for at, each in enumerate(split(statement)):
            base = fields[-1].type.rstrip("*&") if at else ""  # of `const float *x, *weight`
            (one,) = read_parameters(f"{base} {each}", aliases)
            fields.append(replace(_give(one, {}, text), is_keyword=True))
    is_struct = "(" not in body and all(each.name for each in fields) and any(not each.given for each in fields)
    return tuple(fields) if is_struct else ()


def _give(parameter: Parameter, classes: Mapping[str, Parameters], text: str) -> Parameter:
    """Give a parameter an object of a class such as a context, or `nullptr` if a text compares it or never uses it."""
    if classes.get(kind := _class_of(parameter)) == ():
        return replace(parameter, given=f"{kind}()")
    name = rf"(\w+(\.|->))?{parameter.name}\b"
    compared = rf"\b{name}\s*(\?|[!=]=\s*(nullptr|NULL)|&&)|(!|&&)\s*{name}|if\s*\({name}\)"
    may_be_null = re.search(compared, text) or len(re.findall(rf"\b{parameter.name}\b", text)) == 1
    return replace(parameter, given=parameter.given or "nullptr") if parameter.element and may_be_null else parameter


def _class_of(parameter: Parameter) -> str:
    """The class of an object that a parameter is, or refers to."""
    return re.sub(r"\b(const|struct)\b|[\s*&]", "", parameter.type)


def split(text: str) -> list[str]:
    """Split a list at the commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += {"<": 1, "(": 1, "{": 1, ">": -1, ")": -1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def read_parameters(text: str, aliases: Mapping[str, str] = {}) -> Parameters:
    """Split a list of parameters, and each into type, name and default; a type's alias stands for the type."""
    found = []
    for each in split(text):
        declared, _, default = each.partition("=")
        words = re.sub(r"\s*\b__restrict(__)?\b|(?<=\*)\s*const\b", "", " ".join(declared.split()))
        name = last[0] if (last := re.search(r"(?<=[\s*&])\w+$", words)) else ""
        type_ = words.removesuffix(name)
        type_ = re.sub(r"\w+", lambda word: aliases.get(word[0], word[0]), type_.strip())
        default = re.sub(r".*Tensor(\(\)|\{\})", "{}", default.strip())
        found.append(Parameter(name, re.sub(r"\s*([*&])\s*", r"\1", type_), given=default))
    return tuple(found)


def call_for_rows(call: str, passed: Passed, definition: Definition) -> str:
    """A call of a function of pointers: for each row, if it gets the size of a row and no number of them."""
    rows, *_, columns = definition.axes
    sizes = " ".join(argument for _, argument in passed)
    if not any(each.element for each, _ in passed) or rows in sizes.split() or columns not in sizes.split():
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
    for name, element in elements.items():
        if function.chooses(element):
            elements[name] = next((word for word in words if find_dtype(word) == dtypes[name]), "float")
    taken = {name: find_dtype(element, function.name) or dtypes[name] for name, element in elements.items()}
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
    elements = _find_elements(text, function, given, definition)
    types = {each.element: elements[name] for each, name in given if name in elements}
    view, tensor = "_view" * bool(elements), "torch::Tensor" if is_torch else "tvm::ffi::TensorView"
    first = next(f"{name}{view}" for name in passed if specs[name].shape is not None)
    columns = [*definition.axes][-1]
    kinds = {name: f"double {name}" if specs[name].shape is None else f"{tensor} {name}{view}" for name in passed}
    lines = ["" if is_torch else _HEADERS, f"auto {CALLED}_in_order({', '.join(kinds.values())}) {{"]
    lines += [f"  auto* {name} = static_cast<{elements[name]}*>({name}_view.data_ptr());" for name in elements]
    if call.uses(STREAM):
        stream = f"TVMFFIEnvGetStream({first}.device().device_type, {first}.device().device_id)"
        lines += [f"  auto {STREAM} = static_cast<cudaStream_t>({stream});"]
    sizes = call.find_sizes(definition, f"{{}}{view}.size({{}})")
    lines += [f"  const auto {axis} = {size};" for axis, size in sizes.items()]
    if is_row := ROW in call.text:
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
        if name != argument:
            return f"{name} + row * {columns}" if columns in (specs[name].shape or ()) else f"{name} + row"
        return f"&{argument}" if "Tensor*" in parameter.type else argument

    name, _, rest = call.made.partition("(")
    passes, _, chosen = rest.rpartition(")")
    written = [write(*each) for each in zip(function.parameters, split(passes), strict=False)]
    result = f"{name}({', '.join(written)})"
    result = f"std::get<0>({result})" if chosen and "vector" not in function.words else f"{result}{chosen}"
    return [*lines, f"  {result};\n  }}\n}}\n"] if is_row else [*lines, f"  return {result};\n}}\n"]
