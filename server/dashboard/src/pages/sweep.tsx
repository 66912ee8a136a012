import { useEffect, useState } from 'preact/hooks';
import { post } from '../api/client';
import { ApiError } from '../api/errors';
import { LiveStream } from '../api/live_stream';
import { LIVE_START } from '../api/live_state';
import { usePoll } from '../api/poll';
import type { Sweep, SweepRun, WatchSweepResponse } from '../api/types';
import {
  clock,
  int,
  lastSegment,
  loss,
  pathOf,
  percent,
  short,
} from '../model/format';
import { groupKeys, groupRuns, withEvent } from '../model/sweep_groups';
import { askedTargets } from '../model/targets';
import { announce } from '../ui/announce';
import {
  Dialog,
  ErrorNote,
  Loading,
  Progress,
  Scroll,
  Stat,
  StateBadge,
} from '../ui/basics';
import { FrontPlot, type FrontGroup } from '../ui/front_plot';
import { Link } from '../ui/navigation';

const COLORS = [
  '--series-1',
  '--series-2',
  '--series-3',
  '--series-4',
  '--series-5',
  '--series-6',
];

function isOver(sweep: Sweep | null): boolean {
  return ['SUCCEEDED', 'FAILED', 'CANCELLED'].includes(sweep?.state ?? '');
}

function useSweep(name: string) {
  const [sweep, setSweep] = useState<Sweep | null>(null);
  const [live, setLive] = useState(LIVE_START);
  useEffect(() => {
    let current: Sweep | null = null;
    let frame = 0;
    setSweep(null);
    const stream = new LiveStream({
      address: (lastId) =>
        `/v1/${pathOf(name)}:watch${lastId ? `?afterSequence=${lastId}` : ''}`,
      isOver: () => isOver(current),
      onState: setLive,
      onMessage: (message) => {
        const response = JSON.parse(message.data) as WatchSweepResponse;
        if (response.sweep) current = response.sweep;
        else if (response.event && current)
          current = withEvent(current, response.event);
        const change = response.event?.stateChange;
        if (change)
          announce(`Sweep ${change.state ?? ''}. ${change.reason ?? ''}`);
        if (!frame) {
          frame = window.setTimeout(() => {
            frame = 0;
            setSweep(current);
          }, 100);
        }
      },
    });
    stream.start();
    return () => {
      stream.stop();
      clearTimeout(frame);
    };
  }, [name]);
  return { sweep, live };
}

