"""Evidence for errata.md: printed formula, corrected formula, and an independent computation.

`python models/papers/errata.py` prints the tables of the page in a few seconds. It raises an error
if a corrected formula misses the independent value, if a printed formula matches it, or if the
paper's own numbers do not contradict a sentence.
"""

from evidence import butler, paananen, seitz, yoshikawa

SOURCES = {
    "Yoshikawa and Iwata": (yoshikawa.weights,),
    "Seitz": (seitz.regression, seitz.classifier),
    "Butler, Feng and Djurić": (butler.derivatives, butler.closed_forms, butler.features),
    "Paananen, Andersen and Vehtari": (paananen.divergences,),
}

CLAIMS = {"Yoshikawa and Iwata": yoshikawa.claims}


def table(authors):
    """Markdown table of one paper's cases."""
    lines = ["| equation | quantity | printed | corrected | independent | by |", "|" + "---|" * 6]
    for source in SOURCES[authors]:
        for case in source():
            numbers = (case.printed, case.corrected, case.independent)
            cells = [case.equation, case.quantity, *(f"{v:.6g}" for v in numbers), case.by]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def claims(authors):
    """Markdown table of one paper's sentences that its own numbers contradict."""
    lines = ["| place | sentence | numbers |", "|---|---|---|"]
    for claim in CLAIMS[authors]():
        lines.append(f"| {claim.place} | {claim.sentence} | {claim.numbers} |")
    return "\n".join(lines)


if __name__ == "__main__":
    for authors in SOURCES:
        print(f"\n{authors}\n\n{table(authors)}")
        if authors in CLAIMS:
            print(f"\n{claims(authors)}")
