"""Match a Definition's values to the parameters of a function: the calls that its author may have meant."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import compress, islice, pairwise, product

from fib_rmsnorm.schema import Definition

_MOST_CALLS, _MOST_COMPARED = 12, 100_000
_UNLIKE = 3
"""The cost of an argument that nothing speaks for; up to 1, the names agree."""
_OUT_OF_ORDER, _BEYOND = 2, 100
"""The cost of sizes that do not come from the outermost to the innermost, and of those whose product is another."""
_ROWS = re.compile(
    r"[BTRSL]|bs|num|(n_?|num_?)?(rows|tokens|samples)|n_?row|batch(_size)?|ne0?1|seq(_?len)?|outer(_size)?"
)
_COLUMNS = re.compile(
    r"[CDHKEW]|n_?col|(n_?|num_?)?(cols|columns|features|channels)|(hidden|row|inner|norm(alized)?|embed|model)(_?size)?"
    r"|ne0?0|\w*dims?|d_?model|n_embd|size|width|len(gth)?|\w+_per_row"
)
_STRIDE, _BLOCK = re.compile(r"(?i).*stride.*|(\w+_)?ld[a-z]?|nb\d+"), re.compile(r"(?i).*(block|blk|tile|threads).*")
SCRATCH = "scratch"
"""The argument for memory that a function writes beside the outputs."""
SPARE = "spare"
"""The argument for a tensor that a function in Python writes beside the outputs: a number for each row."""
STREAM = "stream"
"""The argument for the stream on which a function shall launch its kernels."""
_TOLD = {"cudaStream_t": STREAM, "optional<": "{}"}
"""The arguments that types of C++ tell."""
_INPUT, _OUTPUT = (
    re.compile(r"a|in|inp(ut)?|inout|data|ptr|hidden(_states)?|activations?|src"),
    re.compile(r"o|y|dst|out(put)?|res(ult)?"),
)
_GRADIENT = re.compile(r"grad(_?(out(put)?|y))?|d(_?out(put)?|o)")
"""A name of what a backward kernel gets; in a forward one, `d_out` is an output in the device's memory."""
_ONLY_BACKWARD = re.compile(r"grad(_?(out(put)?|y))?|dy|dout(put)?")
_SYNONYMS = {
    "weight": re.compile(r"g|gamma|gain|scale"),
    "bias": re.compile(r"beta|shift"),
    "residual": re.compile(r"y|other|skip|shortcut"),
    "gate": re.compile(r"z"),
    "dy": _GRADIENT,
}
_NEW = re.compile(r"^(new|out|output)_(?=.)|(?<=.)_(new|out|output)$")
"""The part of a name that tells an output from an input of the same name."""
STATISTIC = re.compile(r"(?i)mean|mu|.*(rms|rstd|std|var|sigma|scratch|workspace|buf).*")
_ADDS_OUTPUT = re.compile("prenorm|return_residual")
"""A flag by which a function returns the sum of a fused addition too."""
_KINDS = {
    "tensor": r"Tensor|\*",
    "shape": r"\b([Tt]uple|[Ll]ist|Sequence|Size|IntArrayRef)\b",
    "number": r"\b(float|double)\b",
    "size": r"\b(u?int\w*|long|\w*(size|diff|dim|index)_t|unsigned)\b",
    "flag": r"\bbool\b",
    "other": r"\w",
}
Arguments = tuple[str | None, ...]
"""The arguments of a call, in the names of a Definition; None for a parameter that keeps its default."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function."""

    name: str
    type: str = ""
    """Its annotation, or its type in C++; empty if the source does not say."""
    default: str | None = None
    """Its text; None where the parameter must be given."""
    is_keyword: bool = False
    """Whether it is passed by its name alone."""

    given: str = ""
    """The default in C++, where no later argument can be passed by name."""

    @property
    def is_optional(self) -> bool:
        """Whether it may be left out; a size may not if nothing or another size stands for it."""
        is_size = _COLUMNS.fullmatch(self.name) or self.kind == "shape"
        return self.default is not None and not (is_size and re.fullmatch(r"None|[2-9]|[1-9]\d+", self.default))

    @property
    def element(self) -> str:
        """The type in C++ of the elements that it points to; empty if it does not point to numbers."""
        kind, star, _ = self.type.partition("*")
        return re.sub(r"\bconst\b|\s|.*<", "", kind) if star and "Tensor" not in kind else ""

    @property
    def kind(self) -> str:
        """The kind of value that its type and name allow; `any` if they do not tell."""
        for kind in ("shape", "dtype"):
            if kind in self.name.lower():
                return kind
        if self.type.endswith("constexpr") and "eps" in self.name.lower():
            return "number"
        return next((kind for kind, pattern in _KINDS.items() if re.search(pattern, self.type)), "any")


