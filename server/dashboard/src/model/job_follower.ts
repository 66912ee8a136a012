// The state of one job, put together from its series and its events.
import type {
  Job,
  JobEvent,
  JobSeries,
  ParetoPoint,
  RankSnapshot,
  RunInfo,
  StepMetrics,
  TrainingResult,
} from '../api/types';
import { camel, float, int } from './format';
import { failureText, isFinal } from './job_state';
import { SeriesStore } from './series_store';

/** Fields of StepMetrics that are plotted. */
export const METRICS = [
  'loss',
  'smoothedLoss',
  'validationLoss',
  'validationAccuracy',
  'validationF1',
  'validationMcc',
  'validationAuc',
  'sizeParameters',
  'sizeBytes',
  'samplesPerSecond',
  'tokensPerSecond',
  'modelFlopsUtilisation',
  'synchronizedBytes',
  'denseSynchronizedBytes',
  'peakMemoryBytes',
  'deviceMemoryBytes',
  'learningRateScale',
  'gradientNorm',
  'energyJoules',
] as const;

/** Snapshots kept; of more every other one goes. */
const MAX_SNAPSHOTS = 2000;

export interface TimelineEntry {
  sequence: number;
  time: string;
  kind: 'state' | 'incident';
  state?: string;
  text: string;
}

export class JobFollower {
  job: Job | null = null;
  readonly store = new SeriesStore();
  snapshots: RankSnapshot[] = [];
  pareto: ParetoPoint[] = [];
  runInfo: RunInfo | null = null;
  result: TrainingResult | null = null;
  timeline: TimelineEntry[] = [];
  lastMetrics: StepMetrics | null = null;
  lastSequence = 0;
  snapshotVersion = 0;
  /** The last event whose figures the series hold. */
  private seriesSequence = 0;
  private begun = false;

  /** The series as the server has them, in place of what was known. */
  setSeries(series: JobSeries): void {
    for (const one of series.series ?? []) {
      const name = camel(one.metric ?? '');
      const steps: number[] = [];
      const values: number[] = [];
      (one.values ?? []).forEach((raw, index) => {
        const value = float(raw);
        if (value === null) return;
        steps.push(int(one.steps?.[index]));
        values.push(value);
      });
      // A finer answer never loses what has come since by the stream.
      const known = this.store.get(name);
      const last = steps[steps.length - 1] ?? -1;
      for (let i = 0; i < known.length; ++i) {
        if (known.step(i) > last) {
          steps.push(known.step(i));
          values.push(known.value(i));
        }
      }
      this.store.replace(name, steps, values);
    }
    if (series.rankSnapshots && series.rankSnapshots.length > 0) {
      const last = int(
        series.rankSnapshots[series.rankSnapshots.length - 1]?.step,
      );
      this.snapshots = [
        ...series.rankSnapshots,
        ...this.snapshots.filter((snapshot) => int(snapshot.step) > last),
      ];
      ++this.snapshotVersion;
    }
    if (series.paretoPoints) this.pareto = series.paretoPoints;
    if (series.runInfo) this.runInfo = series.runInfo;
    this.seriesSequence = Math.max(
      this.seriesSequence,
      int(series.lastSequence),
    );
    // Later on the stream may be behind, with states that no series tells.
    if (!this.begun) this.lastSequence = this.seriesSequence;
    this.begun = true;
  }

  setJob(job: Job): void {
    this.job = job;
  }

  /** True if the job's record has changed in ways that events do not tell. */
  addEvent(event: JobEvent): boolean {
    const sequence = int(event.sequence);
    if (sequence > 0 && sequence <= this.lastSequence) return false;
    this.lastSequence = Math.max(this.lastSequence, sequence);
    const inSeries = sequence > 0 && sequence <= this.seriesSequence;
    if (event.metrics && !inSeries) this.addMetrics(event.metrics);
    if (event.rankSnapshot && !inSeries) {
      const step = int(event.rankSnapshot.step);
      this.snapshots = this.snapshots.filter((known) => int(known.step) < step);
      this.snapshots.push(event.rankSnapshot);
      if (this.snapshots.length > MAX_SNAPSHOTS) {
        this.snapshots = this.snapshots.filter((_, index) => index % 2 === 0);
      }
      ++this.snapshotVersion;
    }
    if (event.paretoPoint && !inSeries)
      this.pareto = [...this.pareto, event.paretoPoint];
    if (event.runInfo) this.runInfo = event.runInfo;
    if (event.result) this.result = event.result;
    if (event.stateChange && this.job) {
      const { state, outcome, reason, failure } = event.stateChange;
      const job: Job = { ...this.job };
      if (state) job.state = state;
      if (outcome) job.outcome = outcome;
      job.reason = reason ?? '';
      if (failure) job.failure = failure;
      if (isFinal(state) && event.time) job.endTime = event.time;
      this.job = job;
    }
    const entry = timelineEntry(event);
    if (entry) this.timeline = [...this.timeline, entry];
    return Boolean(
      event.stateChange || event.incident || event.checkpoint || event.result,
    );
  }

  private addMetrics(metrics: StepMetrics): void {
    this.lastMetrics = metrics;
    const step = int(metrics.step);
    for (const name of METRICS) {
      const value = float(metrics[name]);
      if (value !== null) this.store.append(name, step, value);
    }
    if (!this.job) return;
    const progress = { ...this.job.progress };
    progress.step = metrics.step ?? '0';
    if (metrics.totalSteps) progress.totalSteps = metrics.totalSteps;
    if (metrics.stage) progress.stage = metrics.stage;
    const loss = float(metrics['smoothedLoss']) ?? float(metrics['loss']);
    if (loss !== null) progress.loss = loss;
    const validation = float(metrics['validationLoss']);
    if (validation !== null) {
      progress.validationLoss = validation;
      progress.hasValidationLoss = true;
    }
    for (const name of [
      'sizeParameters',
      'sizeBytes',
      'targetSizeParameters',
    ] as const) {
      const value = metrics[name];
      if (value !== undefined) progress[name] = value as string;
    }
    for (const name of ['samplesPerSecond', 'targetLoss'] as const) {
      const value = float(metrics[name]);
      if (value !== null) progress[name] = value;
    }
    if (typeof metrics['eta'] === 'string') progress.eta = metrics['eta'];
    this.job = { ...this.job, progress };
  }
}

export function timelineEntry(event: JobEvent): TimelineEntry | null {
  const base = { sequence: int(event.sequence), time: event.time ?? '' };
  if (event.stateChange) {
    const { state, reason } = event.stateChange;
    return {
      ...base,
      kind: 'state',
      text: reason ?? '',
      ...(state ? { state } : {}),
    };
  }
  if (event.incident) {
    return { ...base, kind: 'incident', text: failureText(event.incident) };
  }
  return null;
}
