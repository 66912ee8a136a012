#!/usr/bin/python3
"""Makes tour.ipynb from tour.py: `# %%` begins a cell, `# %% [markdown]` one of
text.

    make_notebook.py [--output FILE]
"""

import argparse
import json
from pathlib import Path

HERE = Path(__file__).resolve().parent


def cells(source):
    """(is_text, lines) of each cell, without empty lines around them."""
    found = []
    for line in source.split("\n"):
        if line.startswith("# %%"):
            found.append(("[markdown]" in line, []))
        elif found:
            found[-1][1].append(line)
    for is_text, lines in found:
        if is_text:
            lines = [line[2:] if line.startswith("# ") else line[1:] for line in lines]
        while lines and not lines[0]:
            lines = lines[1:]
        while lines and not lines[-1]:
            lines = lines[:-1]
        yield is_text, lines


def notebook(source):
    """A document of nbformat 4.5."""
    made = []
    for number, (is_text, lines) in enumerate(cells(source)):
        text = [line + "\n" for line in lines[:-1]] + lines[-1:]
        cell = {
            "cell_type": "markdown" if is_text else "code",
            "id": f"cell-{number}",
            "metadata": {},
            "source": text,
        }
        if not is_text:
            cell.update(execution_count=None, outputs=[])
        made.append(cell)
    return {
        "cells": made,
        "metadata": {
            "kernelspec": {
                "display_name": "Python 3", "language": "python", "name": "python3",
            },
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default=HERE / "tour.ipynb")
    args = parser.parse_args()
    source = (HERE / "tour.py").read_text(encoding="utf-8")
    text = json.dumps(notebook(source), indent=1, ensure_ascii=False) + "\n"
    Path(args.output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
