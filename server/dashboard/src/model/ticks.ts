/**
 * Round values from `low` to `high`: multiples of 1, 2 or 5 times a power of
 * ten, about `most` of them. `whole`: of whole numbers only.
 */
export function roundTicks(
  low: number,
  high: number,
  most: number,
  whole = false,
): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(2, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const nice =
    [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? rough;
  const step = whole ? Math.max(1, nice) : nice;
  const ticks: number[] = [];
  // Counted in steps, because sums of steps drift.
  for (let i = Math.ceil(low / step); i * step <= high; ++i)
    ticks.push(i * step);
  return ticks;
}
