"""Tables in LaTeX: they compile, and no name is markup."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.evaluate.report.figures import drawn
from pipeline.evaluate.report.text import latex, to_latex
from pipeline.evaluate.report.views import LOSSY_CLEAN, PARTIAL
from tests.conftest import UNDER_CI
from tests.factories.documents import (
    HOSTILE,
    MANY,
    MODELS,
    by_model_table,
    curves,
    error_table,
    hostile_document,
    key_table,
)

TABLES = {
    "key figures": key_table(MODELS),
    "many models": key_table(MANY),
    "two columns per model": error_table(MODELS),
    "many columns": error_table(MANY),
    "rows of models": by_model_table(MANY),
    "hostile": hostile_document().tables[0],
    "empty": replace(key_table(MODELS), rows=[]),
}
ARTICLE = r"""\documentclass[twocolumn]{article}
\usepackage{booktabs,graphicx}
\usepackage[margin=0.75in]{geometry}
\begin{document}
%s
\begin{figure}\includegraphics{figure.pdf}\caption{A figure.}\end{figure}
\end{document}
"""


def checked(text: str) -> list[list[list[str]]]:
    """Return the cells of each tabular. Fail unless braces and environments match and every row fills the columns."""
    visible = re.sub(r"(?m)^%.*\n", "", text)
    depth = 0
    for brace in re.findall(r"\\.|[{}]", visible):
        depth += {"{": 1, "}": -1}.get(brace, 0)
        assert depth >= 0
    assert depth == 0
    opened: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{([^}]*)\}", visible):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened
    assert visible.isascii()
    tabulars = []
    for columns, body in re.findall(
        r"\\begin\{tabular\}\{@\{\}([lr]+)@\{\}\}\n(.*?)\\end\{tabular\}", visible, re.DOTALL
    ):
        rows = [line.removesuffix(r" \\") for line in body.splitlines() if line.endswith(r" \\")]
        cells = [re.split(r"(?<!\\)&", row) for row in rows]
        for row in cells:
            assert sum(int((re.findall(r"\\multicolumn\{(\d+)\}", cell) or ["1"])[0]) for cell in row) == len(columns)
        tabulars.append([[cell.strip() for cell in row] for row in cells])
    return tabulars


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("intervals", [True, False])
def test_every_environment_is_complete(name: str, intervals: bool) -> None:
    text = to_latex(TABLES[name], label="tab:x", intervals=intervals)
    assert checked(text)
    assert text == to_latex(TABLES[name], label="tab:x", intervals=intervals)


def test_values_marks_and_headings() -> None:
    text = to_latex(key_table(MODELS), label="tab:key figures", comment=["versions: a\n\\end{x} é"])
    assert text.startswith("% versions: a \\end{x} \\xe9\n\\begin{table*}[t]")
    assert r"\caption{ImageNet-C: key figures. 50,000 images, seed 0. CE is normalised.}" in text
    assert r"\label{tab:key-figures}" in text
    ((head, first, robustness, *_),) = checked(text)
    assert head == ["metric", *MODELS]
    assert first[:3] == [
        "mCE",
        r"\textbf{70.0}~{\scriptsize {[}69.6, 70.4{]}}~{\scriptsize \#1}",
        r"72.0~{\scriptsize {[}71.6, 72.4{]}}~{\scriptsize \#2}$^{*}$",
    ]
    assert robustness[1] == r"$-$20.0~{\scriptsize {[}$-$20.4, $-$19.6{]}}$^{\ddagger}$"
    below = text[text.index(r"\parbox") :]
    assert below.count("$^{*}$") == below.count(r"$^{\ddagger}$") == 1
    assert "EfficientNet-Lite1: mCE over 14 of 15 corruptions." in below


def test_models_are_above_their_columns_and_first_cells_are_not_repeated() -> None:
    text = to_latex(error_table(MODELS), label="x")
    assert rf"\multicolumn{{2}}{{c}}{{{MODELS[0]}}}" in text
    assert r"\cmidrule(lr){2-3} \cmidrule(lr){4-5} \cmidrule(lr){6-7}" in text
    assert r"pixelate$^{\dagger}$ &" in text
    (tabular,) = checked(to_latex(by_model_table(MODELS), label="x"))
    assert [row[:2] for row in tabular[1:4]] == [[r"gaussian\_noise", MODELS[0]], ["", MODELS[1]], ["", MODELS[2]]]


def test_wide_tables_continue_below() -> None:
    narrow = replace(key_table(MODELS[:2]), rows=key_table(MODELS[:2]).rows[:2])
    assert r"\begin{table}" in to_latex(narrow, label="x", intervals=False)
    assert r"\begin{table*}" in to_latex(narrow, label="x", intervals=True)
    text = to_latex(error_table(MANY), label="x")
    first, second = checked(text)
    assert text.count(r"\begin{table*}") == text.count(r"\label") == 1
    assert [row[0] for row in first[2:]] == [row[0] for row in second[2:]]
    assert len(re.findall(r"\\label", to_latex(by_model_table(MANY), label="x"))) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\$%#&_{}~^", r"\textbackslash{}\$\%\#\&\_\{\}\textasciitilde{}\textasciicircum{}"),
        ("[a] *b* --", "{[}a{]} {*}b{*} -{}-"),
        ("L∞ ε ±0.5 \u00d7 — é ñ ç", r"L$\infty$ $\epsilon$ $\pm$0.5 $\times$ {---} \'{e} \~{n} \c{c}"),
        ("模ﬁ\n\x00", r"{[}U+6A21{]}fi \textbackslash{}x00"),
    ],
)
def test_markup_is_escaped(text: str, expected: str) -> None:
    assert latex(text) == expected


def test_marks_have_an_explanation_without_a_note() -> None:
    text = to_latex(replace(key_table(MODELS), note=""), label="x")
    for mark, meaning in ((PARTIAL, "Mean over a part"), (LOSSY_CLEAN, "compressed with loss")):
        assert text.count(meaning) == 1, mark


def test_tables_and_figures_compile(tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        message = "pdflatex is not on the PATH; Debian: apt-get install texlive-latex-recommended"
        pytest.fail(message) if UNDER_CI else pytest.skip(message)
    tables = [to_latex(table, label=f"tab:{HOSTILE}{name}", comment=[HOSTILE]) for name, table in TABLES.items()]
    (tmp_path / "article.tex").write_text(ARTICLE % "\n".join(tables), encoding="utf-8")
    (tmp_path / "figure.pdf").write_bytes(drawn(curves(MODELS, ["mean"]), MODELS)["pdf"])
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "article.tex"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Output written on article.pdf" in done.stdout
    wide = [float(each) for each in re.findall(r"Overfull \\hbox \(([\d.]+)pt", done.stdout)]
    assert len(wide) <= 1  # only the hostile table, whose words do not break
