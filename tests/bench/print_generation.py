"""Prints JSON lines of generation figures as a table, a part for each number of
texts at once, with ratios to the part's first line.

  print_generation.py FILE
"""
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for batch in sorted({row["batch"] for row in rows}):
        part = [row for row in rows if row["batch"] == batch]
        first = part[0]
        print(f"texts at once: {batch}; prompts of {first['prompt_tokens']} "
              f"tokens, {first['generated_tokens']} more; "
              f"{first['threads']} threads")
        print(f"{'method':<18}{'parameters':>12}{'prompts s':>11}"
              f"{'tokens/s':>10}{'faster':>9}")
        for row in part:
            faster = row["tokens_per_second"] / first["tokens_per_second"]
            print(f"{row['method']:<18}{row['parameters'] / 1e6:>10.1f} M"
                  f"{row['prompt_seconds']:>11.3f}"
                  f"{row['tokens_per_second']:>10.1f}{faster:>8.2f}x")


if __name__ == "__main__":
    main()
