import { useEffect, useRef, useState } from 'preact/hooks';
import type { Job, ListJobsResponse, Queue } from '../api/types';
import { usePoll } from '../api/poll';
import { address } from '../model/route';
import {
  displayName,
  etaSeconds,
  isFinal,
  JOB_STATES,
  progressShare,
  stateWord,
} from '../model/job_state';
import {
  age,
  count,
  int,
  lastSegment,
  loss,
  NONE,
  percent,
  short,
  span,
} from '../model/format';
import { useStore } from '../model/store';
import {
  Empty,
  ErrorNote,
  Labels,
  Loading,
  Progress,
  StateBadge,
} from '../ui/basics';
import { useNow } from '../ui/clock';
import { Link, navigate, route } from '../ui/navigation';
import { searchNext } from '../ui/shortcuts';

const PAGE = 50;

export function JobsPage() {
  const { query } = useStore(route);
  const text = query.get('q') ?? '';
  const states = query.getAll('state');
  const queue = query.get('queue') ?? '';
  const after = query.get('after') ?? '';

  const parameters = new URLSearchParams({
    pageSize: String(PAGE),
    view: 'JOB_VIEW_BASIC',
  });
  if (text) parameters.set('text', text);
  if (queue) parameters.set('queue', queue);
  if (after) parameters.set('pageToken', after);
  for (const state of states) parameters.append('states', state);
  const jobs = usePoll<ListJobsResponse>(`/v1/jobs?${parameters}`, 2000);
  const queues = usePoll<{ queues?: Queue[] }>('/v1/queues', 30000);
  const now = useNow(5000);

  const go = (changes: Record<string, string | string[]>, replace = false) =>
    navigate(
      address('/jobs', { q: text, state: states, queue, ...changes }),
      replace,
    );
  const filtered = text !== '' || states.length > 0 || queue !== '';
  const list = jobs.data?.jobs ?? [];
  const total = jobs.data?.totalSize;

  return (
    <>
      <div class="page-head">
        <h1>Jobs</h1>
        <Link to="/submit" class="button primary">
          Submit a job
        </Link>
      </div>
      <form
        class="filters"
        role="search"
        aria-label="Jobs"
        onSubmit={(event) => event.preventDefault()}
      >
        <SearchField value={text} onSearch={(q) => go({ q }, true)} />
        <label class="select">
          <span>Queue</span>
          <select
            value={queue}
            onChange={(event) => go({ queue: event.currentTarget.value })}
          >
            <option value="">all</option>
            {(queues.data?.queues ?? []).map((one) => {
              const id = lastSegment(one.name);
              return (
                <option key={id} value={id}>
                  {id}
                </option>
              );
            })}
          </select>
        </label>
        <fieldset class="chips">
          <legend class="sr-only">States</legend>
          {JOB_STATES.map((state) => (
            <label key={state} class="toggle">
              <input
                type="checkbox"
                checked={states.includes(state)}
                onChange={(event) =>
                  go({
                    state: event.currentTarget.checked
                      ? [...states, state]
                      : states.filter((other) => other !== state),
                  })
                }
              />
              <span>{stateWord(state)}</span>
            </label>
          ))}
        </fieldset>
        {filtered && (
          <button type="button" class="quiet" onClick={() => navigate('/jobs')}>
            Clear
          </button>
        )}
      </form>
      {jobs.error && <ErrorNote error={jobs.error} retry={jobs.refresh} />}
      {!jobs.data && jobs.loading && <Loading what="jobs" />}
      {jobs.data && list.length === 0 && (
        <Empty title={filtered ? 'No job matches' : 'No jobs yet'}>
          {filtered ? (
            <p>Try fewer words or states.</p>
          ) : (
            <p>
              <Link to="/submit">Submit one here</Link>, or with{' '}
              <code>comera submit job.yaml</code>.
            </p>
          )}
        </Empty>
      )}
      {list.length > 0 && (
        <>
          <JobTable
            jobs={list}
            now={now}
            caption={`Jobs, newest first`}
            busy={jobs.loading}
          />
          <nav class="pager" aria-label="Pages of jobs">
            <span role="status">
              {total !== undefined &&
                `${count(total)} ${total === 1 ? 'job' : 'jobs'}`}
            </span>
            <button
              type="button"
              disabled={!after}
              onClick={() => history.back()}
            >
              Newer
            </button>
            <button
              type="button"
              disabled={!jobs.data?.nextPageToken}
              onClick={() => {
                go({ after: jobs.data?.nextPageToken ?? '' });
                window.scrollTo(0, 0);
              }}
            >
              Older
            </button>
          </nav>
        </>
      )}
    </>
  );
}

