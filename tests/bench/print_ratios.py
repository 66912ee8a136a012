"""Prints JSON lines of step figures as a table with ratios to the first.

  print_ratios.py FILE
"""
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    first = rows[0]
    print(f"batch {first['batch']}, {first['threads']} threads, "
          f"{first.get('blas', '')}")
    print(f"{'method':<18}{'step s':>9}{'forward':>9}{'backward':>9}"
          f"{'update':>9}{'predicted':>11}{'MiB':>9}{'faster':>9}"
          f"{'smaller':>9}")
    for row in rows:
        faster = first["step_seconds"] / row["step_seconds"]
        smaller = first["peak_rss_bytes"] / row["peak_rss_bytes"]
        # PyTorch's step is predicted by nobody.
        predicted = row.get("predicted_step_seconds")
        predicted = f"{predicted:.3f}" if predicted else "-"
        print(f"{row['method']:<18}{row['step_seconds']:>9.3f}"
              f"{row['forward_seconds']:>9.3f}{row['backward_seconds']:>9.3f}"
              f"{row['optimizer_seconds']:>9.3f}{predicted:>11}"
              f"{row['peak_rss_bytes'] / 2**20:>9.0f}"
              f"{faster:>8.1f}x{smaller:>8.1f}x")


if __name__ == "__main__":
    main()
