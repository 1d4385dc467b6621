"""Find what may be the kernel in a Python file, and the forms in which its author may mean it to be called."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import TypeVar

from fib_rmsnorm.registry.sources.model_file import find_arguments
from fib_rmsnorm.registry.sources.parameters import SPARE, STATISTIC, Parameter, Parameters, bind, call_in_order, render
from fib_rmsnorm.registry.sources.python_module import (
    KERNELS,
    LAUNCH,
    PythonModule,
    find_attributes,
    find_nodes,
    find_own_parameters,
    last_name,
    reach,
    read_made,
    read_parameters,
)
from fib_rmsnorm.schema import Definition

UNNAMED = 2
"""The rank from which on no name tells what a parameter gets."""
_NOTKERNELS = re.compile(
    r"_$|_*(test|bench|main|check|verify|compare|get_|profile|plot|setup|Model$)|.*(ref|reference|naive|baseline|golden"
    r"|eager|torch|pytorch|backward|bwd|grad)(_|\d|$)",
    re.IGNORECASE,
)
_BACKWARD = re.compile(r"(?i)backward|bwd|grad")
_FORWARDS = ("forward", "forward_native", "forward_cuda")  # of which a base class may choose one
_CONFIG = re.compile(r".*(config|cfg|args|params|options)")
_VARIANT = re.compile(r"fused|add|residual|gemma|quant|fp8|gate|silu|relu")
"""Words that name a function of another operator, unless the Definition's name has them."""

_Kind = TypeVar("_Kind")
_Form = tuple[str, list[Parameters]]
"""A call with a place for the arguments of each stage, and the parameters of these."""


@dataclass(frozen=True)
class KernelCall:
    """A call that the author of a file may have meant: an expression over the names and axes of a Definition."""

    text: str
    callee: str = ""
    rank: float = 0
    """The least is the likeliest."""

    @property
    def in_place(self) -> dict[str, str]:
        """The inputs in whose memory it leaves outputs, by output: `out := x` in its text."""
        return dict(re.findall(r"(\w+)\s*:=\s*(\w+)", self.text))

    @property
    def made(self) -> str:
        """Its text where an output that takes the place of an input comes as that input."""
        return re.sub(r"(?<=[(=\s])\((\w+)\)", r"\1", re.sub(r"\w+\s*:=\s*", "", self.text))

    def writes(self, definition: Definition) -> bool:
        """Whether it writes to the Definition's outputs."""
        return any(map(self.uses, definition.outputs))

    def passed(self, definition: Definition) -> list[str]:
        """The values that an entry point gets to make it, in order."""
        written = definition.outputs if self.writes(definition) else ()
        return [*definition.inputs, *(name for name in written if name not in self.in_place)]

    def find_direct(self, definition: Definition, entries: Collection[str]) -> str:
        """The one of the entry points that it calls with just what that gets, in order; empty if it does more."""
        name, _, arguments = self.made.removesuffix(")").partition("(")
        return name if name in entries and arguments == ", ".join(self.passed(definition)) else ""

    def find_sizes(self, definition: Definition, form: str) -> dict[str, str]:
        """The axes that it uses, and the size of each, in a form such as `{}.shape[{}]`."""
        sizes = {axis: str(size) for axis, size in definition.const_axes.items()}
        for name, spec in reversed(definition.inputs.items()):
            sizes |= {axis: form.format(name, number) for number, axis in enumerate(spec.shape or ())}
        return {axis: size for axis, size in sizes.items() if self.uses(axis)}

    def uses(self, name: str) -> bool:
        """Whether a name stands in it."""
        return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", self.text) is not None


