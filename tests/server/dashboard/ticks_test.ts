import { describe, expect, it } from 'vitest';
import { askedTargets } from '../../../server/dashboard/src/model/targets';
import { roundTicks } from '../../../server/dashboard/src/model/ticks';

describe('ticks', () => {
  it('are round and lie within the range', () => {
    expect(roundTicks(0, 2158, 6, true)).toEqual([0, 500, 1000, 1500, 2000]);
    expect(roundTicks(0.31, 0.59, 3)).toEqual([0.4, 0.5]);
    expect(roundTicks(7, 9, 20, true)).toEqual([7, 8, 9]);
    expect(roundTicks(5, 5, 4)).toEqual([5]);
  });
});

describe('targets of a job file', () => {
  it('are those whose loss and size are known beforehand', () => {
    expect(askedTargets(undefined)).toEqual([]);
    expect(
      askedTargets({
        objective: { late: { targetLoss: 2.5, targetParameters: '4000' } },
      }),
    ).toEqual([{ loss: 2.5, size: 4000 }]);
    expect(
      askedTargets({
        objective: {
          late: {
            targets: [
              { targetLoss: 2, targetBytes: '400' },
              { targetLoss: 2, targetRatio: 0.5 },
              { targetAccuracy: 0.8, targetParameters: '9' },
            ],
          },
        },
      }),
    ).toEqual([{ loss: 2, size: 100 }]);
  });
});
