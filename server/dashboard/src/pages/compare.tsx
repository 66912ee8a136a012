import { useEffect, useMemo, useState } from 'preact/hooks';
import { request } from '../api/client';
import { ApiError } from '../api/errors';
import { usePoll } from '../api/poll';
import type { Job, JobSeries, ListJobsResponse } from '../api/types';
import { camel, float, int, lastSegment, loss, short } from '../model/format';
import { displayName, isFinal } from '../model/job_state';
import { SeriesStore } from '../model/series_store';
import { useStore } from '../model/store';
import { Empty, ErrorNote, Loading, StateBadge } from '../ui/basics';
import { Link, route } from '../ui/navigation';
import { Plot, type Zoom } from '../ui/plot';
import { MOST_COMPARED } from './bulk_actions';

const COLORS = [
  '--series-1',
  '--series-2',
  '--series-3',
  '--series-4',
  '--series-5',
  '--series-6',
];
const POINTS = 1000;
const RELOAD_MS = 5000;

const PLOTS = [
  { metric: 'validationLoss', title: 'Validation loss', format: loss },
  { metric: 'smoothedLoss', title: 'Training loss, smoothed', format: loss },
  { metric: 'sizeParameters', title: 'Size (parameters)', format: short },
  { metric: 'samplesPerSecond', title: 'Samples per second', format: short },
] as const;
const WANTED =
  '&metrics=validation_loss&metrics=smoothed_loss' +
  '&metrics=size_parameters&metrics=samples_per_second';

/** Puts a job's series into the store, under names of their own. */
function take(store: SeriesStore, id: string, series: JobSeries): void {
  for (const one of series.series ?? []) {
    const steps: number[] = [];
    const values: number[] = [];
    (one.values ?? []).forEach((raw, index) => {
      const value = float(raw);
      if (value === null) return;
      steps.push(int(one.steps?.[index]));
      values.push(value);
    });
    store.replace(`${id}/${camel(one.metric ?? '')}`, steps, values);
  }
}

function useCompared(ids: string[]) {
  const store = useMemo(() => new SeriesStore(), [ids.join()]);
  const [jobs, setJobs] = useState<Job[]>([]);
  const [version, setVersion] = useState(0);
  const [error, setError] = useState('');
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const load = async () => {
      try {
        const options = { signal: abort.signal };
        const found = await Promise.all(
          ids.map((id) =>
            request<Job>(`/v1/jobs/${encodeURIComponent(id)}`, options),
          ),
        );
        const all = await Promise.all(
          ids.map((id) =>
            request<JobSeries>(
              `/v1/jobs/${encodeURIComponent(id)}:series?maxPoints=${POINTS}${WANTED}`,
              options,
            ),
          ),
        );
        all.forEach((series, index) => take(store, ids[index] ?? '', series));
        setJobs(found);
        setError('');
        setVersion((v) => v + 1);
        if (found.every((job) => isFinal(job.state))) return;
      } catch (problem) {
        if (abort.signal.aborted) return;
        setError(
          problem instanceof ApiError ? problem.message : String(problem),
        );
      }
      timer = setTimeout(() => void load(), RELOAD_MS);
    };
    void load();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [ids.join()]);
  return { store, jobs, version, error };
}

/** Curves of several jobs over one another: /compare?job=A&job=B. */
export function ComparePage() {
  const { query } = useStore(route);
  const ids = query.getAll('job').slice(0, MOST_COMPARED);
  const { store, jobs, version, error } = useCompared(ids);
  const [zoom, setZoom] = useState<Zoom>(null);
  useEffect(() => {
    document.title = 'Compare jobs · comera';
  }, []);
  if (ids.length === 0) return <ChooseJobs />;
  return (
    <>
      <div class="page-head">
        <div>
          <p class="crumbs">
            <Link to="/jobs">Jobs</Link> / compare
          </p>
          <h1>Compare {ids.length} jobs</h1>
        </div>
      </div>
      {error && <ErrorNote error={error} />}
      {jobs.length === 0 && !error && <Loading what="the jobs" />}
      {jobs.length > 0 && (
        <>
          <table class="plain">
            <caption class="sr-only">The jobs that are compared</caption>
            <thead>
              <tr>
                <th scope="col">Job</th>
                <th scope="col">State</th>
                <th scope="col">Validation loss</th>
                <th scope="col">Parameters</th>
                <th scope="col">Step</th>
              </tr>
            </thead>
            <tbody>
              {jobs.map((job, index) => (
                <tr key={job.name}>
                  <th scope="row">
                    <i
                      class="swatch"
                      aria-hidden="true"
                      style={{ background: `var(${COLORS[index]})` }}
                    />
                    <Link
                      to={`/jobs/${encodeURIComponent(lastSegment(job.name))}`}
                    >
                      {displayName(job)}
                    </Link>
                  </th>
                  <td>
                    <StateBadge
                      state={job.state}
                      {...(job.outcome ? { outcome: job.outcome } : {})}
                    />
                  </td>
                  <td class="number">
                    {job.progress?.hasValidationLoss
                      ? loss(job.progress.validationLoss)
                      : '–'}
                  </td>
                  <td class="number">
                    {short(int(job.progress?.sizeParameters))}
                  </td>
                  <td class="number">{short(int(job.progress?.step))}</td>
                </tr>
              ))}
            </tbody>
          </table>
          <div class="plots">
            {PLOTS.map(({ metric, title, format }) => (
              <Plot
                key={metric}
                title={title}
                store={store}
                version={version}
                format={format}
                zoom={zoom}
                onZoom={setZoom}
                series={jobs.map((job, index) => ({
                  metric: `${lastSegment(job.name)}/${metric}`,
                  label: displayName(job),
                  color: COLORS[index] as string,
                }))}
              />
            ))}
          </div>
        </>
      )}
    </>
  );
}

function ChooseJobs() {
  const { data } = usePoll<ListJobsResponse>(
    `/v1/jobs?pageSize=${MOST_COMPARED}&view=JOB_VIEW_BASIC`,
    0,
  );
  const newest = (data?.jobs ?? []).map((job) => lastSegment(job.name));
  return (
    <>
      <h1>Compare jobs</h1>
      <Empty title="No jobs to compare">
        <p>
          Tick two to six jobs in <Link to="/jobs">the list</Link> and choose
          “Compare curves”
          {newest.length > 1 && (
            <>
              , or{' '}
              <Link
                to={`/compare?${newest.map((id) => `job=${encodeURIComponent(id)}`).join('&')}`}
              >
                compare the newest
              </Link>
            </>
          )}
          .
        </p>
      </Empty>
    </>
  );
}