def make_calls(
    callee: str, form: str, stages: list[Parameters], definition: Definition, rank: float = 0
) -> Iterator[KernelCall]:
    """The calls in a form that has a place for the arguments of each stage, the likeliest first.

    A class or a factory has two: what makes it, and its call.
    """
    given = [name for name in definition.inputs if re.search(rf"(?<!\w){re.escape(name)}(?![\w(])", form)]
    specs = {**definition.inputs, **definition.outputs}
    tensors = {name for name, spec in specs.items() if spec.shape is not None}
    rank += not {*_VARIANT.findall(callee.lower())} <= {*_VARIANT.findall(definition.name)}
    rank += UNNAMED * ("layernorm" in plain_name(callee) and "layernorm" not in definition.name)
    for arguments, is_named in bind(tuple(each for stage in stages for each in stage), definition, given):
        rest = iter(arguments)
        parts = [tuple(islice(rest, len(stage))) for stage in stages]
        if not is_named and any(tensors.intersection(part) for part in parts[:-1]):
            continue  # what makes a kernel takes no tensor that its name does not tell
        texts = [render(stage, part) for stage, part in zip(stages, parts, strict=True)]
        if form.startswith("functional_call("):
            texts[-1] = re.sub(r", (\w+=)", r",), dict(\1", texts[-1], count=1)
        text = form.format(*texts).replace(", )", ")")
        yield KernelCall(text, callee, rank + UNNAMED * (not is_named))


def plain_name(callee: str) -> str:
    """The name of a function, in which that of its operator may stand; T5's LayerNorm is RMSNorm."""
    return re.sub("(t5|rms)layernorm", "rmsnorm", callee.lower().replace("_", ""))


def find_calls(module: PythonModule, definition: Definition, entry: str | None = None) -> list[KernelCall]:
    """The calls by which a file, or what it calls `entry`, may be meant to compute a Definition, the likeliest first.

    Where something launches a kernel, what does not is a reference to compare with.
    """
    kernels = {name for name, node in module.functions.items() if KERNELS & {*map(last_name, node.decorator_list)}}
    kernels -= kernels if "helion" in module.imported.values() else set()  # which are called as functions
    functions = {id(node): name for name, node in module.functions.items()}  # one of its names
    names = [entry] if entry else [*functions.values(), *module.classes, *module.values]
    callable_ = [name for name in names if name not in kernels or read_made(module, name)]
    forms = {name: form for name in callable_ if (form := _find_form(module, name, definition))}
    first = next(iter(definition.inputs))
    given = {"None": "None", SPARE: f"{first}.new_empty({first}.shape[:-1], dtype=torch.float32)"}
    is_launched = any(LAUNCH in reach(module, name) for name in forms)
    if not is_launched and not any([*make_calls(name, *form, definition)] for name, form in forms.items()):
        grid = f"[({next(iter(definition.axes))},)]({{}})"
        parameters = {name: module.parameters_of_kernel(name) for name in names if name in kernels}
        forms = {name: (f"{name}{grid}", [each]) for name, each in parameters.items() if each}
        given = dict.fromkeys(given, f"torch.empty_like({first}, dtype=torch.float32)")  # for what it saves, too
    reached = {name: reach(module, name) for name in forms}
    launching = {name for name, used in reached.items() if LAUNCH in used}
    backward = {name for name in forms if "dy" in definition.inputs and _BACKWARD.search(name)}
    forms = keep_likely(forms, launching, backward)
    modules = {name for name in module.classes if name in forms and not forms[name][0].startswith(f"{name}.apply(")}
    if modules and find_arguments(definition) is not None:  # only a module has the Model's parameters
        forms = {name: forms[name] for name in modules}
    own = {name: reached[name] for name in forms if name not in modules}
    found: list[KernelCall] = []
    for name, (text, stages) in forms.items():
        wraps = name in modules and reached[name] & own.keys()  # a module around a function
        rank = len(own) / len(forms) if wraps else count_users(name, own)
        made = find_own_parameters(module.classes[name]).items() if name in modules else ()
        rank += UNNAMED * any(is_always and f"{each!r}: " not in text for each, is_always in made)
        found += make_calls(name, text, stages, definition, rank)
    texts = (re.sub(r"\b(None|spare)\b", lambda name: given[name[0]], each.text) for each in found)
    return sorted(map(lambda each, text: replace(each, text=text), found, texts), key=lambda call: call.rank)


def count_users(name: str, reached: Mapping[str, Collection[str]]) -> float:
    """The share of the candidates that use what is called `name`, from what each reaches: less than 1."""
    return sum(name in used for other, used in reached.items() if other != name) / max(1, len(reached))