Parameters = tuple[Parameter, ...]


def render(parameters: Parameters, arguments: Arguments) -> str:
    """The text of a call's arguments: by name after one that keeps its default."""
    written: list[str] = []
    by_name = False
    for each, argument in zip(parameters, arguments, strict=True):
        if argument is None:
            by_name = True
        else:
            written.append(f"{each.name}={argument}" if by_name or each.is_keyword else argument)
    return ", ".join(written)


def bind(parameters: Parameters, definition: Definition, given: Collection[str] = ()) -> list[tuple[Arguments, bool]]:
    """The calls that a function may be meant to get, the likeliest first, and whether names or types speak for each.

    Each passes every tensor once but those `given` already, a number also to several parameters that are named for it,
    and to a function that writes its outputs all of them.
    """
    order, (rows, *columns) = [*definition.inputs, *definition.outputs], definition.axes
    outermost_first = [rows, "1", *columns]
    are_extents = [not (_STRIDE.fullmatch(each.name) or _BLOCK.fullmatch(each.name)) for each in parameters]
    numbers = {name for name, spec in definition.inputs.items() if spec.shape is None}
    needed = {name for name, spec in definition.inputs.items() if spec.shape is not None}.difference(given)
    found: list[tuple[int, int, Arguments, bool]] = []
    foreign = [each for each in parameters if each.name not in order and not each.is_optional]
    if "dy" not in order and any(_ONLY_BACKWARD.fullmatch(each.name) for each in foreign):
        return []  # a backward pass, and the Definition is of none
    reads = any("*" in each.type and "const" in each.type for each in parameters)
    has_stride = any(each.element for each in parameters) and any(_STRIDE.fullmatch(each.name) for each in parameters)
    options = [_options(each, definition, reads=reads) for each in parameters]
    for chosen in islice(product(*options), _MOST_COMPARED):
        used = [argument for _, argument in chosen if argument in order]
        written = len({*used} & {*definition.outputs})
        arguments = [argument for _, argument in chosen]
        extents = [
            (outermost_first.index(str(argument)), cost > 0 or len(each.name) == 1)
            for each, (cost, argument) in compress(zip(parameters, chosen, strict=True), are_extents)
            if argument in outermost_first
        ]
        nested = [at for at, _ in extents]
        styles = (len(definition.outputs),) if SCRATCH in arguments else (0, len(definition.outputs))
        guessed = {each for cost, each in chosen if cost > 1}
        once = [each for _, each in chosen if each in order and (each in guessed or each not in numbers)]
        is_once = len({*once, *given}) == len(once) + len(given) and nested.count(0) <= 1
        if is_once and needed.issubset(used) and written in styles:
            places = [order.index(name) for name in used if name in definition.inputs]
            unused = len({*definition.inputs}.difference(used, given))
            cost = sum(cost for cost, _ in chosen) + sum(a > b for a, b in pairwise(places)) + 2 * unused
            inverted = sum(a > b and (is_guess or other) for (a, is_guess), (b, other) in pairwise(extents))
            inverted += has_stride and rows not in arguments  # one row at a time has none
            is_another = len(nested) > 1 and sorted(nested) != sorted({*nested, 0, *range(2, len(outermost_first))})
            cost += _OUT_OF_ORDER * inverted + _BEYOND * is_another
            is_named = all(cost <= 1 for cost, _ in chosen)
            found.append((cost, inverted, tuple(arguments), is_named))
    found.sort(key=lambda each: each[:2])
    least = next((cost for cost, _, _, is_named in found if is_named), -1)
    kept = [each for each in found if each[0] < _BEYOND] or found
    return [(arguments, is_named and cost == least) for cost, _, arguments, is_named in kept[:_MOST_CALLS]]


