import type { Job, JobState, Outcome } from '../api/types';
import { int, seconds } from './format';

export const JOB_STATES: JobState[] = [
  'QUEUED',
  'STARTING',
  'RUNNING',
  'PAUSED',
  'CANCELLING',
  'SUCCEEDED',
  'FAILED',
  'CANCELLED',
];

export function isFinal(state: JobState | undefined): boolean {
  return state === 'SUCCEEDED' || state === 'FAILED' || state === 'CANCELLED';
}

/** The meaning of a colour and a sign; never of a colour alone. */
export type Tone = 'idle' | 'busy' | 'good' | 'warn' | 'bad' | 'off';

export function tone(state: string | undefined, outcome?: Outcome): Tone {
  switch (state) {
    case 'RUNNING':
    case 'STARTING':
    case 'ACTIVE':
    case 'SWEEP_RUN_ACTIVE':
      return 'busy';
    case 'SUCCEEDED':
    case 'SWEEP_RUN_SUCCEEDED':
      return outcome === 'TARGET_MISSED' ? 'warn' : 'good';
    case 'FAILED':
    case 'SWEEP_RUN_FAILED':
      return 'bad';
    case 'PAUSED':
    case 'CANCELLING':
      return 'warn';
    case 'CANCELLED':
    case 'SWEEP_RUN_CANCELLED':
    case 'SWEEP_RUN_STOPPED':
      return 'off';
    default:
      return 'idle';
  }
}

export const TONE_SIGN: Record<Tone, string> = {
  idle: '○',
  busy: '◐',
  good: '✓',
  warn: '!',
  bad: '✕',
  off: '–',
};

export function stateWord(
  state: string | undefined,
  outcome?: Outcome,
): string {
  if (state === 'SUCCEEDED' && outcome)
    return outcome.replace(/_/g, ' ').toLowerCase();
  return (state ?? 'unknown')
    .replace(/^SWEEP_RUN_/, '')
    .replace(/_/g, ' ')
    .toLowerCase();
}

export function displayName(job: Job): string {
  return job.spec?.displayName || (job.name ?? '').replace(/^jobs\//, '');
}

/** Share of the planned steps that is done, 0 to 1; null before it is known. */
export function progressShare(job: Job): number | null {
  const total = int(job.progress?.totalSteps);
  if (total <= 0) return null;
  return Math.min(1, int(job.progress?.step) / total);
}

export function etaSeconds(job: Job): number | null {
  return isFinal(job.state) ? null : seconds(job.progress?.eta);
}

/** Why the job is where it is; "" where its state says it all. */
export function stateReason(job: Job): string {
  if (job.state === 'FAILED' && job.failure) return failureText(job.failure);
  const says =
    job.state === 'QUEUED' ||
    job.state === 'PAUSED' ||
    job.state === 'FAILED' ||
    (job.state === 'SUCCEEDED' && job.outcome === 'TARGET_MISSED');
  return says ? (job.reason ?? '') : '';
}

export function failureText(failure: {
  failureClass?: string;
  message?: string;
  rank?: number;
}): string {
  const where = (failure.rank ?? 0) >= 0 ? ` (member ${failure.rank ?? 0})` : '';
  return `${failure.failureClass ?? 'failure'}${where}: ${failure.message ?? ''}`;
}

export interface Allowed {
  cancel: boolean;
  pause: boolean;
  resume: boolean;
  remove: boolean;
}

export function allowed(job: Job): Allowed {
  const live = !isFinal(job.state) && job.state !== 'CANCELLING';
  return {
    cancel: live,
    pause: live && job.state !== 'PAUSED' && !job.pausing,
    resume:
      (live && (job.state === 'PAUSED' || job.pausing === true)) ||
      job.state === 'FAILED' ||
      job.state === 'CANCELLED',
    remove: isFinal(job.state),
  };
}
