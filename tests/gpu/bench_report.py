"""The results of bench.py as Markdown.

    bench_report.py bench.json   prints it
"""
import json
import sys

ENGINES = {"COMERA": "comera", "DENSE": "ours, dense", "GALORE": "galore"}


def table(header, rows, left=1):
    """Rows of strings under `header`; the first `left` columns are words."""
    lines = ["| " + " | ".join(header) + " |",
             "|" + "---|" * left + "---:|" * (len(header) - left)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def engine(row):
    method = row["method"]
    return ENGINES.get(method, method if method.startswith("PyTorch")
                       else method.lower())


def group(row):
    return (row["model"], row["batch"], row["precision"])


def find(steps, key, method, mode=""):
    """The fastest step of a group whose method and mode begin so. Launches that
    overlap are off unless a user asks for them, and do not count."""
    found = [row for row in steps if group(row) == key
             and row["method"].startswith(method)
             and "overlapped" not in row.get("mode", "")
             and row.get("mode", "eager").startswith(mode)]
    return min(found, key=lambda row: row["step_seconds"], default=None)


def ratio(over, row, field="step_seconds"):
    if over is None or row is None or not row.get(field):
        return ""
    return f"{over.get(field, 0) / row[field]:.2f}x"


def step_table(steps):
    rows = []
    order = {"BF16": 0, "TF32": 1, "FP32": 2}
    keys = sorted({group(row) for row in steps},
                  key=lambda k: (k[0] != "six_encoder", k[0], k[1],
                                 order.get(k[2], 3)))
    for key in keys:
        eager = find(steps, key, "PyTorch", "eager")
        compiled = find(steps, key, "PyTorch", "compile")
        for row in sorted((r for r in steps if group(r) == key),
                          key=lambda r: -r["step_seconds"]):
            memory = row.get("peak_device_bytes", 0)
            rows.append([
                key[0], str(key[1]), key[2].lower(), engine(row),
                row.get("mode", "eager"), f"{1e3 * row['step_seconds']:.3f}",
                f"{row.get('tokens_per_second', 0):,.0f}",
                f"{memory / 2**20:,.0f}" if memory else "",
                ratio(eager, row), ratio(compiled, row),
                ratio(eager, row, "peak_device_bytes")])
    return table(["model", "batch", "precision", "engine", "mode", "step ms",
                  "tokens/s", "device MiB", "faster than eager",
                  "than compile", "smaller than eager"], rows, left=5)


def target_table(steps):
    """DESIGN.md section 8, the H200 rows."""
    rows = []

    def add(what, asked, over, row, field="step_seconds"):
        measured = ratio(over, row, field)
        verdict = "not measured"
        if measured:
            verdict = "met" if float(measured[:-1]) >= asked else "missed"
        rows.append([what, f"{asked}x", measured, verdict])

    for batch in (32, 64, 128):
        key = ("six_encoder", batch, "BF16")
        ours = find(steps, key, "COMERA")
        add(f"batch {batch}, against PyTorch dense eager", 3,
            find(steps, key, "PyTorch", "eager"), ours)
        add(f"batch {batch}, against `torch.compile`", 1.5,
            find(steps, key, "PyTorch", "compile"), ours)
    key = ("six_encoder", 1, "BF16")
    add("batch 1, against GaLore", 3, find(steps, key, "GALORE"),
        find(steps, key, "COMERA"))
    add("batch 1, memory against GaLore", 9, find(steps, key, "GALORE"),
        find(steps, key, "COMERA"), "peak_device_bytes")
    return table(["six-encoder, bf16", "asked", "measured", ""], rows)


def kernel_table(kernels, ceilings):
    rows = []
    copy = ceilings.get("copy_bytes_per_second", 0)
    peaks = ceilings.get("flops", {})

    def share(value, ceiling):
        return f"{100 * value / ceiling:.0f}%" if value and ceiling else ""

    for each in kernels:
        flops = 1e9 * each.get("GFLOP/s", 0)
        moved = 1e9 * each.get("GB/s", 0)
        micros = each.get("real_time", 0) * {
            "ns": 1e-3, "us": 1, "ms": 1e3}.get(each.get("time_unit"), 1e-3)
        if each.get("error_occurred"):
            rows.append([each["name"], each["precision"],
                         each.get("error_message", "error"), "", "", "", ""])
            continue
        rows.append([
            each["name"].replace("/real_time", "").replace("BM_", ""),
            each["precision"], f"{micros:,.1f}",
            f"{1e-12 * flops:.2f}" if flops else "",
            share(flops, peaks.get(each["precision"])),
            f"{1e-12 * moved:.2f}" if moved else "", share(moved, copy)])
    return table(["kernel", "precision", "µs", "TFLOP/s", "of the ceiling",
                  "TB/s", "of the ceiling"], rows, left=2)


def operation_table(row):
    """The slowest operations of a step, each timed by itself, and the sum."""
    def cells(name, calls, seconds, predicted):
        return [name, f"{calls:,}", f"{1e3 * seconds:.2f}",
                f"{1e3 * predicted:.2f}" if predicted else ""]

    rows = [cells(each["name"], each["calls"], each["seconds"],
                  each.get("predicted_seconds"))
            for each in row["operations"][:12]]
    return table([f"{row['model']}, batch {row['batch']}, "
                  f"{row['precision'].lower()}", "calls", "ms",
                  "predicted ms"], rows)


def markdown(results):
    """The whole report."""
    ceilings = results["ceilings"]
    parts = [f"# GPU benchmarks, {results['started']}\n"]
    if ceilings:
        flops = ceilings["flops"]
        parts.append(
            f"{ceilings['device']}, {ceilings['multiprocessors']} "
            f"multiprocessors, {ceilings['memory_bytes'] / 2**30:.0f} GiB. "
            f"Ceilings measured in this run: copies within device memory "
            f"{1e-12 * ceilings['copy_bytes_per_second']:.2f} TB/s read and "
            f"written; products of 8192 x 8192 by cuBLAS " +
            ", ".join(f"{name} {1e-12 * value:.0f}"
                      for name, value in flops.items()) + " TFLOP/s.\n")
    steps = results["steps"]
    if steps:
        parts.append("## Training steps\n\nMedians of 20 steps after warm-up, "
                     "all sequences full, length 128, clipping and AdamW "
                     "included. Memory is what the engine or PyTorch's "
                     "allocator took, without the driver's context. \"Faster\" "
                     "and \"smaller\" compare with PyTorch in the same "
                     "precision.\n")
        parts.append(step_table(steps))
        parts.append("## Targets\n")
        parts.append(target_table(steps))
    for row in results.get("operations", []):
        parts.append("## Operations of a step\n\nThe device is idle before and "
                     "after each, which adds some 10 µs to a call.\n")
        parts.append(operation_table(row))
    if results["kernels"]:
        parts.append("## Kernels\n\nReplayed from graphs, on one set of "
                     "buffers: what fits into the device's cache may pass the "
                     "copy ceiling.\n")
        parts.append(kernel_table(results["kernels"], ceilings))
    if results["missing"]:
        parts.append("## Not measured\n")
        parts.append(table(["what", "why"], [
            [each["name"], each["why"].replace("|", "/")]
            for each in results["missing"]], left=2))
    return "\n".join(parts)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(markdown(json.load(file)), end="")
