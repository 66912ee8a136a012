import { useEffect } from 'preact/hooks';
import type { Sweep } from '../api/types';
import { usePoll } from '../api/poll';
import { age, lastSegment } from '../model/format';
import { useStore } from '../model/store';
import { Empty, ErrorNote, Loading, Progress, StateBadge } from '../ui/basics';
import { useNow } from '../ui/clock';
import { Link, navigate, route } from '../ui/navigation';

export function SweepsPage() {
  const { query } = useStore(route);
  const after = query.get('after') ?? '';
  const path = `/v1/sweeps?pageSize=50${after ? `&pageToken=${encodeURIComponent(after)}` : ''}`;
  const { data, error, refresh } = usePoll<{
    sweeps?: Sweep[];
    nextPageToken?: string;
  }>(path, 4000);
  const now = useNow(5000);
  useEffect(() => {
    document.title = 'Sweeps · comera';
  }, []);
  const sweeps = data?.sweeps ?? [];
  return (
    <>
      <div class="page-head">
        <h1>Sweeps</h1>
      </div>
      {error && <ErrorNote error={error} retry={refresh} />}
      {!data && !error && <Loading what="sweeps" />}
      {data && sweeps.length === 0 && (
        <Empty title="No sweeps yet">
          <p>
            A sweep trains one job file with many settings and compares what
            comes out: <code>comera sweep FILE.yaml</code>.
          </p>
        </Empty>
      )}
      {sweeps.length > 0 && (
        <table class="jobs">
          <caption class="sr-only">Sweeps, newest first</caption>
          <thead>
            <tr>
              <th scope="col">Sweep</th>
              <th scope="col">State</th>
              <th scope="col">Runs</th>
              <th scope="col">Hyper-volume</th>
              <th scope="col">Age</th>
            </tr>
          </thead>
          <tbody>
            {sweeps.map((sweep) => (
              <SweepRow key={sweep.name} sweep={sweep} now={now} />
            ))}
          </tbody>
        </table>
      )}
      {(after || data?.nextPageToken) && (
        <nav class="pager" aria-label="Pages of sweeps">
          <button
            type="button"
            disabled={!after}
            onClick={() => history.back()}
          >
            Newer
          </button>
          <button
            type="button"
            disabled={!data?.nextPageToken}
            onClick={() =>
              navigate(
                `/sweeps?after=${encodeURIComponent(data?.nextPageToken ?? '')}`,
              )
            }
          >
            Older
          </button>
        </nav>
      )}
    </>
  );
}

function SweepRow({ sweep, now }: { sweep: Sweep; now: number }) {
  const id = lastSegment(sweep.name);
  const counts = sweep.counts ?? {};
  const runs = counts.runs ?? sweep.runs?.length ?? 0;
  const done =
    (counts.succeeded ?? 0) +
    (counts.failed ?? 0) +
    (counts.cancelled ?? 0) +
    (counts.stopped ?? 0);
  const name = sweep.spec?.displayName || id;
  return (
    <tr>
      <th scope="row">
        <Link to={`/sweeps/${encodeURIComponent(id)}`} class="row-link">
          {name}
        </Link>
        <span class="sub">
          {name !== id && <code>{id}</code>}
          {sweep.user && <span>{sweep.user}</span>}
        </span>
      </th>
      <td data-label="State">
        <StateBadge
          state={sweep.state}
          {...(sweep.outcome ? { outcome: sweep.outcome } : {})}
        />
      </td>
      <td data-label="Runs">
        <span class="with-bar">
          <Progress
            share={runs ? done / runs : 0}
            label={`Finished runs of ${name}`}
          />
          <span class="number">
            {done} of {runs}
          </span>
        </span>
      </td>
      <td class="number" data-label="Hyper-volume">
        {sweep.front?.hypervolumeRatio !== undefined
          ? sweep.front.hypervolumeRatio.toFixed(3)
          : '–'}
      </td>
      <td class="number" data-label="Age">
        {age(sweep.createTime, now)}
      </td>
    </tr>
  );
}
