// The life of a stream that is to go on for ever: a pure state machine.
//
//   idle -> connecting -> live -> waiting -> connecting ...
//   any -> ended    the server has told everything
//   any -> refused  it will not tell: no such job, no permission
//   any -> asleep   nobody looks at the page; -> connecting when somebody does

export type Phase =
  'idle' | 'connecting' | 'live' | 'waiting' | 'asleep' | 'ended' | 'refused';

export interface LiveState {
  phase: Phase;
  /** Connections in a row that brought nothing. */
  failures: number;
  /** Milliseconds until the next try, while waiting. */
  delay: number;
  reason: string;
}

export type LiveInput =
  | { kind: 'start' }
  | { kind: 'message' }
  | { kind: 'opened' }
  /** The connection broke, or the server closed it before the end. */
  | { kind: 'broken'; reason: string; random: number }
  | { kind: 'refused'; reason: string }
  | { kind: 'finished' }
  | { kind: 'timer' }
  | { kind: 'hidden' }
  | { kind: 'visible' };

export type LiveEffect = 'none' | 'connect' | 'disconnect' | 'schedule';

export const LIVE_START: LiveState = {
  phase: 'idle',
  failures: 0,
  delay: 0,
  reason: '',
};

/** Milliseconds before try `failures` + 1; `random` in [0, 1) spreads clients. */
export function backoff(
  failures: number,
  random: number,
  most = 15000,
): number {
  const base = Math.min(most, 500 * 2 ** Math.min(failures, 10));
  return Math.round(base * (0.8 + 0.4 * random));
}

function isOver(phase: Phase): boolean {
  return phase === 'ended' || phase === 'refused';
}

export function next(
  state: LiveState,
  input: LiveInput,
): [LiveState, LiveEffect] {
  if (isOver(state.phase)) return [state, 'none'];
  switch (input.kind) {
    case 'start':
      if (state.phase !== 'idle') return [state, 'none'];
      return [{ ...state, phase: 'connecting' }, 'connect'];
    case 'opened':
      if (state.phase !== 'connecting') return [state, 'none'];
      return [{ ...state, phase: 'live', reason: '' }, 'none'];
    case 'message':
      if (state.phase !== 'live' && state.phase !== 'connecting')
        return [state, 'none'];
      if (state.phase === 'live' && state.failures === 0)
        return [state, 'none'];
      return [{ phase: 'live', failures: 0, delay: 0, reason: '' }, 'none'];
    case 'broken': {
      if (state.phase !== 'live' && state.phase !== 'connecting')
        return [state, 'none'];
      const delay = backoff(state.failures, input.random);
      return [
        {
          phase: 'waiting',
          failures: state.failures + 1,
          delay,
          reason: input.reason,
        },
        'schedule',
      ];
    }
    case 'refused':
      return [
        { ...state, phase: 'refused', reason: input.reason },
        'disconnect',
      ];
    case 'finished':
      return [{ ...state, phase: 'ended', reason: '' }, 'disconnect'];
    case 'timer':
      if (state.phase !== 'waiting') return [state, 'none'];
      return [{ ...state, phase: 'connecting', delay: 0 }, 'connect'];
    case 'hidden':
      if (state.phase === 'idle' || state.phase === 'asleep')
        return [state, 'none'];
      return [{ ...state, phase: 'asleep', delay: 0 }, 'disconnect'];
    case 'visible':
      if (state.phase !== 'asleep') return [state, 'none'];
      return [{ ...state, phase: 'connecting', failures: 0 }, 'connect'];
  }
}
