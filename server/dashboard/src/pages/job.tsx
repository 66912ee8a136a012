import { useEffect, useState } from 'preact/hooks';
import { post } from '../api/client';
import { ApiError } from '../api/errors';
import type { Job } from '../api/types';
import { useStore } from '../model/store';
import {
  allowed,
  displayName,
  etaSeconds,
  isFinal,
  progressShare,
} from '../model/job_state';
import {
  clock,
  count,
  int,
  lastSegment,
  percent,
  pathOf,
  span,
  millis,
  words,
} from '../model/format';
import {
  Dialog,
  ErrorNote,
  Labels,
  Loading,
  Progress,
  StateBadge,
} from '../ui/basics';
import { useNow } from '../ui/clock';
import { Link, route } from '../ui/navigation';
import { Tabs } from '../ui/tabs';
import { useJob, type OpenJob } from './use_job';
import { JobOverview } from './job_overview';
import { JobEvents } from './job_events';
import { JobExplain } from './job_explain';
import { JobFile } from './job_file';
import { JobLogs } from './job_logs';
import { JobModels } from './job_models';

const TABS = [
  ['', 'Overview'],
  ['events', 'Events'],
  ['logs', 'Logs'],
  ['models', 'Models'],
  ['file', 'Job file'],
  ['explain', 'Explain'],
] as const;

export function JobPage({ id }: { id: string }) {
  const open = useJob(`jobs/${id}`);
  const { tab } = useStore(route);
  const { job } = open.follower;
  const title = job ? displayName(job) : id;
  useEffect(() => {
    document.title = `${title} · comera`;
  }, [title]);

  if (!job) {
    return (
      <>
        <h1>{id}</h1>
        {open.error ? (
          <ErrorNote error={open.error} retry={open.reload} />
        ) : (
          <Loading what="the job" />
        )}
      </>
    );
  }
  const base = `/jobs/${encodeURIComponent(id)}`;
  return (
    <>
      <JobHead job={job} open={open} />
      {open.error && <ErrorNote error={open.error} retry={open.reload} />}
      <Tabs
        label="Views of the job"
        current={tab || 'overview'}
        tabs={TABS.map(([key, label]) => ({
          id: key || 'overview',
          label,
          to: key ? `${base}/${key}` : base,
        }))}
      >
        {tab === '' && <JobOverview open={open} job={job} />}
        {tab === 'events' && <JobEvents name={job.name ?? ''} />}
        {tab === 'logs' && <JobLogs job={job} />}
        {tab === 'models' && <JobModels job={job} />}
        {tab === 'file' && <JobFile job={job} />}
        {tab === 'explain' && <JobExplain name={job.name ?? ''} />}
      </Tabs>
    </>
  );
}

function JobHead({ job, open }: { job: Job; open: OpenJob }) {
  const now = useNow();
  const share = progressShare(job);
  const eta = etaSeconds(job);
  const progress = job.progress ?? {};
  const started = millis(job.startTime);
  const ended = millis(job.endTime) ?? now;
  return (
    <header class="job-head">
      <div class="page-head">
        <div>
          <p class="crumbs">
            <Link to="/jobs">Jobs</Link> / <code>{lastSegment(job.name)}</code>
            {job.sweep && (
              <>
                {' '}
                of{' '}
                <Link to={`/${pathOf(job.sweep)}`}>
                  sweep {lastSegment(job.sweep)}
                </Link>
              </>
            )}
          </p>
          <h1>{displayName(job)}</h1>
        </div>
        <JobActions job={job} onChanged={open.reload} />
      </div>
      <p class="state-line">
        <StateBadge
          state={job.state}
          {...(job.outcome ? { outcome: job.outcome } : {})}
        />
        {!isFinal(job.state) && <LiveMark open={open} />}
        <span class="reason">{job.reason}</span>
      </p>
      {share !== null && (
        <div class="job-progress">
          {!isFinal(job.state) && <Progress share={share} label="Steps done" />}
          <span class="number">
            step {count(int(progress.step))} of{' '}
            {count(int(progress.totalSteps))}
            {!isFinal(job.state) && ` (${percent(share)})`}
            {progress.stage && `, ${words(progress.stage)} stage`}
            {eta !== null &&
              job.state === 'RUNNING' &&
              `, about ${span(eta)} left`}
          </span>
        </div>
      )}
      <p class="meta">
        <Labels labels={job.spec?.labels} />
        <span>queue {job.spec?.queue || 'default'}</span>
        <span>priority {job.spec?.priority ?? 0}</span>
        {job.user && <span>by {job.user}</span>}
        <span>created {clock(job.createTime)}</span>
        {started !== null && <span>ran {span((ended - started) / 1000)}</span>}
        {int(job.attempt) > 1 && <span>attempt {int(job.attempt)}</span>}
      </p>
    </header>
  );
}

function LiveMark({ open }: { open: OpenJob }) {
  const { phase } = open.live;
  if (phase === 'live') return <span class="live on">live</span>;
  if (phase === 'waiting') return <span class="live off">reconnecting…</span>;
  return <span class="live">connecting…</span>;
}

function JobActions({ job, onChanged }: { job: Job; onChanged: () => void }) {
  const [asking, setAsking] = useState(false);
  const [reason, setReason] = useState('');
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  const may = allowed(job);
  const path = `/v1/${pathOf(job.name ?? '')}`;

  const act = async (verb: string, body: object) => {
    setBusy(true);
    setError(null);
    try {
      await post(`${path}:${verb}`, body);
      onChanged();
    } catch (problem) {
      setError(
        problem instanceof ApiError
          ? problem
          : new ApiError(0, String(problem)),
      );
    } finally {
      setBusy(false);
    }
  };

  return (
    <div class="actions">
      {may.pause && (
        <button
          type="button"
          disabled={busy}
          onClick={() => void act('pause', {})}
        >
          Pause
        </button>
      )}
      {may.resume && (
        <button
          type="button"
          disabled={busy}
          onClick={() => void act('resume', {})}
        >
          Resume
        </button>
      )}
      {may.cancel && (
        <button
          type="button"
          class="danger"
          disabled={busy}
          onClick={() => setAsking(true)}
        >
          Cancel…
        </button>
      )}
      <Link
        to={`/submit?like=${encodeURIComponent(job.name ?? '')}`}
        class="button"
      >
        Submit like this
      </Link>
      {error && <ErrorNote error={error} />}
      <Dialog
        title="Cancel this job?"
        open={asking}
        onClose={() => setAsking(false)}
      >
        <form
          onSubmit={(event) => {
            event.preventDefault();
            setAsking(false);
            void act('cancel', { reason });
          }}
        >
          <p>Its processes are stopped. Models that it has exported so far stay.</p>
          <label class="field">
            Reason (optional)
            <input
              type="text"
              maxLength={500}
              value={reason}
              onInput={(event) => setReason(event.currentTarget.value)}
            />
          </label>
          <div class="actions">
            <button type="button" onClick={() => setAsking(false)}>
              Keep it running
            </button>
            <button type="submit" class="danger">
              Cancel the job
            </button>
          </div>
        </form>
      </Dialog>
    </div>
  );
}
