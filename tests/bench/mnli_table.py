"""Prints the table of tests/bench/mnli.sh.

  mnli_table.py DENSE.jsonl COMERA.jsonl

Both files are what `comera run -o json` prints.
"""
import json
import sys


def events(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def row(what, metrics, dense_bytes):
    size = int(metrics["size_bytes"])
    print(f"| {what} | {size / 2**20:.2f} | {dense_bytes / size:.1f}x "
          f"| {metrics['validation_loss']:.4f} "
          f"| {100 * metrics.get('validation_accuracy', 0):.2f} |")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    dense, comera = (events(path) for path in sys.argv[1:])
    dense_end = [e["result"] for e in dense if "result" in e]
    comera_end = [e["result"] for e in comera if "result" in e]
    if not dense_end or not comera_end:
        sys.exit("a run has no result")
    dense_bytes = int(dense_end[-1]["size_bytes"])
    print("| model | size (MiB) | smaller than dense | validation loss "
          "| accuracy (%) |\n|---|---|---|---|---|")
    row("dense", dense_end[-1], dense_bytes)
    seen = [e["metrics"] for e in comera
            if "validation_loss" in e.get("metrics", {})]
    # The first validation of the late stage is that of what the early left.
    early = [m for m in seen if m.get("stage") == "LATE"]
    if not early:
        sys.exit("no validation in the late stage")
    row("early stage", early[0], dense_bytes)
    early_size = int(early[0]["size_parameters"])
    for asked in comera_end[-1].get("targets", []):
        # The accuracy stands with the validation that gave this model.
        same = [m for m in seen
                if m["size_bytes"] == asked["size_bytes"]
                and m["validation_loss"] == asked["validation_loss"]]
        share = int(asked["target_size_parameters"]) / early_size
        row(f"late, asked for {share:.2g} of the early stage's size",
            same[-1] if same else asked, dense_bytes)


if __name__ == "__main__":
    main()
