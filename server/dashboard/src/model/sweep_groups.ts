// Runs of a sweep put into groups by one of their settings, so that fronts can
// be compared: a run's label names its settings, "method=comera ranks=30 …".
import type { Sweep, SweepRun } from '../api/types';
import { int } from './format';
import { hypervolumeRatio, type Point } from './front';

export interface Setting {
  key: string;
  value: string;
}

/** The settings in a label: words with "=", or else the whole label. */
export function settings(label: string): Setting[] {
  const found = label
    .split(/[,\s]+/)
    .map((word) => /^([^=]+)=(.*)$/.exec(word))
    .filter((match): match is RegExpExecArray => match !== null)
    .map((match) => ({ key: match[1] as string, value: match[2] as string }));
  return found;
}

/** Settings that differ between runs, by which they can be grouped. */
export function groupKeys(runs: readonly SweepRun[]): string[] {
  const values = new Map<string, Set<string>>();
  for (const run of runs) {
    for (const { key, value } of settings(run.label ?? '')) {
      values.set(key, (values.get(key) ?? new Set()).add(value));
    }
  }
  return [...values]
    .filter(([, set]) => set.size > 1 && set.size <= 8)
    .map(([key]) => key);
}

export interface RunGroup {
  name: string;
  points: (Point & { label: string })[];
  runs: number;
  hypervolumeRatio: number;
}

export function groupRuns(sweep: Sweep, key: string): RunGroup[] {
  const reference: Point = {
    loss: sweep.front?.reference?.validationLoss ?? 0,
    size: int(sweep.front?.reference?.sizeParameters),
  };
  const groups = new Map<string, RunGroup>();
  for (const run of sweep.runs ?? []) {
    const name =
      key === ''
        ? 'all runs'
        : (settings(run.label ?? '').find((s) => s.key === key)?.value ??
          'other');
    const group = groups.get(name) ?? {
      name,
      points: [],
      runs: 0,
      hypervolumeRatio: 0,
    };
    ++group.runs;
    for (const point of run.points ?? []) {
      group.points.push({
        loss: point.validationLoss ?? NaN,
        size: int(point.sizeParameters),
        label: run.label ?? `run ${run.index ?? 0}`,
      });
    }
    groups.set(name, group);
  }
  for (const group of groups.values()) {
    group.hypervolumeRatio = hypervolumeRatio(group.points, reference);
  }
  return [...groups.values()];
}

/** A sweep after one of its events. */
export function withEvent(
  sweep: Sweep,
  event: NonNullable<import('../api/types').WatchSweepResponse['event']>,
): Sweep {
  if (event.stateChange) return { ...sweep, ...event.stateChange };
  if (event.front) return { ...sweep, front: event.front };
  if (event.search) return { ...sweep, search: event.search };
  if (event.run) return { ...sweep, runs: put(sweep.runs ?? [], event.run) };
  if (event.stage)
    return { ...sweep, stages: put(sweep.stages ?? [], event.stage) };
  return sweep;
}

function put(runs: SweepRun[], run: SweepRun): SweepRun[] {
  const at = runs.findIndex((one) => (one.index ?? 0) === (run.index ?? 0));
  return at < 0
    ? [...runs, run]
    : runs.map((one, index) => (index === at ? run : one));
}
