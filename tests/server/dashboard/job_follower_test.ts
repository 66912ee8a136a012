import { describe, expect, it } from 'vitest';
import {
  JobFollower,
} from '../../../server/dashboard/src/model/job_follower';
import { classRanks, heatMap } from '../../../server/dashboard/src/model/heat';
import {
  decodeBytes,
  LogText,
  plain,
} from '../../../server/dashboard/src/model/log_text';
import {
  allowed,
  failureText,
  progressShare,
  stateWord,
  tone,
} from '../../../server/dashboard/src/model/job_state';
import { parseRoute, address } from '../../../server/dashboard/src/model/route';

function followed() {
  const follower = new JobFollower();
  follower.setJob({ name: 'jobs/x', state: 'RUNNING' });
  follower.setSeries({
    series: [
      {
        metric: 'validation_loss',
        steps: ['10', '20', '30'],
        // Protobuf's JSON writes NaN as text; /openapi.json calls it a number.
        values: [5, 'NaN' as unknown as number, 4],
      },
    ],
    lastSequence: '12',
  });
  return follower;
}

describe('JobFollower', () => {
  it('goes on where the series ended, each event once', () => {
    const follower = followed();
    const event = {
      sequence: '13',
      metrics: {
        step: '40',
        totalSteps: '100',
        loss: 4.5,
        smoothedLoss: 4.6,
        validationLoss: 3.9,
        sizeParameters: '1000',
      },
    };
    expect(follower.addEvent({ sequence: '12', metrics: { step: '99' } })).toBe(
      false,
    );
    follower.addEvent(event);
    follower.addEvent(event);
    const series = follower.store.get('validationLoss');
    expect(series.length).toBe(3);
    expect(series.last()).toEqual({ step: 40, value: 3.9 });
    expect(follower.job?.progress).toMatchObject({
      step: '40',
      totalSteps: '100',
      loss: 4.6,
      validationLoss: 3.9,
      hasValidationLoss: true,
    });
    expect(follower.lastSequence).toBe(13);
  });

  it('a finer answer keeps what has come since', () => {
    const follower = followed();
    follower.addEvent({
      sequence: '13',
      metrics: { step: '40', validationLoss: 3.9 },
    });
    follower.setSeries({
      series: [
        {
          metric: 'validation_loss',
          steps: ['10', '15', '30'],
          values: [5, 4.5, 4],
        },
      ],
      lastSequence: '12',
    });
    const series = follower.store.get('validationLoss');
    expect(series.length).toBe(4);
    expect(series.last()?.step).toBe(40);
    expect(follower.lastSequence).toBe(13);
  });

  it('changes the job with its state, and asks for the record', () => {
    const follower = followed();
    const changed = follower.addEvent({
      sequence: '14',
      time: '2026-01-01T00:00:00Z',
      stateChange: {
        state: 'SUCCEEDED',
        outcome: 'TARGET_MET',
        reason: 'both',
      },
    });
    expect(changed).toBe(true);
    expect(follower.job).toMatchObject({
      state: 'SUCCEEDED',
      outcome: 'TARGET_MET',
      reason: 'both',
      endTime: '2026-01-01T00:00:00Z',
    });
    expect(follower.timeline).toHaveLength(1);
  });

  it('misses no state where the series are ahead of the stream', () => {
    const follower = followed();
    follower.setSeries({
      series: [{ metric: 'loss', steps: ['40'], values: [4] }],
      paretoPoints: [{ step: '40' }],
      lastSequence: '15',
    });
    follower.addEvent({ sequence: '13', metrics: { step: '35', loss: 9 } });
    follower.addEvent({ sequence: '14', paretoPoint: { step: '40' } });
    expect(follower.store.get('loss').last()).toEqual({ step: 40, value: 4 });
    expect(follower.pareto).toHaveLength(1);
    expect(
      follower.addEvent({
        sequence: '15',
        stateChange: { state: 'SUCCEEDED' },
      }),
    ).toBe(true);
    expect(follower.job?.state).toBe('SUCCEEDED');
    expect(follower.timeline).toHaveLength(1);
  });

  it('tells failures in one line', () => {
    expect(
      failureText({ failureClass: 'NODE_LOST', message: 'gone', rank: 1 }),
    ).toBe('NODE_LOST (member 1): gone');
    expect(failureText({ failureClass: 'DATA', message: 'x', rank: -1 })).toBe(
      'DATA: x',
    );
  });
});

