import { describe, expect, it } from 'vitest';
import {
  front,
  hypervolume,
  hypervolumeRatio,
} from '../../../server/dashboard/src/model/front';
import {
  groupKeys,
  groupRuns,
  settings,
  withEvent,
} from '../../../server/dashboard/src/model/sweep_groups';

const p = (size: number, loss: number) => ({ size, loss });

describe('front', () => {
  it('holds what nothing matches or beats in both, by size', () => {
    const points = [p(3, 1), p(1, 3), p(2, 2), p(2, 2), p(3, 3), p(2.5, 2.5)];
    expect(front(points)).toEqual([p(1, 3), p(2, 2), p(3, 1)]);
    expect(front(points)[1]).toBe(points[2]);
  });

  it('leaves out what is no number', () => {
    expect(front([p(NaN, 1), p(1, NaN), p(1, Infinity)])).toEqual([]);
  });
});

describe('hypervolume', () => {
  it('is the area below the reference', () => {
    expect(hypervolume([p(1, 1)], p(3, 4))).toBe(6);
    expect(hypervolume([p(1, 3), p(2, 2), p(3, 1)], p(4, 4))).toBe(6);
    expect(hypervolume([p(1, 3), p(3, 3.5)], p(4, 4))).toBe(3);
    expect(hypervolume([p(5, 1), p(1, 5)], p(4, 4))).toBe(0);
    expect(hypervolume([], p(4, 4))).toBe(0);
  });

  it('is told as a share too', () => {
    expect(hypervolumeRatio([p(2, 2)], p(4, 4))).toBe(0.25);
    expect(hypervolumeRatio([p(2, 2)], p(0, 0))).toBe(0);
  });
});

describe('runs of a sweep', () => {
  const sweep = {
    front: { reference: { validationLoss: 4, sizeParameters: '4' } },
    runs: [
      {
        index: 0,
        label: 'method=dense ranks=8',
        points: [{ validationLoss: 2, sizeParameters: '2' }],
      },
      {
        index: 1,
        label: 'method=comera ranks=8',
        points: [{ validationLoss: 1, sizeParameters: '1' }],
      },
    ],
  };

  it('are grouped by settings that differ', () => {
    expect(settings('method=comera, ranks=8')).toEqual([
      { key: 'method', value: 'comera' },
      { key: 'ranks', value: '8' },
    ]);
    expect(groupKeys(sweep.runs)).toEqual(['method']);
    const groups = groupRuns(sweep, 'method');
    expect(groups.map((g) => [g.name, g.hypervolumeRatio])).toEqual([
      ['dense', 0.25],
      ['comera', 9 / 16],
    ]);
    expect(groupRuns(sweep, '')).toHaveLength(1);
  });

  it('change with events', () => {
    const after = withEvent(sweep, { run: { index: 1, label: 'new' } });
    expect(after.runs?.map((run) => run.label)).toEqual([
      'method=dense ranks=8',
      'new',
    ]);
    expect(withEvent(sweep, { run: { index: 7 } }).runs).toHaveLength(3);
    expect(withEvent(sweep, { stateChange: { state: 'FAILED' } }).state).toBe(
      'FAILED',
    );
    expect(sweep.runs).toHaveLength(2);
  });
});
