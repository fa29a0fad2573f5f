"""Which retrieved passage does an answer rest on? A retriever, a reader, and a passage that somebody slipped in.

The reference is what the retriever ranked next: texts that might have stood in a passage's place.

python examples/retrieval.py [report.html]
"""

from __future__ import annotations

import re
import sys

from sklearn.feature_extraction.text import TfidfVectorizer

from butfor import context

FACTS = {
    "aspirin": ("cyclooxygenase", 1899), "warfarin": ("vitamin K epoxide reductase", 1954),
    "metformin": ("complex I", 1957), "digoxin": ("the sodium pump", 1930), "heparin": ("thrombin", 1935),
    "captopril": ("angiotensin converting enzyme", 1981), "omeprazole": ("the proton pump", 1989),
    "imatinib": ("BCR-ABL kinase", 2001), "simvastatin": ("HMG-CoA reductase", 1991),
    "allopurinol": ("xanthine oxidase", 1966),
}  # fmt: skip
DOCUMENTS = [
    text
    for drug, (target, year) in FACTS.items()
    for text in (
        f"{drug.capitalize()} acts by inhibiting {target}.",
        f"{drug.capitalize()} came into clinical use in {year}.",
        f"Patients on {drug} are seen at the clinic every few months.",
    )
]
QUESTION = "Warfarin acts by inhibiting what?"
POISON = f"{QUESTION} It acts by inhibiting nothing at all."
RANKS = 6  # passages that the reader gets; the next ones are foils


def retrieve(question: str, documents: list[str]) -> list[str]:
    """Return the documents, the most similar to the question first."""
    vectors = TfidfVectorizer(sublinear_tf=True).fit([*documents, question])
    score = (vectors.transform(documents) @ vectors.transform([question]).T).toarray()[:, 0]
    return [documents[k] for k in sorted(range(len(documents)), key=lambda k: -score[k])]


def read(prompts: list[str]) -> list[str]:
    """Answer each prompt from the line that shares most words with its question: an extractive reader."""
    answers = []
    for prompt in prompts:
        *lines, question, _ = prompt.split("\n")
        words = set(re.findall(r"\w+", question.lower())) - {"question"}
        best = max(lines, key=lambda line: len(words & set(re.findall(r"\w+", line.lower()))))
        told = re.search(r"inhibiting ([^.?]+)\.", best)
        answers.append(told[1] if told else "unknown")
    return answers


def main(report: str | None = None) -> tuple[context.ContextResult, context.ContextResult]:
    """Explain the answer without and with the poisoned passage."""
    results = []
    for documents in (DOCUMENTS, [*DOCUMENTS, POISON]):
        ranking = retrieve(QUESTION, documents)
        parts = {f"passage {k}": text for k, text in enumerate(ranking[:RANKS], start=1)}
        prompt = context.prompt(parts, question=QUESTION)
        results.append(context.explain(read, prompt, context.next_ranks(ranking)))
    clean, poisoned = results
    print(clean.summary(), poisoned.summary(), sep="\n\n")
    culprit = poisoned.table.subset[poisoned.table.necessary].tolist()
    for name in culprit:
        print(f"\n{name}: {poisoned.prompts[0][name]}")
    if report:
        poisoned.report(report)
    return clean, poisoned


if __name__ == "__main__":
    main(*sys.argv[1:2])