def keep_likely(forms: dict[str, _Kind], *preferred: set[str]) -> dict[str, _Kind]:
    """Narrow down what may be the kernel, by name: to what is preferred, and is not called a test, if anything is."""
    for kept in (*preferred, {name for name in forms if not _NOTKERNELS.match(name)}):
        forms = {name: form for name, form in forms.items() if name in kept} or forms
    return forms


def overwrite_inputs(call: KernelCall, definition: Definition) -> list[KernelCall]:
    """The calls with every output in the place of an input of its shape and dtype; none if it writes outputs."""
    alike = [
        [name for name, spec in definition.inputs.items() if (spec.shape, spec.dtype) == (output.shape, output.dtype)]
        for output in definition.outputs.values()
    ]
    found = []
    for chosen in product(*alike) if not call.writes(definition) else ():
        taken = dict(zip(chosen, definition.outputs, strict=True))
        if len(taken) == len(chosen):
            argument = rf"(?<![\w.])({'|'.join(map(re.escape, taken))})(?!\w|=)"
            parts = re.split(argument, call.text)
            parts[1::2] = [f"({taken[name]} := {name})" for name in parts[1::2]]
            found.append(replace(call, text="".join(parts)))
    return found


def _find_form(module: PythonModule, name: str, definition: Definition) -> _Form | None:
    """How something in a file is called, and the parameters of each stage; None if it cannot be."""
    if name in module.classes:
        return _find_form_of_class(module, name, definition)
    if (parameters := module.parameters_of(name)) is None:
        return None
    if inner := read_made(module, name):
        return f"{name}({{}})({{}})", [parameters, inner]
    function = module.functions.get(name)
    if function and (form := _find_packed_form(function, definition)):
        return form
    arguments, stages = _find_config(module, function, parameters)
    return f"{name}({arguments}){_choose_outputs(module, function, definition)}", stages


def _find_config(module: PythonModule, node: ast.AST | None, parameters: Parameters) -> _Form:
    """The form of arguments of which one may be an object that holds values, as its name or its type says.

    A class without a base takes one alone by any name.
    """
    needed = [each for each in parameters if each.default is None]
    for at, each in enumerate(parameters):
        kind = each.type.strip("'\"")
        is_config = kind in module.classes or _CONFIG.fullmatch(each.name) is not None
        names = [each.name, *([f"self.{each.name}"] if is_config else [])]
        is_alone = isinstance(node, ast.ClassDef) and needed == [each]
        if each in needed and (is_config or is_alone) and (read := find_attributes(node, *names)):
            fields = module.method(kind, "__init__") if kind in module.classes else None
            holder = kind if fields else "SimpleNamespace"
            return hold(parameters, at, holder, fields or tuple(Parameter(field, is_keyword=True) for field in read))
    return "{}", [parameters]


def hold(parameters: Parameters, at: int, holder: str, fields: Parameters) -> _Form:
    """The form of arguments of which the one at a place is an object that holds others, as its maker's fields."""
    before = [parameters[:at]] if at else []
    named = f"{parameters[at].name}=" if parameters[at].is_keyword else ""
    return f"{'{}, ' * len(before)}{named}{holder}({{}}), {{}}", [*before, fields, parameters[at + 1 :]]


def _find_form_of_class(module: PythonModule, name: str, definition: Definition) -> _Form | None:
    """The form of an autograd function, or of a module whose parameters are the Definition's vectors."""
    node = module.classes[name]
    methods = [*(_FORWARDS if node.bases else ()), "__call__"]  # only a module's call calls its `forward`
    forward = next((found for each in methods if (found := module.method(name, each)) is not None), None)
    made = module.method(name, "__init__") or ()
    if forward is None:
        given, makers = _find_config(module, node, made)
        forms: list[_Form] = []
        for each in find_nodes(node, ast.FunctionDef):
            is_static = "staticmethod" in map(last_name, each.decorator_list)
            taken = read_parameters(each.args, skipped=0 if is_static else 1)
            if taken and not (each.name.startswith("_") or _NOTKERNELS.match(each.name)):
                of = name if is_static else f"{name}({given})"
                forms.append((f"{of}.{each.name}({{}})", [taken] if is_static else [*makers, taken]))
        return max(forms, key=lambda form: (len(form[1][-1]), len(form[1]) == 1), default=None)
    if any(last_name(base) == "Function" for base in node.bases):
        method = next(each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "forward")
        return f"{name}.apply({{}})" + _choose_outputs(module, method, definition), [forward]
    if (arguments := find_arguments(definition)) is not None:
        return f"{name}({arguments})({{}})", [forward]
    own = find_own_parameters(node)
    are_flags = [each.name in own and each.kind != "tensor" for each in made]  # whether it has one
    made = tuple(replace(each, type="bool") if flag else each for each, flag in zip(made, are_flags, strict=True))
    given, makers = _find_config(module, node, made)
    vectors = [name for name, spec in definition.inputs.items() if len(spec.shape or ()) == 1]
    kept = vectors if {*vectors} <= {*own} else [*own]
    if not kept or len(kept) != len(vectors):
        return f"{name}({given})({{}})", [*makers, forward]
    held = ", ".join(f"{key!r}: {value}" for key, value in zip(kept, vectors, strict=True))
    return f"functional_call({name}({given}), {{{{{held}}}}}, ({{}},))", [*makers, forward]


