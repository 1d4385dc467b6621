"""The names that a Python file defines, read without running it."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from fib_rmsnorm import syntax_trees
from fib_rmsnorm.registry.sources.parameters import Parameter, Parameters

LAUNCH = "["
KERNELS = {"jit", "kernel", "prim_func", "autotune", "heuristics", "load_inline"}
"""The names of what makes a kernel."""
_Node = TypeVar("_Node", bound=ast.AST)
_NORMS = {
    each.name: each
    for each in ast.parse("""
class RMSNorm:
    def __init__(self, normalized_shape, eps=None):
        self.weight = Parameter()

class LayerNorm:
    def __init__(self, normalized_shape, eps=None):
        self.weight = Parameter()
        self.bias = Parameter()
""").body
    if isinstance(each, ast.ClassDef)
}
"""The norms of torch.nn: their arguments, and the parameters that they make."""


@dataclass(frozen=True)
class PythonModule:
    """The names that a Python file defines at its top level, also below an `if`, a `try` or a `with`."""

    tree: ast.Module
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    values: dict[str, ast.expr | None] = field(default_factory=dict)
    """The assigned value; None for an import."""

    @cached_property
    def imported(self) -> dict[str, str]:
        """The top-level package or module of each name that it imports, anywhere in it; empty for a relative import."""
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    origin = alias.name if isinstance(node, ast.Import) else "" if node.level else node.module or ""
                    name = alias.name.split(".")[0] if isinstance(node, ast.Import) else alias.name
                    found[alias.asname or name] = origin.split(".")[0]
        return found

    def parameters_of(self, name: str) -> Parameters | None:
        """The parameters of a function; None if the source does not show them."""
        return read_parameters(self.functions[name].args) if name in self.functions else None

    def parameters_of_kernel(self, name: str) -> Parameters:
        """The parameters of a jitted kernel, of which those that its decorators choose have a default."""
        decorators = ast.Tuple([*self.functions[name].decorator_list])
        used = [self.values.get(each.id) or self.functions.get(each.id) for each in find_nodes(decorators, ast.Name)]
        keys = [key for each in (decorators, *used) for made in find_nodes(each, ast.Dict) for key in made.keys]
        chosen = {each.value for each in keys if isinstance(each, ast.Constant)}
        parameters = self.parameters_of(name) or ()
        return tuple(replace(each, default="") if each.name in chosen else each for each in parameters)

    def method(self, class_name: str, name: str = "forward") -> Parameters | None:
        """The parameters of a method without its first, `self` or `ctx`; None if the source does not show them."""
        nodes = [node for node in self.classes[class_name].body if isinstance(node, ast.FunctionDef)]
        nodes = [node for node in nodes if "abstractmethod" not in map(last_name, node.decorator_list)]
        read = (read_parameters(node.args, skipped=1) for node in nodes if node.name == name)
        return next((each for each in read if each is not None), None)


def read_module(tree: ast.Module) -> PythonModule:
    """Find the names that a parsed file defines."""
    module = PythonModule(tree)
    for node in _statements(module.tree.body):
        match node:
            case ast.FunctionDef(name=name):
                module.functions[name] = node
                module.values.pop(name, None)
            case ast.ClassDef(name=name):
                if "dataclass" in map(last_name, node.decorator_list):
                    fields = ", ".join(ast.unparse(each) for each in find_nodes(node, ast.AnnAssign))
                    node.body += syntax_trees.parse(f"def __init__(self, *, {fields}): pass").body
                _inherit(node, module.classes)
                module.classes[name] = node
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda(args=arguments, body=body)):
                module.functions[name] = ast.FunctionDef(name, arguments, [ast.Return(body)], [], lineno=1)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    _assign(module, target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                _assign(module, target, value)
            case ast.ImportFrom(names=aliases):
                module.values.update({alias.asname or alias.name: None for alias in aliases})
    return module


def _inherit(node: ast.ClassDef, known: Mapping[str, ast.ClassDef]) -> None:
    """Add the methods of its bases, those of the file and torch's norms, to a class, below its own."""
    bases = [last_name(each) for each in node.bases]
    for base in [known.get(name) or _NORMS.get(name) for name in bases]:
        node.bases += base.bases if base else ()
        node.body += [each for each in base.body if isinstance(each, ast.FunctionDef)] if base else ()


def _assign(module: PythonModule, target: ast.expr, value: ast.expr) -> None:
    match target:
        case ast.Name(id=name):
            named = value.args if isinstance(value, ast.Call) else [value]
            known = next((each.id for each in named if isinstance(each, ast.Name) and each.id in module.functions), "")
            if known and (named == [value] or known == name or last_name(value) == "compile"):
                module.functions[name] = module.functions[known]  # run = torch.compile(run): with its parameters
            else:
                module.values[name] = value
                module.functions.pop(name, None)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            module.values.update({each.id: None for each in targets if isinstance(each, ast.Name)})


