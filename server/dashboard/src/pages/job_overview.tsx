import { useMemo, useState } from 'preact/hooks';
import type { Job } from '../api/types';
import { classRanks } from '../model/heat';
import {
  bytes,
  count,
  float,
  int,
  joules,
  loss,
  percent,
  short,
  span,
  times,
  words,
} from '../model/format';
import { isFinal } from '../model/job_state';
import { qualityOf, testText } from '../model/quality';
import { Stat } from '../ui/basics';
import { FrontPlot, type FrontPoint } from '../ui/front_plot';
import { RankHeatMap } from '../ui/heat_map';
import { Plot, type PlotLine, type Zoom } from '../ui/plot';
import { StateTimeline } from '../ui/state_timeline';
import type { JobFollower } from '../model/job_follower';
import type { OpenJob } from './use_job';

/** Targets as the specification has them, with what training resolved. */
function targetsOf(
  job: Job,
  follower: JobFollower,
): { loss: number; size: number }[] {
  const results = follower.result?.targets ?? [];
  if (results.length > 0) {
    return results
      .map((target) => ({
        loss: target.targetLoss ?? 0,
        size: int(target.targetSizeParameters),
      }))
      .filter((target) => target.loss > 0 && target.size > 0);
  }
  const { targetLoss, targetSizeParameters } = job.progress ?? {};
  if (!targetLoss || !int(targetSizeParameters)) return [];
  return [{ loss: targetLoss, size: int(targetSizeParameters) }];
}

export function JobOverview({ open, job }: { open: OpenJob; job: Job }) {
  const { follower, version } = open;
  const [zoom, setZoom] = useState<Zoom>(null);
  const store = follower.store;
  const onZoom = (next: Zoom) => {
    // The first answer is thinned: closer up there may be more to see.
    if (next && !zoom) open.loadAll();
    setZoom(next);
  };
  const targets = targetsOf(job, follower);
  const target = targets[targets.length - 1];
  const lossLines = useMemo<PlotLine[]>(() => {
    const lines: PlotLine[] = targets.map((one) => ({
      value: one.loss,
      label: 'target',
    }));
    return lines;
  }, [JSON.stringify(targets)]);
  const sizeLines = useMemo<PlotLine[]>(
    () => targets.map((one) => ({ value: one.size, label: 'target' })),
    [JSON.stringify(targets)],
  );
  const common = { store, version, zoom, onZoom };
  const lastStep = store.range()[1];

  if (store.points() === 0) {
    return (
      <div class="card note-card">
        <p>
          {isFinal(job.state)
            ? 'The job ended before its first step.'
            : 'No figures yet: they come with the first steps.'}
        </p>
        {job.failure && <FailureNote job={job} />}
        <StateTimeline job={job} timeline={follower.timeline} />
      </div>
    );
  }
  return (
    <>
      {job.failure && <FailureNote job={job} />}
      <KeyFigures job={job} follower={follower} target={target} />
      <StateTimeline job={job} timeline={follower.timeline} />
      <ZoomBar zoom={zoom} range={store.range()} onZoom={onZoom} />
      <div class="plots">
        <Plot
          {...common}
          title="Loss"
          format={loss}
          lines={lossLines}
          series={[
            { metric: 'loss', label: 'training', color: '--series-soft' },
            { metric: 'smoothedLoss', label: 'smoothed', color: '--series-1' },
            {
              metric: 'validationLoss',
              label: 'validation',
              color: '--series-2',
              points: true,
            },
          ]}
        />
        <Plot
          {...common}
          title="Size (parameters)"
          format={short}
          lines={sizeLines}
          fromZero
          series={[
            {
              metric: 'sizeParameters',
              label: 'parameters',
              color: '--series-1',
            },
          ]}
        />
        <RankHeatMap
          snapshots={follower.snapshots}
          version={follower.snapshotVersion}
          zoom={zoom}
          lastStep={lastStep}
        />
        <Front follower={follower} targets={targets} />
        <RankClasses follower={follower} />
        <Plot
          {...common}
          title="Throughput (samples/s)"
          format={short}
          fromZero
          series={[
            {
              metric: 'samplesPerSecond',
              label: 'samples/s',
              color: '--series-3',
            },
          ]}
        />
        <Plot
          {...common}
          title="Gradient bytes per step"
          format={bytes}
          fromZero
          binary
          series={[
            {
              metric: 'synchronizedBytes',
              label: 'synchronised',
              color: '--series-1',
            },
            {
              metric: 'denseSynchronizedBytes',
              label: 'dense training',
              color: '--series-4',
              dashed: true,
            },
          ]}
        />
        <Plot
          {...common}
          title="Memory per process"
          format={bytes}
          fromZero
          binary
          series={[
            {
              metric: 'peakMemoryBytes',
              label: 'peak of the process',
              color: '--series-5',
            },
            ...(store.get('deviceMemoryBytes').length > 0
              ? [
                  {
                    metric: 'deviceMemoryBytes',
                    label: 'GPU',
                    color: '--series-2',
                  },
                ]
              : []),
          ]}
        />
        <Plot
          {...common}
          title="Gradient norm"
          format={short}
          fromZero
          series={[
            { metric: 'gradientNorm', label: 'norm', color: '--series-6' },
          ]}
        />
      </div>
    </>
  );
}

