"""Mutants of the mathematical wings: small wrong versions of the code, and the tests that see them.

One hundred are drawn, a fifth of them of each kind, and each runs its wing's quick tests in a copy
of the tree. What survives is either listed in `equivalent.toml`, with the sentence that proves
that no test can tell it from the original, or wants a test. `make mutants` runs them all;
`python tests/mutation/mutants.py processes/operators.py` only those of files whose names contain
an argument. Another `SEED` in the environment draws others. A mutant is drawn by the hash of where
it stands, not by counting, so that an edit leaves the others as they were.
"""

import ast
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
SEED = os.environ.get("SEED", "bayes_gpx")
PER_KIND = 20
WORKERS = 2
PATIENCE = 1800.0
"""Seconds after which the tests of a mutant count as failed: it does not come to an end."""

WINGS = {
    "numerics": ["numerics", "kernels", "likelihoods", "posteriors"],
    "kernels": ["kernels", "processes"],
    "processes": ["processes"],
    "likelihoods": ["likelihoods"],
    "posteriors": ["posteriors", "likelihoods", "model"],
    "draws": ["draws", "data", "explain"],
    "assess": ["assess", "likelihoods"],
}
"""Folders of tests that a wing's mutants run.

Numerical tools, and what kernels know of paths, are tested where they are used, and so is some of
the other wings. The first folder kills most mutants.
"""


@dataclass(frozen=True)
class Mutant:
    """One wrong version of one expression.

    Attributes
    ----------
    kind : str
    file : str
        Below `bayes_gpx`.
    place : str
        Function or class that the expression stands in, and the how-manieth of its like there.
    old, new : str
        The expression, and what takes its place.
    start, end : int
        Its place in the file's bytes.
    """

    kind: str
    file: str
    place: str
    old: str
    new: str
    start: int
    end: int

    @property
    def rank(self):
        """Pseudo-random number that orders mutants of a kind."""
        key = "|".join([SEED, self.kind, self.file, self.place, self.old, self.new])
        return hashlib.sha256(key.encode()).hexdigest()

    def __str__(self):
        return f"{self.file} {self.place}: {self.old} -> {self.new} ({self.kind})"


class _Sites(ast.NodeVisitor):
    """Every mutant of a file: expressions that compute, not annotations, messages or texts."""

    COMPARED = {"<": "<= >", "<=": "< >=", ">": ">= <", ">=": "> <=", "==": "!=", "!=": "=="}
    SYMBOLS = {
        ast.Lt: "<",
        ast.LtE: "<=",
        ast.Gt: ">",
        ast.GtE: ">=",
        ast.Eq: "==",
        ast.NotEq: "!=",
    }

    def __init__(self, file, source):
        self.file, self.source, self.found, self.seen, self.within = (
            file,
            source.encode(),
            [],
            {},
            [],
        )
        ends = [0]
        for line in self.source.splitlines(keepends=True):
            ends.append(ends[-1] + len(line))
        self.lines = ends

    def _span(self, node):
        start = self.lines[node.lineno - 1] + node.col_offset
        return start, self.lines[node.end_lineno - 1] + node.end_col_offset

    def _add(self, kind, node, new):
        start, end = self._span(node)
        old = self.source[start:end].decode()
        like = (kind, tuple(self.within), old, new)
        number = self.seen[like] = self.seen.get(like, 0) + 1
        place = ".".join(self.within) or "module"
        place = place if number == 1 else f"{place} ({number})"
        self.found.append(Mutant(kind, self.file, place, old, new, start, end))

    def _text(self, node):
        start, end = self._span(node)
        return f"({self.source[start:end].decode()})"

    def _named(self, node):
        self.within.append(node.name)
        for child in [*node.decorator_list, *node.body]:
            self.visit(child)
        if isinstance(node, ast.FunctionDef):
            for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
                self.visit(default)
        self.within.pop()

    visit_FunctionDef = visit_ClassDef = _named

    def visit_AnnAssign(self, node):
        if node.value:
            self.visit(node.value)

    def visit_Raise(self, node):
        """Messages are not mathematics."""

    def visit_JoinedStr(self, node):
        """Nor are texts."""

    def visit_BinOp(self, node):
        left, right = self._text(node.left), self._text(node.right)
        texts = [n for n in (node.left, node.right) if isinstance(getattr(n, "value", 0), str)]
        if isinstance(node.op, ast.Add | ast.Sub) and not texts:
            other = "-" if isinstance(node.op, ast.Add) else "+"
            self._add("sign", node, f"({left} {other} {right})")
            self._add("term", node, left)
            self._add("term", node, right if other == "-" else f"(-{right})")
        if isinstance(node.op, ast.Mult | ast.Div):
            other = "/" if isinstance(node.op, ast.Mult) else "*"
            self._add("factor", node, f"({left} {other} {right})")
            self._add("factor", node, left)
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self._add("sign", node, self._text(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node):
        if type(node.value) in (int, float):
            for new in dict.fromkeys((2 * node.value or 1, node.value + 1)):
                self._add("factor", node, repr(new))

    def visit_Subscript(self, node):
        index = node.slice
        negative = isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub)
        number = index.operand if negative else index
        if isinstance(number, ast.Constant) and type(number.value) is int:
            value = -number.value if negative else number.value
            self._add("index", index, repr(value - 1 if negative else value + 1))
            self.visit(node.value)
        else:
            self.generic_visit(node)

    def visit_Slice(self, node):
        for bound in filter(None, (node.lower, node.upper, node.step)):
            negative = isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub)
            number = bound.operand if negative else bound
            if isinstance(number, ast.Constant) and type(number.value) is int:
                value = -number.value if negative else number.value
                self._add("index", bound, repr(value + 1))
            else:
                self.visit(bound)

    def visit_Compare(self, node):
        symbol = self.SYMBOLS.get(type(node.ops[0])) if len(node.ops) == 1 else None
        for other in self.COMPARED[symbol].split() if symbol else []:
            left, right = self._text(node.left), self._text(node.comparators[0])
            self._add("comparison", node, f"({left} {other} {right})")
        self.generic_visit(node)


