"""Prints REFERENCE.md, the reference of the package, which is made of its docstrings:

python3 scripts/reference.py > REFERENCE.md
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Iterator, Optional, Union

PACKAGE = Path(__file__).parents[1] / "rueda"
WIDTH = 96

GROUPS = [
    ("Clients", ["AsyncClient", "Client", "Subscriptions", "ALL_LEVELS", "Overflow"]),
    ("Progress and health", ["Checkpoint", "State", "Health", "InstrumentHealth"]),
    ("Market data", ["MarketEvent", "Trade", "Quote", "BookUpdate", "Level", "Status", "Summary",
                     "Bar", "DataEvent", "decode"]),
    ("Other events", ["StateChange", "Recovered", "Lost", "BookInvalid", "Rejected", "Delayed",
                      "Notice", "Event"]),
    ("Books", ["Book"]),
    ("Requests", ["Range", "Moment", "AsyncRows", "Rows", "Account", "Instrument", "InstrumentSnapshot"]),
    ("Tokens", ["Tokens", "TokenStore", "FileStore"]),
    ("Errors", ["RuedaError", "ConnectionBroken", "ProtocolError", "IncompleteHistory",
                "IncompleteHistoryWarning", "InvalidBook", "ChainError",
                "ChecksumError", "GatewayError", "RequestError", "AuthenticationError",
                "InvalidCredentials", "SecondFactorRequired", "LoginEnded", "TokenExpired",
                "Forbidden", "NotEntitled", "NotFound", "Replaced", "EpochChanged",
                "LimitExceeded", "Unavailable", "reason_of"]),
]
NOT_MADE = {"RuedaError", "AsyncIterator[E]", "Iterator[E]"}  # bases of what no program makes
PANDAS = ["trades", "trades_async", "trades_frame", "quotes", "quotes_async", "quotes_frame",
          "bars", "bars_async", "bars_frame", "LiveBars"]

INTERNAL = {f"AsyncClient.{name}" for name in ("take", "proceed", "begin", "save_export")}  # for the synchronous client

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
Definition = tuple[ast.stmt, str]
"""A statement, and the docstring of an assignment that follows it."""


def body_of(statements: list[ast.stmt]) -> Iterator[Definition]:
    """Iterates over statements, each with the text after it if that is a docstring."""
    for i, statement in enumerate(statements):
        after = statements[i + 1] if i + 1 < len(statements) else None
        yield statement, text_of(after)


def text_of(statement: Optional[ast.stmt]) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        if isinstance(statement.value.value, str):
            return inspect.cleandoc(statement.value.value)
    return ""


def name_of(statement: ast.stmt) -> str:
    """Returns the name that a statement defines, "" if it defines none."""
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return statement.name
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    return ""


def definitions(path: Path) -> dict[str, Definition]:
    module = ast.parse(path.read_text())
    return {name_of(s): (s, doc) for s, doc in body_of(module.body) if name_of(s)}


def parameter(a: ast.arg, default: Optional[ast.expr], prefix: str = "") -> str:
    text = prefix + a.arg
    if a.annotation is not None:
        text += ": " + ast.unparse(a.annotation)
    if default is not None:
        text += (" = " if a.annotation is not None else "=") + ast.unparse(default)
    return text


def parameters(a: ast.arguments, method: bool) -> list[str]:
    plain = a.posonlyargs + a.args
    defaults = [None] * (len(plain) - len(a.defaults)) + list(a.defaults)
    out = [parameter(x, d) for x, d in zip(plain, defaults)][1 if method else 0 :]
    if a.vararg is not None:
        out.append(parameter(a.vararg, None, "*"))
    elif a.kwonlyargs:
        out.append("*")
    out += [parameter(x, d) for x, d in zip(a.kwonlyargs, a.kw_defaults)]
    if a.kwarg is not None:
        out.append(parameter(a.kwarg, None, "**"))
    return out


def call(head: str, names: list[str], returns: str) -> str:
    """Returns a signature, of several lines if it is long."""
    line = f"{head}({', '.join(names)}){returns}"
    if len(line) <= WIDTH:
        return line
    return head + "(\n" + "".join(f"    {name},\n" for name in names) + ")" + returns


def signature(f: Function, method: bool) -> str:
    decorators = {ast.unparse(d) for d in f.decorator_list}
    head = "async def " if isinstance(f, ast.AsyncFunctionDef) else "def "
    returns = "" if f.returns is None else " -> " + ast.unparse(f.returns)
    if returns.startswith(" -> AsyncIterator"):
        head = "def "  # it is called without await
    if "classmethod" in decorators:
        head = "@classmethod\n" + head
    return call(head + f.name, parameters(f.args, method), returns)


def code(text: str) -> str:
    return f"```python\n{text}\n```"


def field(statement: ast.AnnAssign) -> str:
    """Returns a field of a dataclass with its default."""
    text = f"{name_of(statement)}: {ast.unparse(statement.annotation)}"
    value = statement.value
    if isinstance(value, ast.Call):
        value = next((k.value for k in value.keywords if k.arg == "default"), None)
    return text if value is None else f"{text} = {ast.unparse(value)}"


def class_text(c: ast.ClassDef) -> Iterator[str]:
    """Iterates over the paragraphs of a class."""
    bases = [ast.unparse(b) for b in c.bases]
    lines = [f"class {c.name}" + (f"({', '.join(bases)})" if bases else "")]
    functions: list[Function] = []
    attributes: list[str] = []
    for statement, doc in body_of(c.body):
        name = name_of(statement)
        if name == "__init__" and isinstance(statement, ast.FunctionDef):
            if not set(bases) & NOT_MADE:
                lines = [call("class " + c.name, parameters(statement.args, True), "")]
        elif not name or name.startswith("_"):
            continue
        elif isinstance(statement, ast.AnnAssign):
            lines.append("    " + field(statement))
        elif isinstance(statement, ast.Assign):
            lines.append("    " + ast.unparse(statement))
            if doc:
                attributes.append(f"- `{name}`: {doc}")
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if "property" in {ast.unparse(d) for d in statement.decorator_list}:
                returns = ast.unparse(statement.returns) if statement.returns else ""
                about = ast.get_docstring(statement) or ""
                attributes.append(f"- `{name}: {returns}`: {about}")
            elif f"{c.name}.{name}" not in INTERNAL:
                functions.append(statement)
    yield code("\n".join(lines))
    yield ast.get_docstring(c) or ""
    if attributes:
        yield "\n".join(wrapped(line) for line in attributes)
    for f in functions:
        yield f"#### {c.name}.{f.name}"
        yield code(signature(f, True))
        yield ast.get_docstring(f) or ""


def wrapped(text: str) -> str:
    """Returns a list item in lines of at most WIDTH columns."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= WIDTH:
            lines.append(" ")
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def definition_text(name: str, statement: ast.stmt, doc: str) -> Iterator[str]:
    yield f"### {name}"
    if isinstance(statement, ast.ClassDef):
        yield from class_text(statement)
    elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield code(signature(statement, False))
        yield ast.get_docstring(statement) or ""
    else:
        yield code(ast.unparse(statement))
        yield doc


def reference() -> str:
    """Returns the text of REFERENCE.md."""
    found: dict[str, Definition] = {}
    for path in sorted(PACKAGE.glob("*.py")):
        if path.stem not in ("pandas", "__init__", "_threads", "_files"):
            found.update(definitions(path))
    parts = [
        "# Reference of the Python client",
        "`scripts/reference.py` generates this page from the docstrings.\n[README.md](README.md) is an"
        " introduction.",
    ]
    for title, names in GROUPS:
        parts.append(f"## {title}")
        for name in names:
            parts += definition_text(name, *found[name])
    parts += ["## Module rueda.pandas", inspect.cleandoc(module_text(PACKAGE / "pandas.py"))]
    frames = definitions(PACKAGE / "pandas.py")
    for name in PANDAS:
        parts += definition_text(f"pandas.{name}", *frames[name])
    return "\n\n".join(part for part in parts if part) + "\n"


def module_text(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


if __name__ == "__main__":
    print(reference(), end="")
