"""What code and pages cite is there: pages and their headings, files, functions, modules; and lines stay short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "conf/experiment/README.md")),
    *(ROOT / folder / "README.md" for folder in ("experiments", "traces")),
    *sorted((ROOT / "docs").glob("*.md")),
]
TEXTS = [
    path
    for folder in ("src", "tests", "experiments", "conf")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".yaml")
]
PAGE = re.compile(r"(?<![\w./])((?:docs/|traces/|experiments/)?[\w-]+\.md)")
LINK = re.compile(r"\[([^\]]*)\]\(((?!https?:)[^)\s]+)\)((?:,? (?:and )?`[\w.]+`)*)")
ROLE = re.compile(r":(?:mod|class|func|meth|data|attr):`([\w.]+)`")
FILE = re.compile(
    r"`(?:python )?((?:tests|experiments|conf|docs|traces|src|core|config|engine)/[\w/-]+(?:\.\w+)?)/?[ `]"
)
DOTTED = re.compile(r"`(flexray(?:\.\w+)+)")


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", read(page), flags=re.M | re.S), flags=re.M)


def anchors(page: Path) -> list[str]:
    """Return what GitHub makes of the headings."""
    return [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings(page)]


@cache
def names(path: Path) -> frozenset[str]:
    """Return what a module defines or imports, methods and attributes as ``Class.name``."""
    return frozenset(_names(ast.parse(read(path)).body, ""))


def _names(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from _names(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (prefix + found.id for t in targets for found in ast.walk(t) if isinstance(found, ast.Name))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _names(node.body, prefix)


def module_file(dotted: str) -> Path | None:
    path = SOURCE.joinpath(*dotted.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def is_found(dotted: str) -> bool:
    """Whether a full name such as ``flexray.core.links.Wire.send`` is that of a module, or of something in one."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        file = module_file(".".join(parts[:length]))
        if file is not None:
            return length == len(parts) or ".".join(parts[length:]) in names(file)
    return False


def is_known_in(file: Path, name: str) -> bool:
    """Whether a name is one of the module, of a class in it or below, or reached through what it imports."""
    known = names(file)
    first = name.split(".")[0]
    return any(own == name or own.endswith(f".{name}") for own in known) or ("." in name and first in known)


@pytest.mark.parametrize("path", [path for path in TEXTS if PAGE.search(read(path))], ids=ids)
def test_pages_and_headings_that_code_cites_exist(path: Path) -> None:
    """A heading stands after its page and a comma, in capitals as there: ``(docs/algorithms.md, Speeds)``."""
    text = re.sub(r"\n[ \t]*#?[ \t]*", " ", read(path))
    for match in PAGE.finditer(text):
        page, after = ROOT / match[1], text[match.end() : match.end() + 80]
        if "/" in match[1] or match[1] in ("README.md", "CONTRIBUTING.md"):  # others are written by commands
            assert page.is_file(), match[1]
            cited = re.match(", (?=[A-Z])", after)
            found = cited and [h for h in headings(page) if re.match(rf"{re.escape(h)}(?!\w)", after[2:])]
            assert found or not cited, match[1] + after


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_links_lead_somewhere(page: Path) -> None:
    for _, link, _ in LINK.findall(read(page)):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_files_that_pages_name_exist(page: Path) -> None:
    """From the source tree's root, or within the package."""
    for name in FILE.findall(read(page)):
        assert (ROOT / name).exists() or (SOURCE / "flexray" / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_functions_that_pages_name_are_defined(page: Path) -> None:
    """In the text of a link to a module, or right after it; and whatever has its full name."""
    for text, link, after in LINK.findall(read(page)):
        target = (page.parent / link).resolve()
        if target.suffix == ".py":
            own = [name for name in re.findall(r"`([\w.]+)`", text + after) if not name.endswith(".py")]
            assert set(own) <= names(target), link
            assert not text.startswith("flexray.") or module_file(text) == target, link
    if page.parent.name != "traces":  # whose files' metadata have such names
        assert not [name for name in DOTTED.findall(read(page)) if not is_found(name)]


@pytest.mark.parametrize("path", [p for p in TEXTS if p.suffix == ".py" and ROLE.search(read(p))], ids=ids)
def test_what_docstrings_refer_to_is_found(path: Path) -> None:
    for name in ROLE.findall(read(path)):
        assert is_found(name) if name.startswith("flexray.") else is_known_in(path, name), name


def test_nothing_cites_what_is_not_in_the_repository() -> None:
    assert not [ids(path) for path in (*TEXTS, *PAGES) if re.search(r"\bSP[E]C\b|\bDESI[G]N\.md", read(path))]


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_lines_of_pages_are_short(page: Path) -> None:
    assert not [line for line in read(page).splitlines() if len(line) > 150]


def test_experiments_are_listed_by_the_kind_that_they_say() -> None:
    """In the help and in their README, as the second line of each has it."""
    files = sorted((ROOT / "conf" / "experiment").glob("*.yaml"))
    said = {path.stem: re.match(r"# @package _global_\n# Kind: (\w+)\.\n", read(path)) for path in files}
    assert all(said.values())
    told = (
        read(ROOT / "conf" / "hydra" / "help" / "flexray.yaml").split("== Experiments by kind")[1].split("== Common")[0]
    )
    _, *helps = re.split(r"^  (\w+).*?   +", told, flags=re.M)
    _, *pages = re.split(r"^\*\*(\w+)\*\*", read(ROOT / "conf" / "experiment" / "README.md"), flags=re.M)
    for kind in ("setting", "sweep", "grid", "part"):
        own = {name for name, match in said.items() if match and match[1] == kind}
        in_help = next(text for word, text in zip(helps[::2], helps[1::2], strict=True) if word.startswith(kind))
        in_page = next(text for word, text in zip(pages[::2], pages[1::2], strict=True) if word.lower() == f"{kind}s")
        assert own == set(re.findall(r"\w+", in_help)) & set(said)
        assert own <= set(re.findall(r"`(\w+)`", in_page))