def _statements(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            for part in ("body", "handlers", "orelse", "finalbody"):
                yield from _statements(getattr(node, part, ()))


def read_parameters(arguments: ast.arguments, skipped: int = 0) -> Parameters | None:
    """The parameters of a function after the first `skipped`; None if it takes any number of them."""
    positional, defaults = [*arguments.posonlyargs, *arguments.args], arguments.defaults
    if arguments.vararg is not None or len(positional) < skipped:
        return None
    given = [*[None] * (len(positional) - len(defaults)), *defaults]
    found = [_read(each, default) for each, default in zip(positional, given, strict=True)]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found += [_read(each, default, is_keyword=True) for each, default in keywords]
    return tuple(found[skipped:])


def _read(argument: ast.arg, default: ast.expr | None, *, is_keyword: bool = False) -> Parameter:
    type_ = ast.unparse(argument.annotation) if argument.annotation else ""
    return Parameter(argument.arg, type_, ast.unparse(default) if default else None, is_keyword)


def last_name(node: ast.expr) -> str:
    """The last name of a dotted one, also if it is called: `jit` of `@triton.jit` and of `@triton.jit(debug=True)`."""
    match node:
        case ast.Call(func=function):
            return last_name(function)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def find_attributes(node: ast.AST | None, *names: str) -> list[str]:
    """The attributes that code reads of names such as `self.config`, in order."""
    found = [each for each in find_nodes(node, ast.Attribute) if ast.unparse(each.value) in names]
    return [*dict.fromkeys(each.attr for each in found)]


def find_own_parameters(node: ast.ClassDef) -> dict[str, bool]:
    """The attributes that a module makes its parameters when it is made, and whether it does so on no condition.

    Without any: its buffers, which may be its weight.
    """
    own, buffers = dict[str, bool](), dict[str, bool]()
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    called = {name for each in methods if each.name == "__init__" for name in find_attributes(each, "self")}
    named = set[str]()
    for statement in (line for each in methods if each.name in {"__init__", *called} for line in each.body):
        assigned: list[ast.Assign | ast.AnnAssign] = [*find_nodes(statement, ast.Assign)]
        for each in [*assigned, *find_nodes(statement, ast.AnnAssign)]:
            target = each.targets[0] if isinstance(each, ast.Assign) else each.target
            used = {last_name(node) for node in find_nodes(each.value, ast.Call)}
            if "Parameter" in used or (isinstance(each.value, ast.Name) and each.value.id in named):
                named |= {target.id} if isinstance(target, ast.Name) else set()
                if isinstance(target, ast.Attribute):
                    own.setdefault(target.attr, each is statement and not isinstance(each.value, ast.IfExp))
        for call in find_nodes(statement, ast.Call):
            if last_name(call) == "register_buffer" and isinstance(call.args[0], ast.Constant):
                buffers[str(call.args[0].value)] = False
            if last_name(call) == "register_parameter" and not isinstance(call.args[-1], ast.Constant):
                own |= {str(each.value): False for each in call.args if isinstance(each, ast.Constant)}
    return own or buffers


def find_nodes(node: ast.AST | None, kind: type[_Node]) -> list[_Node]:
    """The nodes of a kind below a node and itself; none without a node."""
    return [each for each in ast.walk(node) if isinstance(each, kind)] if node else []


def may_overwrite(function: ast.FunctionDef | None) -> bool:
    """Whether a function returns nothing but parameters: it may leave its outputs in their memory."""
    if function is None:
        return False
    returned = [each.value for each in find_nodes(function, ast.Return) if each.value]
    names = [name for each in returned for name in (each.elts if isinstance(each, ast.Tuple) else [each])]
    assigned = {each.id for each in find_nodes(function, ast.Name) if isinstance(each.ctx, ast.Store)}
    kept = {each.arg for each in find_nodes(function, ast.arg)} - assigned
    return all(isinstance(each, ast.Constant) or (isinstance(each, ast.Name) and each.id in kept) for each in names)


def count_axes(module: PythonModule, name: str) -> int:
    """The most names into which a function, or a class that it uses, unpacks a shape that it gets: `b, s, d`."""
    nodes = [module.functions.get(name), *(module.classes.get(each) for each in reach(module, name))]
    code = "\n".join(ast.unparse(node) for node in nodes if node)
    unpacked = re.findall(r"(\w+(?:, \w+)+)\)? = (\w+)\.(?:shape|size\(\))$", code, re.MULTILINE)
    asserted = map(int, re.findall(r"assert \w+\.(?:ndim|dim\(\)) == (\d)\b", code))
    return max([0, *asserted, *(len(names.split(",")) for names, of in unpacked if f" {of} = " not in code)])


def read_made(module: PythonModule, name: str) -> Parameters | None:
    """The parameters of the function that a function makes and returns, without outputs that its compiler adds."""
    function = module.functions.get(name)
    returned = [each.value for each in find_nodes(function, ast.Return) if each.value]
    called = [each.func for value in returned for each in find_nodes(value, ast.Call)]
    names = [each.id for value in returned for each in find_nodes(value, ast.Name) if each not in called]
    inner = (each for each in find_nodes(function, ast.FunctionDef) if each is not function)
    made = next((each for each in inner if each.name in names), None)
    if function is None or made is None:
        return None
    words = [
        word for each in function.decorator_list for word in find_nodes(each, ast.keyword) if word.arg == "out_idx"
    ]
    count = sum(len(word.value.elts) if isinstance(word.value, ast.List) else 1 for word in words)
    parameters = read_parameters(made.args)
    return parameters[: len(parameters) - count] if parameters else None


def reach(module: PythonModule, name: str) -> set[str]:
    """The names that something in a file uses, directly or indirectly; LAUNCH for `kernel[grid](x)`, `@triton.jit`."""
    found, waiting = {name}, [name]
    while waiting:
        name = waiting.pop()
        node = module.functions.get(name) or module.classes.get(name) or module.values.get(name)
        for each in ast.walk(node) if node else ():
            if isinstance(each, ast.Name) and each.id not in found:
                found.add(each.id)
                waiting.append(each.id)
            is_launch = isinstance(each, ast.Call) and isinstance(each.func, ast.Subscript)
            if is_launch or (isinstance(each, ast.Name | ast.Attribute) and last_name(each) in KERNELS):
                found.add(LAUNCH)
    return found