function FailureNote({ job }: { job: Job }) {
  const failure = job.failure ?? {};
  return (
    <section class="note error block" aria-label="Why it failed">
      <strong>{words(failure.failureClass)}</strong> {failure.message}
      {failure.logTail && <pre tabIndex={0}>{failure.logTail}</pre>}
    </section>
  );
}

function KeyFigures({
  job,
  follower,
  target,
}: {
  job: Job;
  follower: JobFollower;
  target: { loss: number; size: number } | undefined;
}) {
  const { store } = follower;
  const last = (metric: string) => store.get(metric).last()?.value ?? null;
  // Progress has the figures of a sample, the result those of the whole set.
  const result = follower.result as Record<string, unknown> | null;
  const validation =
    float(follower.result?.validationLoss) ?? last('validationLoss');
  const quality = qualityOf(
    job,
    (metric) => float(result?.[metric]) ?? last(metric),
  );
  const size = last('sizeParameters') ?? int(job.progress?.sizeParameters);
  const dense = int(follower.runInfo?.denseParameters);
  const speed = last('samplesPerSecond');
  const tokens = last('tokensPerSecond') ?? 0;
  const utilisation = last('modelFlopsUtilisation');
  const sent = last('synchronizedBytes');
  const denseSent = last('denseSynchronizedBytes');
  const memory = last('peakMemoryBytes');
  const energy = last('energyJoules') ?? 0;
  const lastStep = store.range()[1];
  const baseline = float(follower.runInfo?.baselineLoss);
  return (
    <dl class="stats">
      <Stat
        label="Validation loss"
        value={loss(validation)}
        note={
          target
            ? `target ${loss(target.loss)}`
            : baseline !== null
              ? `baseline ${loss(baseline)}`
              : ''
        }
      />
      {quality && (
        <Stat
          label={`Validation ${quality.name}`}
          value={quality.value}
          note={[
            quality.asked ? `target ${quality.asked}` : '',
            testText(follower.result?.test),
            quality.others,
          ]
            .filter(Boolean)
            .join(', ')}
        />
      )}
      <Stat
        label="Size"
        value={`${short(size)}`}
        note={`${bytes(last('sizeBytes') ?? size * 4)}${
          target ? `, target ${short(target.size)}` : ''
        }`}
      />
      <Stat
        label="Smaller than dense"
        value={times(dense, size) || '–'}
        note={dense ? `dense ${short(dense)}` : ''}
      />
      <Stat
        label="Throughput"
        value={speed ? short(speed) : '–'}
        note={[
          'samples/s',
          tokens > 0 ? `${short(tokens)} tokens/s` : '',
          utilisation === null ? '' : `${percent(utilisation)} of peak`,
        ]
          .filter(Boolean)
          .join(', ')}
      />
      <Stat
        label="Bytes per step"
        value={sent === null ? '–' : bytes(sent)}
        note={
          sent && denseSent ? `dense: ${times(denseSent, sent)} as many` : ''
        }
      />
      <Stat
        label="Memory per process"
        value={memory === null ? '–' : bytes(memory)}
        note={follower.runInfo?.device ?? ''}
      />
      {energy > 0 && (
        <Stat
          label="Energy"
          value={joules(energy)}
          note={`${joules(energy / Math.max(1, lastStep))} per step`}
        />
      )}
    </dl>
  );
}