def call_in_order(definition: Definition, *, is_destination: bool) -> str:
    """The arguments of an entry point."""
    return ", ".join([*definition.inputs, *(definition.outputs if is_destination else ())])


def find_usual(parameters: Parameters | None, definition: Definition, *, is_there: bool) -> str | None:
    """The arguments of an entry point that takes the Definition's names in order; None if another calls for others.

    It may take the outputs too. One that `is_there` may not show its parameters.
    """
    usual, with_outputs = (call_in_order(definition, is_destination=is_destination) for is_destination in (False, True))
    likeliest = usual if is_there else None
    if parameters is not None:  # one of another name counts as that at its place, unless its name or type denies it
        likeliest = next((render(parameters, each) for each, _ in bind(parameters, definition)), None)
    return likeliest if likeliest in (usual, with_outputs) else None


def _options(parameter: Parameter, definition: Definition, *, reads: bool) -> Sequence[tuple[int, str | None]]:
    """The values that a parameter may get, each with how unlikely it is.

    Where a function `reads` from other pointers, those to const, a pointer of one letter is what it writes to.
    """
    kind, name, specs = parameter.kind, parameter.name, {**definition.inputs, **definition.outputs}
    if name in specs:
        value = "1" if kind == "flag" and specs[name].shape is not None else name  # whether there is such a tensor
        return [(0, value), *([(1, None)] if parameter.is_optional else [])]
    fitting = [
        each for each, spec in specs.items() if kind in ("any", "tensor" if spec.shape is not None else "number")
    ]
    plain = re.sub(r"_(ptr|data)$" + r"|^d_(?=.)" * ("*" in parameter.type), "", name.lower())
    if "dy" in specs and _GRADIENT.fullmatch(plain):
        fitting = [each for each in fitting if each == "dy"]
    elif _NEW.search(plain) or (reads and len(plain) == 1 and "*" in parameter.type and "const" not in parameter.type):
        fitting = [each for each in fitting if each in definition.outputs]
    likeness = {each: _compare(plain, each.lower()) for each in fitting if not _STRIDE.fullmatch(name)}
    usual = [(_INPUT, next(iter(definition.inputs))), (_OUTPUT, next(iter(definition.outputs)))]
    for names, first in (*usual, *((names, each) for each, names in _SYNONYMS.items())):
        if first in fitting and names.fullmatch(plain):
            likeness[first] = 1
    if (best := min(likeness.values(), default=_UNLIKE)) < _UNLIKE:
        likely: list[tuple[int, str | None]] = [(cost, each) for each, cost in likeness.items() if cost == best]
        likely += [] if parameter.is_optional or kind != "any" else _sizes(parameter, definition)  # such as `hidden`
        likely += [(1, parameter.given)] if parameter.given and best else []
        return [(best, None), *likely] if parameter.is_optional and best else likely
    told = _tell(parameter, plain, definition)
    if parameter.is_optional and not told:
        device = f"{usual[0][1]}.device" if name == "device" and "cuda" in str(parameter.default) else None
        kept = "True" if len(definition.outputs) > 1 and _ADDS_OUTPUT.fullmatch(name) else device
        return [(0, kept), *((_UNLIKE, each) for each in fitting if specs[each].shape is None)]
    if sizes := [(0, told)] if told else _sizes(parameter, definition):
        return sizes
    if "*" in parameter.type and "const" not in parameter.type:
        return [
            (1 if STATISTIC.fullmatch(name) else _UNLIKE, SCRATCH),
            *((_UNLIKE + 1, each) for each in fitting if each in definition.outputs),
        ]
    is_known = any(names.fullmatch(plain) or _compare(plain, each) <= 1 for each, names in _SYNONYMS.items())
    absent = 2 if is_known else _UNLIKE + 2  # such as the bias of a norm that may have none
    written = [(1, SPARE)] if STATISTIC.fullmatch(name) else []
    return [*written, *((_UNLIKE + (each in definition.outputs), each) for each in fitting), (absent, "None")]


