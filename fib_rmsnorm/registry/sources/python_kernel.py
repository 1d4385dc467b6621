"""A kernel's file in Python, read without running it: how it may be called, and the file that calls it."""

import ast
import builtins
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path, PurePath

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import Language
from fib_rmsnorm.registry.files.regular_files import read_text
from fib_rmsnorm.registry.sources.callees import KernelCall, find_calls, overwrite_inputs
from fib_rmsnorm.registry.sources.python_module import (
    LAUNCH,
    PythonModule,
    count_axes,
    last_name,
    may_overwrite,
    reach,
    read_module,
)
from fib_rmsnorm.schema import Definition, SourceFile
from fib_rmsnorm.syntax_trees import parse_expression, parse_file

_NAMESPACE = """import types


class SimpleNamespace(types.SimpleNamespace):
    def __hash__(self):
        return hash(tuple(vars(self).items()))

"""
_IMPORTS = {
    "torch": "import torch",
    "functional_call": "from torch.func import functional_call",
    "SimpleNamespace": _NAMESPACE,
}
"""The names that a call may use beside those that its file defines."""
_MODULES = '''

@cache
def _make(kind, device, /, *arguments, **named):
    """A module with the parameters that KernelBench's seeding gives it."""
    import torch

    torch.manual_seed(0)
    made = kind(*arguments, **named)
    return made.to(device).requires_grad_(False) if isinstance(made, torch.nn.Module) else made'''
_CONTEST = "input_t = output_t = tuple\n"
"""The types of GPU MODE's contests, from a module that their judge adds."""
_PLAIN = {"task", "torch", "numpy", *sys.stdlib_module_names}
_INSTALLED = {"site-packages", "dist-packages"}
_MOST_FILES, _MOST_CHARACTERS = 100, 2_000_000


