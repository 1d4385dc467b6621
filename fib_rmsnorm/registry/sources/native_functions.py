"""The functions that code in C++ and CUDA defines, read without compiling it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate

from fib_rmsnorm.registry.sources.callees import hold
from fib_rmsnorm.registry.sources.parameters import Parameter, Parameters
from fib_rmsnorm.schema import Definition

_FUNCTION = re.compile(
    r"(?:\b(?P<scope>\w+)::)?\b(?P<name>operator\s*\(\)|\w+)\s*\((?P<parameters>[^(){};]*(?:(?:\([^()]*\)|\{\})[^(){};]*)*)\)"
    r"\s*(?:(?:const|noexcept|->[^;{}()]*)\s*)*\{"
)
_CLASS = re.compile(r"\b(?:struct|class|union)\b(?:\s+(\w+))?[^;{}()=]*\{")
_ALIAS = re.compile(r"\btypedef\s+([\w:<>]+)\s+(\w+)\s*;|\busing\s+(\w+)\s*=\s*([\w:<>]+)\s*;")
_NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return", "constexpr"}
_DTYPES = {
    "float64": re.compile(r"double"),
    "float32": re.compile(r"float|(fp|float)32(_t)?"),
    "float16": re.compile(r"(__|nv_)?half(_t)?|Half|_Float16|__fp16|(fp|float)16(_t)?"),
    "bfloat16": re.compile(r"(__)?(nv_|hip_)?b(float|f)16(_t)?|BFloat16"),
}
_NAMED = {"float32": r"f(p|loat)?32", "float16": r"(?<![b\d])f(p|loat)?16|half", "bfloat16": r"bf(loat)?16"}
"""The dtypes that the name of a function tells."""
RETURNED = " -> "
"""The text between a call that returns a vector and the tensor for its elements."""
_VECTOR = re.compile(r"(?<!<)(?<!<std::)\bvector<(float|double|half|__half|_Float16)>")
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
    made_of: int | None = None
    """The number of parameters that make the object of which this is the call operator; None for a function."""

    def choose(self, definition: Definition) -> str:
        """The expression that chooses the only output of several, or where the elements that it returns go."""
        if "vector" in self.words and "Tensor" not in self.words:
            return f"{RETURNED}{next(iter(definition.outputs))}"
        return "[0]" if len(definition.outputs) == 1 and self.words & {"vector", "tuple", "pair"} else ""

    def is_foreign(self, definition: Definition) -> bool:
        """Whether a parameter points to elements of a dtype that no tensor of a Definition has."""
        specs = (definition.inputs | definition.outputs).values()
        dtypes = {"", *(spec.dtype.value for spec in specs if spec.shape is not None)}
        return any(find_dtype(each.element, self.name) not in dtypes for each in self.parameters if each.element)

    def takes(self, *types: str) -> bool:
        """Whether the type of a parameter contains one of these texts."""
        return any(text in parameter.type for text in types for parameter in self.parameters)

    def chooses(self, element: str) -> bool:
        """Whether a type is a parameter of its template."""
        return {element, "template"} <= self.words and element != "void"

    def find_form(self) -> tuple[str, list[Parameters]]:
        """The form of its arguments, of which one may be a struct that holds others, and their stages."""
        if self.made_of is not None:
            return "{})({}", [self.parameters[: self.made_of], self.parameters[self.made_of :]]
        for at, each in enumerate(self.parameters):
            if fields := self.classes.get(kind := _class_of(each)):
                return hold(self.parameters, at, kind, fields)
        return "{}", [self.parameters]

    def write_call(self, arguments: list[str], element: str) -> str:
        """The call with arguments in C++; a template of a class is made for a type of elements."""
        if self.made_of is None:
            return f"{self.name}({', '.join(arguments)})"
        kind = self.name + f"<{element}>" * ("template" in self.words)
        return f"{kind}({', '.join(arguments[: self.made_of])})({', '.join(arguments[self.made_of :])})"

    def find_passed(self, call: str) -> Passed:
        """The arguments of a call by parameter: those of `Params(x=x, n=hidden)`, a struct, by its fields."""
        arguments = zip(self.parameters, arguments_of(call), strict=False)
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
            known = {alias: kind for alias, kind in aliases.items() if not {alias, "template"}.issubset(head)}
            head = re.findall(r"\w+", " ".join(known.get(word, word) for word in head))
            parameters = tuple(_give(each, classes, text) for each in read_parameters(match["parameters"], known))
            body = part[match.end() : following.start() if following else None]
            if match["name"].startswith("operator") and name:
                made = re.search(rf"(?<![~\w]){name}\s*\(([^(){{}}]*)\)\s*[:{{]", part)
                makers = read_parameters(made[1], known) if made else ()
                head += re.findall(r"\w+", "".join(re.findall(rf"template\s*<[^>]*>(?=\s*\w+\s+{name}\b)", text)))
                found.append(NativeFunction(name, makers + parameters, frozenset(head), body, classes, len(makers)))
            elif "static" in head if name else match["scope"] not in classes:
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


def arguments_of(call: str) -> list[str]:
    """The arguments of a call, after those that make the object that is called: `Norm(eps)(x)`."""
    return split(call.partition("(")[2].rpartition(")")[0].replace(")(", ", "))


def read_parameters(text: str, aliases: Mapping[str, str] = {}) -> Parameters:
    """Split a list of parameters, and each into type, name and default; a type's alias stands for the type."""
    found = []
    for each in split(text):
        declared, _, default = each.partition("=")
        words = re.sub(r"\s*\b__restrict(__)?\b|(?<=\*)\s*const\b", "", " ".join(declared.split()))
        words = re.sub(r"(\w+)\s*\[\]$", r"*\1", words)  # of `float x[]`
        name = last[0] if (last := re.search(r"(?<=[\s*&])\w+$", words)) else ""
        type_ = words.removesuffix(name)
        type_ = re.sub(r"\w+", lambda word: aliases.get(word[0], word[0]), type_.strip())
        type_ = _VECTOR.sub(r"vector<\1*>", type_)
        default = re.sub(r".*Tensor(\(\)|\{\})", "{}", default.strip())
        found.append(Parameter(name, re.sub(r"\s*([*&])\s*", r"\1", type_), given=default))
    return tuple(found)
