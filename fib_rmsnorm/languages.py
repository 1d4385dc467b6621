"""The languages of kernels, with all that is asked of one: names, build, devices, required tools."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fib_rmsnorm.errors import InputError

NEEDS_GPU = "needs an NVIDIA GPU to run"
Ability = Literal["run", "interpret", "compile", "no"]
"""The abilities of a language on a kind of device, from most to least."""
INTERPRETER = " (interpreter)"
"""How a Trace's hardware ends if an interpreter ran the kernel, so that nobody ranks it among the processor's."""

ABILITIES: dict[Ability, str] = {"run": "run", "interpret": "interpreted", "compile": "compiles only", "no": "no"}
"""The same of a language or a Solution, in words."""
DeviceKind = Literal["cuda", "cpu"]
Tool = Literal["C++ compiler", "C compiler", "nvcc", "ninja"]


@dataclass(frozen=True)
class Language:
    """A language that Solutions are written in."""

    name: str
    """The name on command lines, in the schema and in solution.toml."""
    title: str
    suffixes: tuple[str, ...]
    """The suffixes of files that can hold an entry point."""
    recorded_as: str = ""
    """The language that its Solutions name, if they do not name it: kernels in CuTe DSL are recorded as Python."""
    builder: str = "fib_rmsnorm.building.source_files:load_python"
    """`module:function` that builds a Solution in a folder of the cache, and returns its entry point."""
    is_compiled: bool = False
    """Whether sources are compiled to a shared library; others are imported as Python modules."""
    module: str | None = None
    """The Python module that sources in this language import, and plain Python does not."""
    package: str = ""
    """The package that has the module."""
    install: str = ""
    """The command that installs the module."""
    on: Mapping[DeviceKind, tuple[Ability, str]] = field(default_factory=dict)
    """The ability on each kind of device, and the reason why it is not higher."""
    needs: Mapping[DeviceKind, tuple[Tool, ...]] = field(default_factory=dict)
    """The tools outside Python that the ability requires, for each kind of device."""
    needs_to_compile: tuple[Tool, ...] = ()
    """The tools outside Python that compiling without a GPU requires."""
    ahead_of_time: str = ""
    """`module:class` of the session that compiles an imported language for a GPU that need not be there."""
    compiler_folders: tuple[str, ...] = ()
    """Folders of the module whose code compiles kernels: an exception there means that a kernel does not compile."""
    cache_variable: str = ""
    """The environment variable that names the folder of the module's compiled kernels."""
    warm_up: str = ""
    """`module:function` that compiles and runs a kernel on a GPU, so that the next one is compiled sooner."""

    @property
    def runs_on_host(self) -> bool:
        """Whether its compiled code is that of the CPU."""
        return self.is_compiled and self.on["cuda"][0] == "no"

    @property
    def target_hardware(self) -> list[str]:
        """The kinds of device on which Solutions can be evaluated."""
        kinds: tuple[DeviceKind, ...] = ("cpu", "cuda")
        return [kind for kind in kinds if self.on[kind][0] in ("run", "interpret")]

    @property
    def compiles_for_gpus(self) -> bool:
        """Whether kernels can be compiled for a GPU without having one."""
        return self.on["cuda"][0] == "run" and (self.is_compiled or self.module is not None)


_NATIVE_TOOLS: tuple[Tool, ...] = ("C++ compiler", "ninja")

KERNEL_LANGUAGES: dict[str, Language] = {}
"""All languages in which a kernel can be written, by name."""
LANGUAGES: dict[str, Language] = {}
"""The languages that Solutions name."""


def register(*languages: Language) -> None:
    """Add languages."""
    for language in languages:
        KERNEL_LANGUAGES[language.name] = language
        if not language.recorded_as:
            LANGUAGES[language.name] = language


register(
    Language("python", "Python", (".py",), on={"cuda": ("run", ""), "cpu": ("run", "")}),
    Language(
        "triton",
        "Triton",
        (".py",),
        module="triton",
        package="triton",
        install="pip install triton",
        on={
            "cuda": ("run", ""),
            "cpu": ("interpret", "Triton has no CPU backend here: it is interpreted, judged and not timed"),
        },
        needs={"cuda": ("C compiler",)},
        ahead_of_time="fib_rmsnorm.inspection.triton_aot:TritonSession",
        compiler_folders=("/triton/compiler/",),
        cache_variable="TRITON_CACHE_DIR",
        warm_up="fib_rmsnorm.building.triton_start:warm_up",
    ),
    Language(
        "cpp",
        "C++",
        (".cpp", ".cc", ".cxx"),
        builder="fib_rmsnorm.building:build_compiled",
        is_compiled=True,
        on={"cuda": ("no", "C++ Solutions run on the CPU: choose the device cpu"), "cpu": ("run", "")},
        needs={"cpu": _NATIVE_TOOLS},
        needs_to_compile=_NATIVE_TOOLS,
    ),
    Language(
        "cuda",
        "CUDA",
        (".cu",),
        builder="fib_rmsnorm.building:build_compiled",
        is_compiled=True,
        on={"cuda": ("run", ""), "cpu": ("compile", NEEDS_GPU)},
        needs={"cuda": ("nvcc", *_NATIVE_TOOLS), "cpu": ("nvcc", *_NATIVE_TOOLS)},
        needs_to_compile=("nvcc", *_NATIVE_TOOLS),
    ),
    Language(
        "tilelang",
        "TileLang",
        (".py",),
        module="tilelang",
        package="tilelang",
        install="pip install 'fib-rmsnorm[tilelang]'",
        on={"cuda": ("run", ""), "cpu": ("run", "")},
        needs={"cuda": ("nvcc", "C++ compiler"), "cpu": ("C++ compiler",)},
        needs_to_compile=("nvcc",),
        ahead_of_time="fib_rmsnorm.inspection.tilelang_aot:TileLangSession",
        compiler_folders=("/tilelang/engine/", "/tilelang/jit/"),
        cache_variable="TILELANG_CACHE_DIR",
    ),
    Language(
        "cutedsl",
        "CuTe DSL",
        (".py",),
        recorded_as="python",
        module="cutlass",
        package="nvidia-cutlass-dsl",
        install="pip install nvidia-cutlass-dsl",
        on={"cuda": ("run", ""), "cpu": ("no", NEEDS_GPU)},
        cache_variable="CUTE_DSL_CACHE_DIR",
    ),
)


def check_language(name: str, among: Collection[str]) -> str:
    """Return the name of a language, in lower case. Raises InputError unless it is one of these."""
    if (known := name.strip().lower()) not in among:
        raise InputError(f"unknown language {known!r}: choose from {', '.join(among)}")
    return known


def title_of(language: str | None) -> str:
    """The title of a language; one that is not in the table keeps its name."""
    return LANGUAGES[language].title if language in LANGUAGES else language or ""