describe('heatMap', () => {
  const layer = (name: string, current: number[]) => ({
    layer: name,
    layerClass: 'attention',
    initial: [8, 32],
    current,
  });

  it('has a row per bond and a column per snapshot', () => {
    const map = heatMap([
      { step: '0', layers: [layer('a', [8, 32]), layer('b', [8, 32])] },
      { step: '100', layers: [layer('a', [4, 16])] },
    ]);
    expect(map.steps).toEqual([0, 100]);
    expect(map.rows).toHaveLength(4);
    expect([...map.ranks]).toEqual([8, 4, 32, 16, 8, NaN, 32, NaN]);
  });

  it('a resumed attempt replaces what it repeats', () => {
    const map = heatMap([
      { step: '0', layers: [layer('a', [8, 32])] },
      { step: '200', layers: [layer('a', [1, 1])] },
      { step: '100', layers: [layer('a', [7, 30])] },
    ]);
    expect(map.steps).toEqual([0, 100]);
  });

  it('is empty without snapshots', () => {
    expect(heatMap([]).rows).toEqual([]);
  });

  it('averages by class', () => {
    expect(
      classRanks({ layers: [layer('a', [4, 16]), layer('b', [8, 32])] }),
    ).toEqual([
      { layerClass: 'attention', layers: 2, initial: 20, current: 15 },
    ]);
  });
});

const utf8 = (text: string) => new TextEncoder().encode(text);

describe('LogText', () => {
  it('reads bytes, of which characters may be cut in two', () => {
    const bytes = decodeBytes('Z3LDvG4K');
    const text = new LogText();
    text.push(bytes.subarray(0, 3));
    text.push(bytes.subarray(3));
    expect(text.all()).toEqual(['grün']);
  });

  it('puts lines together from parts, and keeps a bounded number', () => {
    const text = new LogText(3);
    text.push(utf8('one\ntw'));
    expect(text.all()).toEqual(['one', 'tw']);
    text.push(utf8('o\nthree\nfour\nfive'));
    expect(text.all()).toEqual(['two', 'three', 'four', 'five']);
    expect(text.dropped).toBe(1);
  });

  it('shows hostile bytes as text', () => {
    expect(plain('\x1b[31mred\x1b[0m \x00\u202e<b>')).toBe('red ··<b>');
    const text = new LogText();
    text.push(utf8('x'.repeat(1e6) + '\n'));
    expect(text.all()[0]?.length).toBeLessThan(5000);
  });
});

describe('states', () => {
  it('say what may be done', () => {
    expect(allowed({ state: 'RUNNING' })).toEqual({
      cancel: true,
      pause: true,
      resume: false,
      remove: false,
    });
    expect(allowed({ state: 'PAUSED' })).toMatchObject({
      pause: false,
      resume: true,
    });
    expect(allowed({ state: 'SUCCEEDED' })).toEqual({
      cancel: false,
      pause: false,
      resume: false,
      remove: true,
    });
    expect(allowed({ state: 'FAILED' })).toMatchObject({
      resume: true,
      remove: true,
    });
    expect(allowed({ state: 'CANCELLING' }).cancel).toBe(false);
  });

  it('have words and tones', () => {
    expect(stateWord('SUCCEEDED', 'TARGET_MISSED')).toBe('target missed');
    expect(tone('SUCCEEDED', 'TARGET_MISSED')).toBe('warn');
    expect(tone('SUCCEEDED', 'TARGET_MET')).toBe('good');
    expect(tone('SOMETHING_NEW')).toBe('idle');
    expect(stateWord('SOMETHING_NEW')).toBe('something new');
  });

  it('know how far a job is', () => {
    expect(progressShare({ progress: { step: '5', totalSteps: '20' } })).toBe(
      0.25,
    );
    expect(progressShare({})).toBeNull();
  });
});

describe('addresses', () => {
  it('are read and written', () => {
    const route = parseRoute('/jobs/a%20b/logs', '?q=x&state=A&state=B');
    expect(route).toMatchObject({ page: 'jobs', id: 'a b', tab: 'logs' });
    expect(route.query.getAll('state')).toEqual(['A', 'B']);
    expect(parseRoute('/', '').page).toBe('jobs');
    expect(parseRoute('/jobs/%E0%A4', '').id).toBe('%E0%A4');
    expect(address('/jobs', { q: '', state: ['A', 'B'], queue: 'x' })).toBe(
      '/jobs?state=A&state=B&queue=x',
    );
  });
});
