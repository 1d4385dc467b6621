"""A kernel's file in Python, read without running it: its entry point, or the lines to add that make one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fib_rmsnorm import syntax_trees
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import Language
from fib_rmsnorm.registry.sources.parameters import Parameters, find_python_style
from fib_rmsnorm.registry.store import read_text
from fib_rmsnorm.schema import Definition, SourceFile

# What these return takes the parameters of the function that they are given.
_WRAPPERS = {"compile", "script", "cache", "lru_cache", "inference_mode", "no_grad"}
_KERNEL_DECORATORS = {"jit", "kernel", "prim_func", "autotune"}


class PythonKernel:
    """The file of a kernel, and its entry point: `entry`, else `run`. Its imports decide the language."""

    binding = None

    def __init__(self, path: Path, text: str, languages: Sequence[Language], entry: str | None) -> None:
        check_module_name(path)
        self.path, self.text, self.entry = path, text, entry or "run"
        self.module = read_module(path, text)
        plain = next(language for language in languages if language.module is None)
        self.language = next((known for known in languages if known.module in self.module.imports), plain)
        self.target_hardware = list(self.language.target_hardware)

    @property
    def parameters(self) -> Parameters | None:
        """Those of the entry point; None where the source does not show them."""
        return self.module.parameters_of(self.entry)

    def find_style(self, definition: Definition, asked: bool | None) -> bool:
        """Whether the entry point is destination-passing; `asked` decides it if it is not None.

        False where the source does not show its parameters. Raises InputError, with lines to add if some would do, for
        an entry point that is missing or that cannot be called with the Definition's names in order.
        """
        parameters = self.parameters
        if self.module.defines(self.entry) and (asked is not None or parameters is None):
            return asked or False
        functions = {name: self.module.parameters_of(name) for name in self.module.host_functions()}
        return find_python_style(str(self.path), self.entry, parameters, functions, definition)

    def read_sources(self, shared: dict[str, Path]) -> list[SourceFile]:
        """The file, the modules beside it or shared that it imports directly or indirectly, and shared data."""
        data = {name: file for name, file in shared.items() if file.suffix != ".py"}
        found = {name: SourceFile(path=name, content=read_text(file)) for name, file in data.items()}
        found[self.path.name] = SourceFile(path=self.path.name, content=self.text)
        waiting = [self.module]
        while waiting:
            for name in dict.fromkeys(waiting.pop().imports):
                file = shared.get(f"{name}.py", self.path.with_name(f"{name}.py"))
                if file.name not in found and file.is_file():
                    content = read_text(file)
                    found[file.name] = SourceFile(path=file.name, content=content)
                    waiting.append(read_module(file, content))
        return list(found.values())


def check_module_name(path: Path) -> None:
    """Raise InputError for a dot in the name of a Python file: it would name a module in a package."""
    if "." in path.stem:
        better = path.stem.replace(".", "_") + path.suffix
        raise InputError(
            f"{path}: Python cannot import a file with a dot in its name; rename it, for example to {better}"
        )


@dataclass(frozen=True)
class PythonModule:
    """The names that a Python file defines at its top level, also below an `if`, a `try` or a `with`."""

    tree: ast.Module
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    values: dict[str, ast.expr | None] = field(default_factory=dict)
    """What is assigned; None for what is imported."""

    @cached_property
    def imports(self) -> list[str]:
        """The top-level packages and modules that it imports, anywhere in it."""
        names = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
        return [name.split(".")[0] for name in names]

    def defines(self, name: str) -> bool:
        """Whether the file binds a name to what may be callable."""
        return name in self.functions or name in self.values

    def parameters_of(self, name: str, seen: frozenset[str] = frozenset()) -> Parameters | None:
        """The parameters of a function, or of what is assigned to a name; None if the source does not show them."""
        if name in self.functions:
            return _read(self.functions[name].args)
        value = self.values.get(name) if name not in seen else None
        return self._of_value(value, seen | {name}) if value is not None else None

    def host_functions(self) -> list[str]:
        """The functions that a caller may be meant to use: public ones that no compiler of kernels takes."""
        return [
            name
            for name, node in self.functions.items()
            if not name.startswith("_") and not any(_tail(each) in _KERNEL_DECORATORS for each in node.decorator_list)
        ]

    def method(self, class_name: str, name: str = "forward") -> Parameters | None:
        """The parameters of a method without its first, `self` or `ctx`; None if the class does not define it."""
        if class_name not in self.classes:
            return None
        nodes = [node for node in self.classes[class_name].body if isinstance(node, ast.FunctionDef)]
        return next((_read(node.args, skipped=1) for node in nodes if node.name == name), None)

    def _of_value(self, value: ast.expr, seen: frozenset[str]) -> Parameters | None:
        match value:
            case ast.Name(id=name):
                return self.parameters_of(name, seen)
            case ast.Lambda(args=arguments):
                return _read(arguments)
            case ast.Attribute(value=ast.Name(id=name), attr="apply"):
                return self.method(name)
            case ast.Call(func=ast.Name(id=name)) if name in self.classes:
                return self.method(name) or self.method(name, "__call__")
            case ast.Call(func=function, args=[wrapped, *_]) if _tail(function) in _WRAPPERS:
                return self._of_value(wrapped, seen)
        return None


def read_module(path: Path, text: str) -> PythonModule:
    """Parse a file. Raises InputError with the line of a syntax error."""
    try:
        module = PythonModule(syntax_trees.parse(text))
    except SyntaxError as error:
        raise InputError(f"{path}:{error.lineno}: {error.msg}") from None
    except (RecursionError, MemoryError):  # Python versions differ in which one they raise
        raise InputError(f"{path}: too deeply nested for Python") from None
    for node in _statements(module.tree.body):
        match node:
            case ast.FunctionDef(name=name):
                module.functions[name] = node
                module.values.pop(name, None)
            case ast.ClassDef(name=name):
                module.classes[name] = node
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    _assign(module, target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                _assign(module, target, value)
            case ast.ImportFrom(names=aliases):
                module.values.update({alias.asname or alias.name: None for alias in aliases})
    return module


def _assign(module: PythonModule, target: ast.expr, value: ast.expr) -> None:
    match target:
        case ast.Name(id=name):
            own = isinstance(value, ast.Call) and any(isinstance(a, ast.Name) and a.id == name for a in value.args)
            if own and name in module.functions:  # run = torch.compile(run): with the parameters that it had
                return
            module.values[name] = value
            module.functions.pop(name, None)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            module.values.update({each.id: None for each in targets if isinstance(each, ast.Name)})


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        match node:
            case ast.If(body=inner, orelse=other):
                yield from _statements([*inner, *other])
            case ast.With(body=inner):
                yield from _statements(inner)
            case ast.Try(body=inner, handlers=handlers, orelse=other, finalbody=last):
                caught = [each for handler in handlers for each in handler.body]
                yield from _statements([*inner, *caught, *other, *last])


def _read(arguments: ast.arguments, skipped: int = 0) -> Parameters | None:
    names = [argument.arg for argument in [*arguments.posonlyargs, *arguments.args]]
    if arguments.vararg is not None or len(names) < skipped:
        return None
    positional = tuple(names[skipped:])
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return Parameters(
        positional,
        max(len(positional) - len(arguments.defaults), 0),
        tuple(argument.arg for argument, default in keywords if default is None),
    )


def _tail(node: ast.expr) -> str:
    """The last name of a dotted one, also if it is called: `jit` of `@triton.jit` and of `@triton.jit(debug=True)`."""
    match node:
        case ast.Call(func=function):
            return _tail(function)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""