function ZoomBar({
  zoom,
  range,
  onZoom,
}: {
  zoom: Zoom;
  range: [number, number];
  onZoom: (zoom: Zoom) => void;
}) {
  const [first, last] = range;
  const tail = (share: number): Zoom => [
    Math.floor(last - (last - first) * share),
    last,
  ];
  return (
    <div class="zoom-bar" role="group" aria-label="Steps shown">
      <span class="muted">
        {zoom ? `Steps ${count(zoom[0])} to ${count(zoom[1])}` : 'All steps'}
      </span>
      <button
        type="button"
        aria-pressed={zoom === null}
        onClick={() => onZoom(null)}
      >
        All
      </button>
      <button type="button" onClick={() => onZoom(tail(0.5))}>
        Last half
      </button>
      <button type="button" onClick={() => onZoom(tail(0.1))}>
        Last tenth
      </button>
      <span class="muted hint">
        Drag over a plot to zoom, double-click for all.
      </span>
    </div>
  );
}

function Front({
  follower,
  targets,
}: {
  follower: JobFollower;
  targets: { loss: number; size: number }[];
}) {
  const points: FrontPoint[] = follower.pareto.map((point) => ({
    loss: point.validationLoss ?? NaN,
    size: int(point.sizeParameters),
    label: `step ${count(int(point.step))}`,
  }));
  const history = useHistory(follower);
  return (
    <FrontPlot
      title="Pareto front"
      groups={[{ name: 'models', color: '--series-1', shape: 0, points }]}
      targets={targets}
      history={history}
    />
  );
}

/** Validation loss against the size at that step. */
function useHistory(follower: JobFollower) {
  const losses = follower.store
    .get('validationLoss')
    .view(-Infinity, Infinity, 200);
  const sizes = follower.store.get('sizeParameters');
  return losses.steps
    .map((step, index) => {
      const view = sizes.view(step, step, 4);
      const at = view.steps.findIndex((s) => s >= step);
      return {
        loss: losses.values[index] as number,
        size: view.values[at < 0 ? view.values.length - 1 : at] ?? NaN,
      };
    })
    .filter((point) => Number.isFinite(point.size));
}

function RankClasses({ follower }: { follower: JobFollower }) {
  const classes = classRanks(follower.snapshots[follower.snapshots.length - 1]);
  const info = follower.runInfo;
  return (
    <section class="card figure" aria-labelledby="rank-classes">
      <h2 id="rank-classes">Mean ranks by kind of layer</h2>
      <table class="plain">
        <caption class="sr-only">Mean ranks at the beginning and now</caption>
        <thead>
          <tr>
            <th scope="col">Layers</th>
            <th scope="col">Initial</th>
            <th scope="col">Now</th>
            <th scope="col">Left</th>
          </tr>
        </thead>
        <tbody>
          {classes.map((one) => (
            <tr key={one.layerClass}>
              <th scope="row">{words(one.layerClass)}</th>
              <td class="number">{one.initial.toFixed(1)}</td>
              <td class="number">{one.current.toFixed(1)}</td>
              <td class="number">
                {percent(one.initial ? one.current / one.initial : 0)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {info && (
        <p class="muted small">
          {info.trainSamples
            ? `${count(int(info.trainSamples))} training and ${count(
                int(info.validationSamples),
              )} validation samples, `
            : ''}
          {info.vocabularySize
            ? `vocabulary ${count(info.vocabularySize)}, `
            : ''}
          {info.worldSize ?? 1} {info.worldSize === 1 ? 'process' : 'processes'}
          {info.device ? ` on ${info.device}` : ''}
          {follower.lastMetrics?.['eta']
            ? `, ETA ${span(Number(String(follower.lastMetrics['eta']).replace('s', '')))}`
            : ''}
          .
        </p>
      )}
    </section>
  );
}