export function SweepPage({ id }: { id: string }) {
  const { sweep, live } = useSweep(`sweeps/${id}`);
  const [key, setKey] = useState('');
  const [other, setOther] = useState('');
  const others = usePoll<{ sweeps?: Sweep[] }>('/v1/sweeps?pageSize=100', 0);
  const compared = usePoll<Sweep>(other ? `/v1/${pathOf(other)}` : null, 0);
  const title = sweep?.spec?.displayName || id;
  useEffect(() => {
    document.title = `${title} · comera`;
  }, [title]);

  if (!sweep) {
    return (
      <>
        <h1>{id}</h1>
        {live.phase === 'refused' ? (
          <ErrorNote error={live.reason} />
        ) : (
          <Loading what="the sweep" />
        )}
      </>
    );
  }
  const keys = groupKeys(sweep.runs ?? []);
  const groups = groupRuns(sweep, key);
  const drawn: FrontGroup[] = groups.map((group, index) => ({
    name: group.name,
    points: group.points,
    color: COLORS[index % COLORS.length] as string,
    shape: Math.floor(index / COLORS.length),
  }));
  if (other && compared.data) {
    drawn.push({
      name: compared.data.spec?.displayName || lastSegment(other),
      color: '--series-4',
      shape: 3,
      points: (compared.data.front?.points ?? []).map((entry) => ({
        loss: entry.point?.validationLoss ?? NaN,
        size: int(entry.point?.sizeParameters),
        label: lastSegment(entry.job),
      })),
    });
  }
  const counts = sweep.counts ?? {};
  const front = sweep.front ?? {};
  return (
    <>
      <header class="job-head">
        <div class="page-head">
          <div>
            <p class="crumbs">
              <Link to="/sweeps">Sweeps</Link> / <code>{id}</code>
            </p>
            <h1>{title}</h1>
          </div>
          <CancelSweep sweep={sweep} />
        </div>
        <p class="state-line">
          <StateBadge
            state={sweep.state}
            {...(sweep.outcome ? { outcome: sweep.outcome } : {})}
          />
          {!isOver(sweep) && (
            <span class={`live ${live.phase === 'live' ? 'on' : ''}`}>
              {live.phase === 'live' ? 'live' : 'connecting…'}
            </span>
          )}
          <span class="reason">{sweep.reason}</span>
        </p>
        <p class="meta">
          {sweep.user && <span>by {sweep.user}</span>}
          <span>created {clock(sweep.createTime)}</span>
        </p>
      </header>
      {sweep.search && <Search sweep={sweep} />}
      <dl class="stats">
        <Stat
          label="Runs"
          value={`${counts.runs ?? sweep.runs?.length ?? 0}`}
          note={`${counts.succeeded ?? 0} done, ${counts.active ?? 0} active, ${counts.waiting ?? 0} waiting`}
        />
        <Stat
          label="On the front"
          value={`${front.points?.length ?? 0}`}
          note="models that no other one beats"
        />
        <Stat
          label="Hyper-volume"
          value={
            front.hypervolumeRatio !== undefined
              ? front.hypervolumeRatio.toFixed(4)
              : '–'
          }
          note={
            front.reference
              ? `below loss ${loss(front.reference.validationLoss)}, ${short(int(front.reference.sizeParameters))} parameters`
              : ''
          }
        />
        <Stat
          label="Failed or stopped"
          value={`${(counts.failed ?? 0) + (counts.stopped ?? 0) + (counts.cancelled ?? 0)}`}
          note={`${counts.failed ?? 0} failed, ${counts.stopped ?? 0} dominated`}
        />
      </dl>
      <div class="zoom-bar">
        {keys.length > 0 && (
          <label class="select">
            <span>Compare by</span>
            <select
              value={key}
              onChange={(event) => setKey(event.currentTarget.value)}
            >
              <option value="">all runs together</option>
              {keys.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
        )}
        <label class="select">
          <span>Beside</span>
          <select
            value={other}
            onChange={(event) => setOther(event.currentTarget.value)}
          >
            <option value="">no other sweep</option>
            {(others.data?.sweeps ?? [])
              .filter((one) => one.name !== sweep.name)
              .map((one) => (
                <option key={one.name} value={one.name}>
                  {one.spec?.displayName || lastSegment(one.name)}
                </option>
              ))}
          </select>
        </label>
      </div>
      <div class="plots">
        <FrontPlot
          wide
          title="Fronts"
          groups={drawn}
          targets={askedTargets(sweep.spec?.job)}
        />
      </div>
      {groups.length > 1 && (
        <section class="card">
          <h2>Hyper-volume by {key}</h2>
          <table class="plain">
            <caption class="sr-only">
              Share of the reference's area that each group dominates
            </caption>
            <thead>
              <tr>
                <th scope="col">{key}</th>
                <th scope="col">Runs</th>
                <th scope="col">Models</th>
                <th scope="col">Hyper-volume</th>
              </tr>
            </thead>
            <tbody>
              {groups.map((group) => (
                <tr key={group.name}>
                  <th scope="row">{group.name}</th>
                  <td class="number">{group.runs}</td>
                  <td class="number">{group.points.length}</td>
                  <td class="number">{group.hypervolumeRatio.toFixed(4)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      {(sweep.stages ?? []).length > 0 && (
        <Runs title="Shared early stages" runs={sweep.stages ?? []} />
      )}
      <Runs
        title={sweep.search ? 'Candidates' : 'Runs'}
        runs={sweep.runs ?? []}
        {...(sweep.search ? { chosen: sweep.search.chosenRun ?? -1 } : {})}
      />
    </>
  );
}

/** Where a search stands, and which model it chose and why. */
function Search({ sweep }: { sweep: Sweep }) {
  const search = sweep.search ?? {};
  const budget = search.budget ?? 0;
  const unit = sweep.spec?.job?.budget?.steps ? 'steps' : 's';
  const spent = Math.round(search.spent ?? 0);
  const chosen =
    search.chosenRun !== undefined
      ? (sweep.runs ?? []).find((run) => (run.index ?? 0) === search.chosenRun)
      : undefined;
  return (
    <section class="card">
      <h2>{chosen ? 'The best model' : 'Search'}</h2>
      {search.explanation && <p>{search.explanation}</p>}
      {chosen?.job && (
        <p>
          Its job and model:{' '}
          <Link to={`/${pathOf(chosen.job)}`}>{lastSegment(chosen.job)}</Link>
        </p>
      )}
      <p>
        Round {search.round ?? 0} of {search.rounds ?? 0}; {spent} of{' '}
        {Math.round(budget)} {unit} spent{' '}
        {budget > 0 && (
          <Progress
            share={Math.min(1, spent / budget)}
            label="Share of the budget that is spent"
          />
        )}
      </p>
    </section>
  );
}

function Runs({
  title,
  runs,
  chosen,
}: {
  title: string;
  runs: SweepRun[];
  /** Set for a search: the index of its result, or -1. */
  chosen?: number;
}) {
  return (
    <section class="card">
      <h2>{title}</h2>
      <Scroll label={title}>
        <table class="plain">
          <caption class="sr-only">{title}</caption>
          <thead>
            <tr>
              <th scope="col">#</th>
              <th scope="col">Settings</th>
              <th scope="col">State</th>
              <th scope="col">Progress</th>
              <th scope="col">Loss</th>
              {chosen !== undefined && <th scope="col">Quality</th>}
              <th scope="col">Parameters</th>
              <th scope="col">Job</th>
              <th scope="col">Why</th>
            </tr>
          </thead>
          <tbody>
            {runs.map((run) => {
              const progress = run.progress ?? {};
              const total = int(progress.totalSteps);
              const share =
                total > 0 ? Math.min(1, int(progress.step) / total) : null;
              const label = run.label || `stage ${run.index ?? 0}`;
              return (
                <tr key={run.index ?? 0}>
                  <td class="number">{run.index ?? 0}</td>
                  <th scope="row">
                    {label}
                    {chosen === (run.index ?? 0) && ' (chosen)'}
                  </th>
                  <td>
                    <StateBadge
                      state={run.state}
                      {...(run.outcome ? { outcome: run.outcome } : {})}
                    />
                  </td>
                  <td>
                    {share !== null && (
                      <span class="with-bar">
                        <Progress
                          share={share}
                          label={`Progress of ${label}`}
                        />
                        <span class="number">{percent(share)}</span>
                      </span>
                    )}
                  </td>
                  <td class="number">
                    {loss(
                      progress.hasValidationLoss
                        ? progress.validationLoss
                        : progress.loss,
                    )}
                  </td>
                  {chosen !== undefined && (
                    <td class="number">{loss(run.quality)}</td>
                  )}
                  <td class="number">
                    {progress.sizeParameters
                      ? short(int(progress.sizeParameters))
                      : '–'}
                  </td>
                  <td>
                    {run.job && (
                      <Link to={`/${pathOf(run.job)}`}>
                        {lastSegment(run.job)}
                      </Link>
                    )}
                  </td>
                  <td class="reason">{run.reason}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

function CancelSweep({ sweep }: { sweep: Sweep }) {
  const [asking, setAsking] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  if (isOver(sweep) || sweep.state === 'CANCELLING') return null;
  const cancel = async () => {
    setAsking(false);
    try {
      await post(`/v1/${pathOf(sweep.name ?? '')}:cancel`, {});
    } catch (problem) {
      setError(
        problem instanceof ApiError
          ? problem
          : new ApiError(0, String(problem)),
      );
    }
  };
  return (
    <div class="actions">
      <button type="button" class="danger" onClick={() => setAsking(true)}>
        Cancel…
      </button>
      {error && <ErrorNote error={error} />}
      <Dialog
        title="Cancel this sweep?"
        open={asking}
        onClose={() => setAsking(false)}
      >
        <p>
          Its running jobs are cancelled; finished ones and their models stay.
        </p>
        <div class="actions">
          <button type="button" onClick={() => setAsking(false)}>
            Keep it running
          </button>
          <button type="button" class="danger" onClick={() => void cancel()}>
            Cancel the sweep
          </button>
        </div>
      </Dialog>
    </div>
  );
}
