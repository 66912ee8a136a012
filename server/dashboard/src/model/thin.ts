// Thinning of a series to what a plot can show.

/** First index whose value is not below `value`; `xs` ascends. */
export function lowerBound(
  xs: ArrayLike<number>,
  value: number,
  length = xs.length,
): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((xs[middle] as number) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Indices into [from, to) that keep the first and last point and, of each of
 * about `buckets` equal parts between, the smallest and the largest value, so
 * that no spike is lost. Values that are not finite are left out.
 */
export function thin(
  values: ArrayLike<number>,
  from: number,
  to: number,
  buckets: number,
): number[] {
  const length = to - from;
  const kept: number[] = [];
  if (length <= 0) return kept;
  if (length <= 2 * buckets + 2) {
    for (let i = from; i < to; ++i)
      if (Number.isFinite(values[i])) kept.push(i);
    return kept;
  }
  if (Number.isFinite(values[from])) kept.push(from);
  const inner = length - 2;
  for (let bucket = 0; bucket < buckets; ++bucket) {
    const begin = from + 1 + Math.floor((bucket * inner) / buckets);
    const end = from + 1 + Math.floor(((bucket + 1) * inner) / buckets);
    let low = -1;
    let high = -1;
    for (let i = begin; i < end; ++i) {
      const value = values[i] as number;
      if (!Number.isFinite(value)) continue;
      if (low < 0 || value < (values[low] as number)) low = i;
      if (high < 0 || value > (values[high] as number)) high = i;
    }
    if (low < 0) continue;
    if (low === high) kept.push(low);
    else kept.push(Math.min(low, high), Math.max(low, high));
  }
  if (Number.isFinite(values[to - 1])) kept.push(to - 1);
  return kept;
}