class PythonKernel:
    """The file of a kernel, and its entry point: `entry`, else `run`. Its imports tell the language that it may use."""

    binding = None

    def __init__(self, path: Path, text: str, languages: Sequence[Language], entry: str | None) -> None:
        check_module_name(path)
        self.path, self.text, self.is_named, self.entry = path, text, entry is not None, entry or "run"
        self.module = read_module(parse_file(path, text))
        self.parameters = self.module.parameters_of(self.entry)
        """The parameters of the entry point; None where the source does not show them."""
        self.root = self._find_root()
        self.name = path.absolute().relative_to(self.root).as_posix()
        """The path in a Solution."""
        self._plain = next(language for language in languages if language.module is None)
        imported = self.module.imported.values()
        self.language = next((known for known in languages if known.module in imported), self._plain)
        self.is_installed = self.root.name in _INSTALLED
        """Whether it is imported where it lies, with all that it needs."""
        self.names = [*self.module.functions, *self.module.classes]
        self.entries = {*self.module.functions, *self.module.values}

    def _find_root(self) -> Path:
        """The folder from which the file is imported: that of its package, if it imports other modules of it."""
        folder = top = self.path.absolute().parent
        while (top / "__init__.py").is_file():
            top = top.parent
        level = max((each.level for each in ast.walk(self.module.tree) if isinstance(each, ast.ImportFrom)), default=0)
        if top != folder and (
            top.name in _INSTALLED or level or folder.relative_to(top).parts[0] in self.module.imported.values()
        ):
            return top
        return [folder, *folder.parents][: max(level, 1)][-1]

    def find_origin(self) -> tuple[Path, str | None] | None:
        """The neighbour from which a file that defines nothing imports its entry point, and that one's name there."""
        for node in self.module.tree.body if not self.names else ():
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            file = [*self.path.parents][max(node.level, 1) - 1] / f"{node.module.replace('.', '/')}.py"
            names = {each.asname or each.name: each.name for each in node.names}
            if file.is_file() and (names.keys() & {self.entry, "*"} or not self.is_named):
                only = node.names[0].name if len(names) == 1 and "*" not in names else None
                return file, names.get(self.entry, self.entry if self.is_named else only)
        return None

    def find_calls(self, definition: Definition) -> list[KernelCall]:
        """The calls that may be meant, the likeliest first: of the entry point, if there is one."""
        is_there = self.entry in (*self.entries, *self.module.classes)
        if not is_there and self.entry != "run":
            raise InputError(f"{self.path}: no function {self.entry!r} (available: {', '.join(self.names) or 'none'})")
        return find_calls(self.module, definition, self.entry if is_there else None)

    def choose_language(self, call: KernelCall) -> Language:
        """The language of what a call runs: Python if it launches no kernel and uses nothing of other files."""
        if self.language is self._plain:
            return self._plain
        names = self._reach(call)
        packages = {self.module.imported.get(name, "torch") for name in names}
        is_plain = packages <= {*_PLAIN, self.language.module} and "torch.ops." not in self.text
        return self._plain if is_plain and LAUNCH not in names else self.language

    def explain_language(self, call: KernelCall) -> str | None:
        """Why a call's language is Python though its file imports another, and what it runs; None if it is not."""
        if self.choose_language(call) is self.language:
            return None
        nodes = (node for name in self._reach(call) if (node := self.module.functions.get(name)))
        functions = {each.func for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call)}
        names = (name for name, origin in self.module.imported.items() if origin == "torch")
        torchs = re.compile("|".join(names) + r"\b")
        called = sorted({text for each in functions if torchs.match(text := ast.unparse(each))})
        runs = f"it runs {', '.join(called)}" if called else "it runs operators of torch"
        return f"{call.text} launches no {self.language.title} kernel, so its language is Python: {runs}"

    def _reach(self, call: KernelCall) -> set[str]:
        return {name for word in re.findall(r"[^\W\d]\w*", call.made) for name in reach(self.module, word)}

    def list_places(self, call: KernelCall, definition: Definition) -> list[KernelCall]:
        """The calls that a call may stand for: itself, or with outputs in place of inputs."""
        function = self.module.functions.get(call.callee)
        call = self._add_axes(call, definition)
        if may_overwrite(function):
            placed = overwrite_inputs(call, definition)
            is_void = function is not None and isinstance(function.returns, ast.Constant)
            return placed if placed and is_void else [call, *placed]
        if function is None or len(definition.outputs) == 1 or call.writes(definition):
            return [call]
        first, *others = definition.outputs
        rest = definition.model_copy(update={"outputs": {name: definition.outputs[name] for name in others}})
        returning = [replace(each, text=f"{first}.copy_({each.text})") for each in overwrite_inputs(call, rest)]
        returning.append(replace(call, text=f"{call.text}[::-1]"))
        if any(len(spec.shape or ()) == 1 for spec in definition.outputs.values()):  # it may be [rows, 1]
            returning.append(replace(call, text=f"[each.squeeze(-1) for each in {call.text}]"))
        return [call, *returning]

    def _add_axes(self, call: KernelCall, definition: Definition) -> KernelCall:
        """The call with axes of size 1 before the rows, if what it calls unpacks shapes of more axes."""
        specs = {**definition.inputs, **definition.outputs}
        rows = next(spec.shape for spec in specs.values() if spec.shape is not None)
        added = count_axes(self.module, call.callee) - len(rows)
        if added <= 0 or len(definition.outputs) > 1:
            return call
        alike = "|".join(re.escape(name) for name, spec in specs.items() if spec.shape == rows)
        text = re.sub(rf"(?<![\w.])({alike})(?!\w|=)", rf"\1{'.unsqueeze(0)' * added}", call.text)
        return replace(call, text=text if call.writes(definition) else f"{text}{'.squeeze(0)' * added}")

    def adapt(
        self, call: KernelCall, definition: Definition, sources: list[SourceFile]
    ) -> tuple[str, list[SourceFile], Language]:
        """The entry point that makes a call, the sources, with a file that has it unless one does, and the language.

        Raises InputError for what is not Python, or for a name that the file does not define.
        """
        language = self.choose_language(call)
        if not self.is_installed and (name := call.find_direct(definition, self.entries)):
            return f"{self.name}::{name}", sources, language
        try:
            tree = parse_expression(call.text)
        except (SyntaxError, ValueError) as error:  # the second for a null character
            raise InputError(f"--call {call.text!r}: {error.args[0]}") from None
        except (RecursionError, MemoryError):
            raise InputError("--call: too deeply nested for Python") from None
        names = {*definition.inputs, *definition.outputs, *definition.axes, *dir(builtins)}
        used = [each for each in ast.walk(tree) if isinstance(each, ast.Name)]
        own_names = {each.id for each in used if isinstance(each.ctx, ast.Store)}  # of a comprehension
        wanted = sorted({each.id for each in used} - names - own_names)
        own = [name for name in wanted if name in self.entries or name in self.module.classes]
        imports = [_IMPORTS[name] for name in wanted if name in _IMPORTS and name not in own]
        if unknown := [name for name in wanted if name not in (*own, *_IMPORTS)]:
            what = f"{self.path.name} has no {unknown[0]!r} (available: {', '.join(self.names) or 'none'})"
            raise InputError(f"--call {call.text!r}: {what}")
        calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
        called = [each.args[0] if last_name(each) == "functional_call" else each.func for each in calls]
        makers = {last_name(each) for each in called if isinstance(each, ast.Call)}
        owners = [each.value for each in called if isinstance(each, ast.Attribute)]
        built = {last_name(each) for each in owners if isinstance(each, ast.Call)}  # `Norm` of `Norm(eps).run(x)`
        modules = sorted((makers | built) & self.module.classes.keys())
        decorators = {name: map(last_name, node.decorator_list) for name, node in self.module.classes.items()}
        holders = [name for name in own if name not in modules and "dataclass" in decorators.get(name, ())]
        own = [name for name in own if name not in (*modules, *holders)]
        first = next((name for name, spec in definition.inputs.items() if spec.shape is not None), "")
        is_destination, module = call.writes(definition), self.name.removesuffix(".py").replace("/", ".")
        name = f'"{module.removesuffix(".__init__")}"' if self.is_installed else f'".{module}", __package__'
        lines = [
            f"# Written by fib-rmsnorm, for {definition.name}: {call.text}",
            *imports,
            "from functools import cache, partial\nfrom importlib import import_module\n",
            f"_kernel = import_module({name})",
            # What a class or a factory makes serves all calls of the same sizes.
            *(f"{name} = cache(_kernel.{name})" if name in makers else f"{name} = _kernel.{name}" for name in own),
            *(f"{name} = cache(_kernel.{name})\n_kernel.{name}.__hash__ = object.__hash__" for name in holders),
            *([_MODULES] if modules else []),
            f"\n\ndef called({', '.join(call.passed(definition))}):",
            *(f"    {name} = partial(_make, _kernel.{name}, {first}.device)" for name in modules),
            *(f"    {axis} = {size}" for axis, size in call.find_sizes(definition, "{}.shape[{}]").items()),
            f"    {'' if is_destination else 'return '}{call.made}\n",
        ]
        file = f"{self.path.stem}_call.py"
        return f"{file}::called", [*sources, SourceFile(path=file, content="\n".join(lines))], language

    def read_sources(self, shared: dict[str, Path]) -> list[SourceFile]:
        """The file, the modules of its folder or package or shared that it imports, and shared data; none if installed.

        Raises InputError if they are too many.
        """
        if self.is_installed:
            return []
        data = {name: file for name, file in shared.items() if file.suffix != ".py"}
        found = {name: SourceFile(path=name, content=read_text(file)) for name, file in data.items()}
        found[self.name] = SourceFile(path=self.name, content=self.text)
        if "task" in self.module.imported.values() and not (self.root / "task.py").exists():
            found["task.py"] = SourceFile(path="task.py", content=_CONTEST)
        waiting = [(self.name, self.module)]
        while waiting:
            for name in _find_imported(*waiting.pop(), self.name):
                file = shared.get(name, self.root / name)
                if name not in found and file.is_file() and (content := read_text(file)).strip():
                    found[name] = SourceFile(path=name, content=content)
                    waiting.append((name, read_module(parse_file(file, content))))
            if len(found) > _MOST_FILES or sum(len(each.content) for each in found.values()) > _MOST_CHARACTERS:
                raise InputError(f"{self.path}: what it imports is more than {_MOST_FILES} files, or than 2 MB")
        return list(found.values())


def _find_imported(name: str, module: PythonModule, entry: str) -> Iterator[str]:
    """The possible paths, in the Solution, of the modules that a file of it imports."""
    for node in ast.walk(module.tree):
        folders, names = [PurePath(), PurePath(entry).parent], []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            folders = [[*PurePath(name).parents][: node.level][-1]] if node.level else folders
            names = [node.module or "", *(f"{node.module or ''}.{each.name}".strip(".") for each in node.names)]
        for folder, each in product(folders, filter(None, names)):
            path = folder.joinpath(*each.split("."))
            yield from (f"{path}.py", f"{path}/__init__.py")


def check_module_name(path: Path) -> None:
    """Raise InputError for a dot in the name of a Python file: it would name a module in a package."""
    if "." in path.stem:
        better = path.stem.replace(".", "_") + path.suffix
        raise InputError(
            f"{path}: Python cannot import a file with a dot in its name; rename it, for example to {better}"
        )