def _find_packed_form(function: ast.FunctionDef, definition: Definition) -> _Form | None:
    """The form of a function of one parameter that has all inputs: a tuple, a dictionary, or a module and an input."""
    first = function.args.args[0].arg if function.args.args else ""
    attributes = find_attributes(function, first)
    if "weight" in attributes and "weight" in definition.inputs:
        given = {each: each for each in attributes if each in definition.inputs}
        given |= {each: "eps" for each in attributes if "eps" in each and "eps" in definition.inputs}
        made = f"SimpleNamespace({', '.join(f'{each}={value}' for each, value in given.items())})"
        others = read_parameters(function.args, skipped=1)
        return f"{function.name}({made}{', {}' if others else ''})", [others or ()]
    if len(function.args.args) != 1 or len(definition.inputs) == 1:
        return None
    indices = [each.slice for each in find_nodes(function, ast.Subscript) if ast.unparse(each.value) == first]
    if keys := [each.value for each in indices if isinstance(each, ast.Constant) and isinstance(each.value, str)]:
        return f"{function.name}(dict({{}}))", [tuple(Parameter(key, is_keyword=True) for key in dict.fromkeys(keys))]
    assigned = [each.targets[0] for each in find_nodes(function, ast.Assign) if ast.unparse(each.value) == first]
    if not indices and not assigned:
        return None
    counts = [len(each.elts) for each in assigned if isinstance(each, ast.Tuple)]
    passed = call_in_order(definition, is_destination=len(definition.inputs) + len(definition.outputs) in counts)
    return f"{function.name}([{passed}])" if "clear" in attributes else f"{function.name}(({passed}))", [()]


def _choose_outputs(module: PythonModule, function: ast.FunctionDef | None, definition: Definition) -> str:
    """The expression that chooses the outputs of a function that returns more than the Definition has."""
    count = len(definition.outputs)
    assigned = {ast.unparse(each.targets[0]): each.value for each in find_nodes(function, ast.Assign)}
    returned = (each.value for each in find_nodes(function, ast.Return) if each.value)
    values = [assigned.get(ast.unparse(each), each) for each in returned]
    for each in values if count == 1 else ():
        keys = [key.value for key in each.keys if isinstance(key, ast.Constant)] if isinstance(each, ast.Dict) else []
        outputs = [key for key in keys if not STATISTIC.fullmatch(str(key))]
        if outputs and definition.outputs.keys().isdisjoint(keys):
            return f"[{outputs[0]!r}]"
    tuples = [each.elts for each in values if isinstance(each, ast.Tuple | ast.List)]
    called = [module.classes.get(last_name(each)) for each in values if isinstance(each, ast.Call)]
    named_tuples = [each for each in called if each and "NamedTuple" in map(last_name, each.bases)]
    tuples += [[field.target for field in find_nodes(each, ast.AnnAssign)] for each in named_tuples]
    more = next((each for each in tuples if len(each) > count), [])
    named = [at for at, each in enumerate(more) if not STATISTIC.fullmatch(last_name(each))]
    return "" if not more else f"[{[*named, 0][0]}]" if count == 1 else f"[:{count}]"
