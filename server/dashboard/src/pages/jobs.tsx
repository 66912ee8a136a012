import type { ComponentChildren } from 'preact';
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
  stateReason,
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
import { BulkActions } from './bulk_actions';

const PAGE = 50;

export function JobsPage() {
  const { query } = useStore(route);
  const text = query.get('q') ?? '';
  const states = query.getAll('state');
  const queue = query.get('queue') ?? '';
  const after = query.get('after') ?? '';
  const order = query.get('order') ?? '';
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());

  const parameters = new URLSearchParams({
    pageSize: String(PAGE),
    view: 'JOB_VIEW_BASIC',
  });
  if (text) parameters.set('text', text);
  if (queue) parameters.set('queue', queue);
  if (after) parameters.set('pageToken', after);
  if (order) parameters.set('orderBy', order);
  for (const state of states) parameters.append('states', state);
  const jobs = usePoll<ListJobsResponse>(`/v1/jobs?${parameters}`, 2000);
  const queues = usePoll<{ queues?: Queue[] }>('/v1/queues', 30000);
  const now = useNow(5000);

  const go = (changes: Record<string, string | string[]>, replace = false) =>
    navigate(
      address('/jobs', { q: text, state: states, queue, order, ...changes }),
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
          <BulkActions
            jobs={list.filter((job) => chosen.has(job.name ?? ''))}
            onDone={() => {
              setChosen(new Set());
              jobs.refresh();
            }}
          />
          <JobTable
            jobs={list}
            now={now}
            caption={order ? `Jobs by ${order}` : 'Jobs, newest first'}
            busy={jobs.loading}
            sort={{ order, onSort: (next) => go({ order: next }) }}
            choice={{
              chosen,
              onChoose: (names, on) => {
                const next = new Set(chosen);
                for (const name of names)
                  if (on) next.add(name);
                  else next.delete(name);
                setChosen(next);
              },
            }}
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
              {order ? 'Back' : 'Newer'}
            </button>
            <button
              type="button"
              disabled={!jobs.data?.nextPageToken}
              onClick={() => {
                go({ after: jobs.data?.nextPageToken ?? '' });
                window.scrollTo(0, 0);
              }}
            >
              {order ? 'Next' : 'Older'}
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

/** The order of the rows, as ListJobsRequest.order_by; "" for newest first. */
export interface Sort {
  order: string;
  onSort: (order: string) => void;
}

/** Names of the jobs that are ticked. */
export interface Choice {
  chosen: ReadonlySet<string>;
  onChoose: (names: string[], on: boolean) => void;
}

export function JobTable({
  jobs,
  now,
  caption,
  busy,
  sort,
  choice,
}: {
  jobs: Job[];
  now: number;
  caption: string;
  busy?: boolean;
  sort?: Sort;
  choice?: Choice;
}) {
  const names = jobs.map((job) => job.name ?? '');
  const all = names.every((name) => choice?.chosen.has(name));
  return (
    <table class="jobs" aria-busy={busy ?? false}>
      <caption class="sr-only">{caption}</caption>
      <thead>
        <tr>
          {choice && (
            <td class="tick-cell">
              <input
                type="checkbox"
                aria-label="Choose all jobs of this page"
                checked={all}
                onChange={() => choice.onChoose(names, !all)}
              />
            </td>
          )}
          <SortHead by="name" sort={sort}>
            Job
          </SortHead>
          <SortHead by="state" sort={sort}>
            State
          </SortHead>
          <SortHead by="progress" sort={sort}>
            Progress
          </SortHead>
          <SortHead by="loss" sort={sort}>
            Loss → target
          </SortHead>
          <SortHead by="size" sort={sort}>
            Size → target
          </SortHead>
          <th scope="col">Processes</th>
          <th scope="col">Queue</th>
          <SortHead by="created" sort={sort}>
            Age
          </SortHead>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <JobRow
            key={job.name}
            job={job}
            now={now}
            {...(choice ? { choice } : {})}
          />
        ))}
      </tbody>
    </table>
  );
}

/** A heading that sorts by its column: first one way, then the other, then not. */
function SortHead({
  by,
  sort,
  children,
}: {
  by: string;
  sort: Sort | undefined;
  children: ComponentChildren;
}) {
  if (!sort) return <th scope="col">{children}</th>;
  const up = sort.order === by;
  const down = sort.order === `${by} desc`;
  return (
    <th
      scope="col"
      aria-sort={up ? 'ascending' : down ? 'descending' : 'none'}
    >
      <button
        type="button"
        class="sort"
        onClick={() => sort.onSort(up ? `${by} desc` : down ? '' : by)}
      >
        {children}
        <span aria-hidden="true">{up ? ' ↑' : down ? ' ↓' : ''}</span>
      </button>
    </th>
  );
}

function JobRow({
  job,
  now,
  choice,
}: {
  job: Job;
  now: number;
  choice?: Choice;
}) {
  const reason = stateReason(job);
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
      {choice && (
        <td class="tick-cell">
          <input
            type="checkbox"
            aria-label={`Choose ${name}`}
            checked={choice.chosen.has(job.name ?? '')}
            onChange={(event) =>
              choice.onChoose([job.name ?? ''], event.currentTarget.checked)
            }
          />
        </td>
      )}
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
        {reason && (
          <span class="why" title={reason}>
            {reason}
          </span>
        )}
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