def drawn():
    """The hundred mutants: of each kind the first by rank."""
    package = ROOT / "bayes_gpx"
    found = []
    for path in sorted(path for wing in WINGS for path in (package / wing).glob("**/*.py")):
        sites = _Sites(str(path.relative_to(package)), path.read_text())
        sites.visit(ast.parse(path.read_text()))
        found += sites.found
    kinds = sorted({mutant.kind for mutant in found})
    return [
        mutant
        for kind in kinds
        for mutant in sorted((m for m in found if m.kind == kind), key=lambda m: m.rank)[:PER_KIND]
    ]


def _copy(to):
    """The tree without what is built from it."""
    for name in (
        "bayes_gpx",
        "tests",
        "benchmarks",
        "models",
        "docs",
        "pyproject.toml",
        "README.md",
    ):
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "_build", "generated")
            shutil.copytree(source, to / name, ignore=ignored)
        else:
            shutil.copy(source, to / name)
    return to


def _order(tests, mutant):
    """Folders of tests, before them the files that bear the mutated file's name."""
    stem = Path(mutant.file).stem.strip("_")
    named = [p for folder in tests for p in sorted(folder.glob(f"test_*{stem}*.py"))]
    return list(dict.fromkeys([*named, *tests]))


def verdict(mutant, tree):
    """What the wing's quick tests say of a mutant: the test that fails, or None.

    Parameters
    ----------
    mutant : Mutant
    tree : Path
        A copy of the project, put back as it was.
    """
    path = tree / "bayes_gpx" / mutant.file
    original = path.read_bytes()
    new = mutant.new.encode()
    path.write_bytes(original[: mutant.start] + new + original[mutant.end :])
    tests = [tree / "tests" / folder for folder in WINGS[Path(mutant.file).parts[0]]]
    names = [str(path.relative_to(tree)) for path in _order(tests, mutant)]
    slow = "not slow" + ("" if os.environ.get("BAYES_GPX_DATA") else " and not data")
    options = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-m", slow]
    own = {
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",  # one second's edits of one length share a stamp
        "NUMBA_CACHE_DIR": str(tree / "numba"),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", *options, *names]
    running = subprocess.Popen(
        command,
        cwd=tree,
        env=os.environ | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = running.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        output = "FAILED no end\n"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        path.write_bytes(original)
    if running.returncode == 0:
        return None
    failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed else output.splitlines()[-1]


def proven():
    """Sentences that prove mutants equivalent, by the mutants' names."""
    return {
        entry["mutant"]: entry["why"] for entry in tomllib.loads(EQUIVALENT.read_text())["proven"]
    }


def main(wanted):
    """Run the mutants of the files asked for; return how many survive without a proof."""
    mutants = [m for m in drawn() if not wanted or any(part in m.file for part in wanted)]
    known, trees, survivors = proven(), Queue(), []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        for number in range(WORKERS):
            trees.put(_copy(Path(folder) / str(number)))

        def run(mutant):
            tree = trees.get()
            try:
                return mutant, verdict(mutant, tree)
            finally:
                trees.put(tree)

        todo = [mutant for mutant in mutants if str(mutant) not in known]
        for mutant, killer in pool.map(run, todo):
            print(f"{'survives' if killer is None else 'killed':9} {mutant}", flush=True)
            if killer is None:
                survivors.append(mutant)
            else:
                print(f"{'':9} by {killer}", flush=True)
    for mutant in mutants:
        if str(mutant) in known:
            print(f"proven    {mutant}\n{'':9} {known[str(mutant)]}")
    killed = len(todo) - len(survivors)
    print(
        f"{killed} killed, {len(mutants) - len(todo)} proven equivalent, {len(survivors)} survive"
    )
    return len(survivors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