function SearchField({
  value,
  onSearch,
}: {
  value: string;
  onSearch: (text: string) => void;
}) {
  const [typed, setTyped] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (searchNext.value) field.current?.focus();
    searchNext.set(false);
  }, []);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <label class="search">
      <span class="sr-only">Search jobs by name or label</span>
      <input
        id="search"
        ref={field}
        type="search"
        placeholder="Name or label  ( / )"
        autocomplete="off"
        maxLength={256}
        value={typed}
        onInput={(event) => {
          const text = event.currentTarget.value;
          setTyped(text);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => onSearch(text), 150);
        }}
      />
    </label>
  );
}

export function JobTable({
  jobs,
  now,
  caption,
  busy,
}: {
  jobs: Job[];
  now: number;
  caption: string;
  busy?: boolean;
}) {
  return (
    <table class="jobs" aria-busy={busy ?? false}>
      <caption class="sr-only">{caption}</caption>
      <thead>
        <tr>
          <th scope="col">Job</th>
          <th scope="col">State</th>
          <th scope="col">Progress</th>
          <th scope="col">Loss → target</th>
          <th scope="col">Size → target</th>
          <th scope="col">Processes</th>
          <th scope="col">Queue</th>
          <th scope="col">Age</th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <JobRow key={job.name} job={job} now={now} />
        ))}
      </tbody>
    </table>
  );
}

function JobRow({ job, now }: { job: Job; now: number }) {
  const id = lastSegment(job.name);
  const progress = job.progress ?? {};
  const share = progressShare(job);
  const eta = etaSeconds(job);
  const name = displayName(job);
  const current = progress.hasValidationLoss
    ? progress.validationLoss
    : progress.loss;
  const resources = job.spec?.resources ?? {};
  return (
    <tr>
      <th scope="row">
        <Link to={`/jobs/${encodeURIComponent(id)}`} class="row-link">
          {name}
        </Link>
        <span class="sub">
          {name !== id && <code>{id}</code>}
          {job.user && <span>{job.user}</span>}
          <Labels labels={job.spec?.labels} />
        </span>
      </th>
      <td data-label="State">
        <StateBadge
          state={job.state}
          {...(job.outcome ? { outcome: job.outcome } : {})}
        />
      </td>
      <td data-label="Progress">
        {share === null ? (
          <span class="muted">{NONE}</span>
        ) : isFinal(job.state) ? (
          <span class="muted number">
            {count(int(progress.step))} of {count(int(progress.totalSteps))}{' '}
            steps
          </span>
        ) : (
          <span class="with-bar">
            <Progress share={share} label={`Progress of ${name}`} />
            <span class="number">
              {percent(share)}
              {eta !== null && job.state === 'RUNNING' && (
                <small> {span(eta)} left</small>
              )}
            </span>
          </span>
        )}
      </td>
      <td class="number" data-label="Loss">
        {loss(current)}
        {progress.targetLoss ? (
          <span class="muted"> → {loss(progress.targetLoss)}</span>
        ) : null}
      </td>
      <td class="number" data-label="Size">
        {progress.sizeParameters ? short(int(progress.sizeParameters)) : NONE}
        {progress.targetSizeParameters ? (
          <span class="muted">
            {' '}
            → {short(int(progress.targetSizeParameters))}
          </span>
        ) : null}
      </td>
      <td class="number" data-label="Processes">
        {resources.minProcesses ? `${resources.minProcesses}–` : ''}
        {resources.processes || 1}
      </td>
      <td data-label="Queue">{job.spec?.queue || 'default'}</td>
      <td class="number" data-label="Age">
        {age(job.createTime, now)}
      </td>
    </tr>
  );
}
