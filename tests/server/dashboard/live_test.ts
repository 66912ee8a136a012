import { describe, expect, it } from 'vitest';
import {
  backoff,
  LIVE_START,
  next,
  type LiveInput,
  type LiveState,
} from '../../../server/dashboard/src/api/live_state';
import { SseParser } from '../../../server/dashboard/src/api/sse';

function run(inputs: LiveInput[], state: LiveState = LIVE_START) {
  const effects = inputs.map((input) => {
    const [after, effect] = next(state, input);
    state = after;
    return effect;
  });
  return { state, effects };
}

const broken: LiveInput = { kind: 'broken', reason: 'gone', random: 0.5 };

describe('the life of a stream', () => {
  it('connects, lives, breaks, waits and connects again', () => {
    const { state, effects } = run([
      { kind: 'start' },
      { kind: 'opened' },
      { kind: 'message' },
      broken,
      { kind: 'timer' },
    ]);
    expect(effects).toEqual(['connect', 'none', 'none', 'schedule', 'connect']);
    expect(state.phase).toBe('connecting');
    expect(state.failures).toBe(1);
  });

  it('waits longer after every failure, and a message ends that', () => {
    const once = run([{ kind: 'start' }, broken]).state;
    const twice = run([{ kind: 'timer' }, broken], once).state;
    expect(once.delay).toBe(500);
    expect(twice.delay).toBe(1000);
    const well = run(
      [{ kind: 'timer' }, { kind: 'opened' }, { kind: 'message' }],
      twice,
    ).state;
    expect(well).toEqual({ phase: 'live', failures: 0, delay: 0, reason: '' });
  });

  it('a connection that opens and brings nothing is a failure still', () => {
    const { state } = run([
      { kind: 'start' },
      broken,
      { kind: 'timer' },
      { kind: 'opened' },
      broken,
    ]);
    expect(state.failures).toBe(2);
  });

  it('is over for good when refused or finished', () => {
    for (const end of [
      { kind: 'refused', reason: 'no such job' },
      { kind: 'finished' },
    ] as LiveInput[]) {
      const { state, effects } = run([
        { kind: 'start' },
        { kind: 'opened' },
        end,
        { kind: 'timer' },
        { kind: 'visible' },
        { kind: 'start' },
        broken,
      ]);
      expect(['refused', 'ended']).toContain(state.phase);
      expect(effects.slice(2)).toEqual([
        'disconnect',
        'none',
        'none',
        'none',
        'none',
      ]);
    }
  });

  it('sleeps while nobody looks', () => {
    const { state, effects } = run([
      { kind: 'start' },
      { kind: 'opened' },
      { kind: 'hidden' },
      broken,
      { kind: 'timer' },
      { kind: 'visible' },
    ]);
    expect(effects.slice(2)).toEqual(['disconnect', 'none', 'none', 'connect']);
    expect(state.phase).toBe('connecting');
  });

  it('spreads clients and never waits for ever', () => {
    expect(backoff(0, 0)).toBe(400);
    expect(backoff(0, 0.999)).toBeLessThanOrEqual(600);
    expect(backoff(50, 0.5)).toBe(15000);
  });
});

describe('SseParser', () => {
  const text =
    ': idle\n\nid: 7\nevent: metrics\ndata: {"a":1}\n\n' +
    'data: one\ndata: two\r\n\r\nid:8\ndata:x\r\r';

  it('gives the same however the bytes are cut', () => {
    const whole = new SseParser().push(text + '\n');
    expect(whole).toEqual([
      { id: '7', event: 'metrics', data: '{"a":1}' },
      { id: '7', event: '', data: 'one\ntwo' },
      { id: '8', event: '', data: 'x' },
    ]);
    for (let cut = 1; cut < text.length; ++cut) {
      const parser = new SseParser();
      expect([
        ...parser.push(text.slice(0, cut)),
        ...parser.push(text.slice(cut) + '\n'),
      ]).toEqual(whole);
    }
  });

  it('gives nothing of a message that is not complete', () => {
    expect(new SseParser().push('data: x\n')).toEqual([]);
  });

  it('refuses a line without an end', () => {
    const parser = new SseParser();
    expect(() => {
      for (let i = 0; i < 20; ++i) parser.push('x'.repeat(1 << 20));
    }).toThrow();
  });
});
