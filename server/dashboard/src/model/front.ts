// Pareto fronts of validation loss against size; less is better in both.

export interface Point {
  loss: number;
  size: number;
}

/**
 * The points that no other one matches or beats in both, by ascending size.
 * The first of equal points stays; points that are not finite are left out.
 */
export function front<P extends Point>(points: readonly P[]): P[] {
  const usable = points.filter(
    (p) => Number.isFinite(p.loss) && Number.isFinite(p.size),
  );
  const order = usable.map((point, index) => ({ point, index }));
  order.sort(
    (a, b) =>
      a.point.size - b.point.size ||
      a.point.loss - b.point.loss ||
      a.index - b.index,
  );
  const result: P[] = [];
  let best = Infinity;
  for (const { point } of order) {
    if (point.loss < best) {
      result.push(point);
      best = point.loss;
    }
  }
  return result;
}

/** Area that the points dominate below `reference`; exact. */
export function hypervolume(
  points: readonly Point[],
  reference: Point,
): number {
  const inside = front(
    points.filter((p) => p.loss < reference.loss && p.size < reference.size),
  );
  let area = 0;
  inside.forEach((point, index) => {
    const next = inside[index + 1];
    const right = next ? next.size : reference.size;
    area += (right - point.size) * (reference.loss - point.loss);
  });
  return area;
}

/** The same as a share of the reference's rectangle. */
export function hypervolumeRatio(
  points: readonly Point[],
  reference: Point,
): number {
  const whole = reference.loss * reference.size;
  return whole > 0 ? hypervolume(points, reference) / whole : 0;
}
