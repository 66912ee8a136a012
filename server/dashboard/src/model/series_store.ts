import { lowerBound, thin } from './thin';

/** Points of a series that are kept; of more about half stay, spikes included. */
const MOST = 1 << 20;

/** One metric over steps: columns that grow, ascending in step. */
export class Series {
  private steps = new Float64Array(256);
  private values = new Float64Array(256);
  private size = 0;

  get length(): number {
    return this.size;
  }

  step(index: number): number {
    return this.steps[index] as number;
  }

  value(index: number): number {
    return this.values[index] as number;
  }

  last(): { step: number; value: number } | null {
    return this.size === 0
      ? null
      : { step: this.step(this.size - 1), value: this.value(this.size - 1) };
  }

  first(): { step: number; value: number } | null {
    return this.size === 0
      ? null
      : { step: this.step(0), value: this.value(0) };
  }

  /**
   * A point at the end. An attempt that resumed from a checkpoint repeats steps:
   * what was known from its step on is then replaced by what really counts.
   */
  append(step: number, value: number): void {
    if (this.size > 0 && step <= this.step(this.size - 1)) {
      this.size = lowerBound(this.steps, step, this.size);
    }
    if (this.size === this.steps.length) this.grow();
    this.steps[this.size] = step;
    this.values[this.size] = value;
    ++this.size;
  }

  replace(steps: ArrayLike<number>, values: ArrayLike<number>): void {
    this.size = 0;
    for (let i = 0; i < steps.length; ++i)
      this.append(steps[i] as number, values[i] as number);
  }

  /** The points with from <= step <= to and one beyond either end, thinned. */
  view(
    from: number,
    to: number,
    buckets: number,
  ): { steps: number[]; values: number[] } {
    const begin = Math.max(0, lowerBound(this.steps, from, this.size) - 1);
    let end = lowerBound(this.steps, to, this.size);
    while (end < this.size && this.step(end) <= to) ++end;
    end = Math.min(this.size, end + 1);
    const kept = thin(this.values, begin, end, buckets);
    return {
      steps: kept.map((i) => this.step(i)),
      values: kept.map((i) => this.value(i)),
    };
  }

  private grow(): void {
    if (this.size >= MOST) {
      const kept = thin(this.values, 0, this.size, MOST / 4);
      kept.forEach((from, to) => {
        this.steps[to] = this.steps[from] as number;
        this.values[to] = this.values[from] as number;
      });
      this.size = kept.length;
      return;
    }
    const steps = new Float64Array(this.steps.length * 2);
    const values = new Float64Array(this.values.length * 2);
    steps.set(this.steps);
    values.set(this.values);
    this.steps = steps;
    this.values = values;
  }
}

/** All series of one job by name (fields of StepMetrics in lowerCamelCase). */
export class SeriesStore {
  private readonly series = new Map<string, Series>();
  /** Rises with every change. */
  version = 0;

  get(metric: string): Series {
    let series = this.series.get(metric);
    if (!series) {
      series = new Series();
      this.series.set(metric, series);
    }
    return series;
  }

  append(metric: string, step: number, value: number): void {
    this.get(metric).append(step, value);
    ++this.version;
  }

  replace(
    metric: string,
    steps: ArrayLike<number>,
    values: ArrayLike<number>,
  ): void {
    this.get(metric).replace(steps, values);
    ++this.version;
  }

  /** Smallest and largest step of all series. */
  range(): [number, number] {
    let low = Infinity;
    let high = -Infinity;
    for (const series of this.series.values()) {
      if (series.length === 0) continue;
      low = Math.min(low, series.step(0));
      high = Math.max(high, series.step(series.length - 1));
    }
    return low <= high ? [low, high] : [0, 1];
  }

  points(): number {
    let total = 0;
    for (const series of this.series.values()) total += series.length;
    return total;
  }
}

/** Several series on one axis of steps, as uPlot takes them; gaps are null. */
export function align(
  views: { steps: number[]; values: number[] }[],
): [number[], ...(number | null)[][]] {
  const all = new Set<number>();
  for (const view of views) for (const step of view.steps) all.add(step);
  const steps = [...all].sort((a, b) => a - b);
  const place = new Map<number, number>();
  steps.forEach((step, index) => place.set(step, index));
  const columns = views.map((view) => {
    const column: (number | null)[] = new Array<number | null>(
      steps.length,
    ).fill(null);
    view.steps.forEach((step, index) => {
      column[place.get(step) as number] = view.values[index] as number;
    });
    return column;
  });
  return [steps, ...columns];
}
