import { describe, expect, it } from 'vitest';
import { lowerBound, thin } from '../../../server/dashboard/src/model/thin';
import {
  align,
  Series,
  SeriesStore,
} from '../../../server/dashboard/src/model/series_store';

describe('thin', () => {
  it('keeps everything that fits', () => {
    expect(thin([1, 2, 3, 4], 0, 4, 10)).toEqual([0, 1, 2, 3]);
    expect(thin([], 0, 0, 10)).toEqual([]);
  });

  it('keeps the ends and every spike, in order', () => {
    const values = Array.from({ length: 100000 }, (_, i) => i % 7);
    values[54321] = 1000;
    values[12345] = -1000;
    const kept = thin(values, 0, values.length, 100);
    expect(kept.length).toBeLessThanOrEqual(202);
    expect(kept[0]).toBe(0);
    expect(kept[kept.length - 1]).toBe(values.length - 1);
    expect(kept).toContain(54321);
    expect(kept).toContain(12345);
    expect([...kept].sort((a, b) => a - b)).toEqual(kept);
  });

  it('leaves out what is not finite', () => {
    const values = [NaN, 1, Infinity, 2];
    expect(thin(values, 0, 4, 10)).toEqual([1, 3]);
    const long = Array.from({ length: 1000 }, () => NaN);
    expect(thin(long, 0, 1000, 10)).toEqual([]);
  });

  it('finds bounds', () => {
    expect(lowerBound([1, 3, 5], 3)).toBe(1);
    expect(lowerBound([1, 3, 5], 4)).toBe(2);
    expect(lowerBound([1, 3, 5], 9)).toBe(3);
    expect(lowerBound([1, 3, 5], 0)).toBe(0);
  });
});

describe('Series', () => {
  it('replaces what an attempt repeats after its checkpoint', () => {
    const series = new Series();
    for (let step = 1; step <= 500; ++step) series.append(step, step);
    series.append(301, -1);
    expect(series.length).toBe(301);
    expect(series.value(299)).toBe(300);
    expect(series.last()).toEqual({ step: 301, value: -1 });
  });

  it('shows a part with one point beyond either end', () => {
    const series = new Series();
    for (let step = 0; step <= 100; step += 10) series.append(step, step);
    expect(series.view(25, 55, 100).steps).toEqual([20, 30, 40, 50, 60]);
    expect(series.view(-5, 1000, 100).steps).toHaveLength(11);
    expect(series.view(200, 300, 100).steps).toEqual([100]);
    expect(new Series().view(0, 1, 10).steps).toEqual([]);
  });

  it('draws a million points as a few thousand, spikes included', () => {
    const series = new Series();
    for (let step = 0; step < 1e6; ++step) {
      series.append(step, step === 777777 ? 99 : Math.sin(step));
    }
    const view = series.view(0, 1e6, 800);
    expect(view.steps.length).toBeLessThanOrEqual(1602);
    expect(Math.max(...view.values)).toBe(99);
    // Closer up every point is there.
    expect(series.view(777700, 777800, 800).steps.length).toBe(103);
  });

  it('is bounded, however long the page is open', () => {
    const series = new Series();
    const steps = 1.2e6;
    for (let step = 0; step < steps; ++step) {
      series.append(step, step === 777777 ? 99 : step % 7);
    }
    expect(series.length).toBeLessThan(1 << 20);
    expect(series.first()?.step).toBe(0);
    expect(series.last()?.step).toBe(steps - 1);
    expect(Math.max(...series.view(0, steps, 800).values)).toBe(99);
  });
});

describe('SeriesStore', () => {
  it('knows its range and its version', () => {
    const store = new SeriesStore();
    expect(store.range()).toEqual([0, 1]);
    store.append('loss', 5, 1);
    store.append('size', 9, 1);
    expect(store.range()).toEqual([5, 9]);
    expect(store.version).toBe(2);
    expect(store.points()).toBe(2);
  });
});

describe('align', () => {
  it('puts columns on one axis, with gaps', () => {
    expect(
      align([
        { steps: [1, 2, 4], values: [10, 20, 40] },
        { steps: [2, 3], values: [5, 6] },
      ]),
    ).toEqual([
      [1, 2, 3, 4],
      [10, 20, null, 40],
      [null, 5, 6, null],
    ]);
    expect(align([])).toEqual([[]]);
  });
});