def _tell(parameter: Parameter, name: str, definition: Definition) -> str:
    """The argument that a parameter's type or name tells; empty if neither does."""
    is_flag = parameter.kind == "flag" or parameter.default == "False"
    if is_flag and "rms" in definition.name and re.fullmatch(r"(is_|use_)?rms(_?norm)?(_only)?", name):
        return "True" if parameter.default else "true"
    if not parameter.is_optional and re.fullmatch(r"(p_)?dropout(_?(p|prob|rate))?|\w+_mode", name):
        return "0"  # which turns it off
    if "void*" in parameter.type and "stream" in name:
        return STREAM
    return next((each for type_, each in _TOLD.items() if type_ in parameter.type), parameter.given)


def _sizes(parameter: Parameter, definition: Definition) -> list[tuple[int, str | None]]:
    """The sizes that a parameter may stand for; none if it may be something else."""
    axes, kind, name = [*definition.axes], parameter.kind, parameter.name
    name = name.upper() if name in "mn" or (kind == "size" and len(name) == 1) else name
    shape = f"{{{axes[-1]}}}" if "IntArrayRef" in parameter.type else f"({axes[-1]},)"
    dtype = f"torch.{(element := next(iter(definition.outputs.values())).dtype.value)}"
    size = int("".join(re.findall(r"\d", element.partition("_")[0])) or 8) // 8
    if plain := {"shape": shape, "flag": "0", "dtype": dtype}.get(kind):
        return [(0, plain)]
    if parameter.type.endswith("constexpr"):
        if re.search(r"(?i)(_M|rows?|tokens)$", name):
            return [(1, "1")]
        return [(1, f"1 << ({axes[-1]} - 1).bit_length()"), (2, axes[-1])]
    if kind not in ("any", "size") or (kind == "any" and len(name) == 1 and name not in "MNKDH"):
        return []
    found: list[tuple[int, str | None]] = [(2, size) for size in (*reversed(axes), "1")] if kind == "size" else []
    usual: list[tuple[re.Pattern[str], list[tuple[int, str | None]]]] = [
        (re.compile("N"), [(0, axes[-1]), (1, axes[0]), (2, "1")]),  # of rows, where one of columns follows
        (re.compile("M"), [(0, axes[0]), (1, axes[-1]), (2, "1")]),
        (re.compile("(n_?|num_?)(kv_?)?(groups|heads)"), [(0, "1")]),
        (re.compile("n_?channels"), [(0, axes[-1]), (1, "1")]),
        (re.compile("numel|n_?elem(ent)?s?"), [(0, f"{axes[0]} * {axes[-1]}")]),
        (_COLUMNS, [(0, axes[-1])]),
        (_ROWS, [(0, axes[0]), (1, "1")]),
        (re.compile(r"nb\d*0"), [(0, f"{size}")]),
        (re.compile(r"nb\d*1"), [(0, f"{axes[-1]} * {size}")]),
        (re.compile(r"(?i)\w*stride_?[xyow]?[ckn1]"), [(1, "1"), (2, axes[-1])]),
        (_STRIDE, [(1, axes[-1]), (2, "1")]),
        (_BLOCK, [(2 - (kind == "size"), "128"), (2, "1")]),
    ]
    likely = next((sizes for pattern, sizes in usual if pattern.fullmatch(name)), [])
    known = [size for _, size in likely]
    return likely if likely and len(name) > 1 else [*likely, *(each for each in found if each[1] not in known)]


def _compare(name: str, wanted: str) -> int:
    """How unlike two names are: `w` and `attn_norm_weights` are like `weight`."""
    bare = _NEW.sub("", name)
    if wanted in (name, f"new_{bare}") or (bare != name and wanted.startswith(f"new_{bare}")):
        return 0
    is_like = wanted.startswith(name) or any(word.startswith(wanted) for word in (name, *name.split("_")[1:]))
    return 1 if is_like else _UNLIKE
